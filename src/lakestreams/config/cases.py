"""The files of `lakestreams test` as types: what goes into a topology, and what should come out."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, JsonValue, StringConstraints, model_validator

from lakestreams.config.parts import Model, Name, Sql, exactly_one

At: TypeAlias = int | str
Raw = Annotated[Any, Field(description="What the format holds; null; or bytes as {base64: ...} or {text: ...}.")]
Kind = Literal["record", "matched", "unmatched", "tombstone"]


class GivenSpec(Model):
    """A record that goes in."""

    to: Name = Field(description="The name of the source.")
    key: Raw
    value: Raw
    at: At = Field(
        description="The record's timestamp: ms, a duration such as 2 s, or a time such as 2026-01-31T12:00:00Z."
    )
    partition: int = Field(default=0, ge=0, description="The partition of the source's topic.")


class ExpectedSpec(Model):
    """A record that comes out."""

    key: Any = Field(description="The key's only column, or a mapping of its columns; null is a null key.")
    value: dict[str, Any] | None = Field(description="All columns of the value; null is a tombstone.")
    at: At = Field(description="Its time: ms, a duration such as 2 s, or a time such as 2026-01-31T12:00:00Z.")
    kind: Kind | None = Field(default=None, description="Compared where it is given.")
    after: int | None = Field(
        default=None, ge=1, description="The number of the given record that caused it, from 1; compared where given."
    )


class RefusedSpec(Model):
    """A given record that some step refuses."""

    record: int = Field(ge=1, description="Its number, from 1.")
    code: Name = Field(description="The reason, such as MALFORMED_VALUE, NULL_KEY or LATE.")


class RowSpec(Model):
    """A row of a table at the end."""

    key: Any = Field(description="The key's only column, or a mapping of its columns.")
    value: dict[str, Any] = Field(description="All columns of the value.")


# One of these, else a case compares nothing and always passes.
_COMPARING: Final[list[JsonValue]] = [
    {"required": ["refused"]},
    {"required": ["expect"], "properties": {"expect": {"minProperties": 1}}},
    {"required": ["table"], "properties": {"table": {"minProperties": 1}}},
]


class CaseSpec(Model):
    """A case: records that go in, in this order, and what should come out. What is not mentioned is not compared."""

    model_config = ConfigDict(json_schema_extra={"anyOf": _COMPARING})  # judged by the loader, with its place

    name: Annotated[str, StringConstraints(min_length=1, max_length=500)] = Field(description="What it shows.")
    given: tuple[GivenSpec, ...] = Field(description="The records, each processed completely before the next.")
    expect: dict[Name, tuple[ExpectedSpec, ...]] = Field(
        default={}, description="Outputs with all of their records, in order; [] is none."
    )
    refused: tuple[RefusedSpec, ...] | None = Field(
        default=None, description="All records that some step refuses, in any order; [] is none."
    )
    table: dict[Name, tuple[RowSpec, ...]] = Field(
        default={}, description="Outputs that are tables with all of their rows at the end, in any order."
    )


class CasesFile(Model):
    """A file of `lakestreams test`: cases of one topology."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["pipeline"]}, {"required": ["topology"]}],
            "dependentRequired": {"sources": ["pipeline"]},
        }
    )

    pipeline: Sql | None = Field(default=None, description="The pipeline's file, seen from this file's folder.")
    sources: Sql | None = Field(
        default=None, description="Its file of topics; by default sources.yml in the pipeline's folder."
    )
    topology: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$")] | None = (
        Field(default=None, description="module:function of a Python topology, instead of a pipeline's file.")
    )
    partitions: dict[Name, Annotated[int, Field(ge=1, le=1000)]] = Field(
        default={}, description="Sources with the partition counts of their topics; 1 where not said."
    )
    cases: tuple[CaseSpec, ...] = Field(json_schema_extra={"minItems": 1})  # judged by the loader, with its place

    @model_validator(mode="after")
    def _one_way(self) -> CasesFile:
        exactly_one(self, ("pipeline", "topology"), "a file of cases")
        if self.sources is not None and self.pipeline is None:
            msg = "sources belongs to pipeline; a topology in Python has no sources file"
            raise ValueError(msg)
        return self
