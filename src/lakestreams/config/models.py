"""The two configuration files as types: what `conf/sources.yml` and a pipeline's file may say.

The choices come from the topology's own types, so that file, Python and messages cannot drift apart. JSON Schemas for
editors are generated from here (`python -m lakestreams.config.schema`).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from lakestreams.formats import Json, Long, RegistryJson, Text
from lakestreams.formats.base import Format
from lakestreams.topology.nodes import (
    CoPartitioning,
    ExpectationAction,
    NullValues,
    Source,
    StreamTableJoin,
)

TopicKind = Literal["stream", "table"]  # global tables are declared in Python so far
OutputMode = Literal["append"]

Name: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=249)]
Sql: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]  # also schemas: any longer text
Select: TypeAlias = Annotated[dict[Name, Sql], Field(min_length=1)]

_JOINS: Final = ("join", "left_join")
_STEPS: Final = ("join", "left_join", "filter", "map_values", "select_key")


class _Model(BaseModel):
    """What all parts share: they do not change, and unknown keys are faults."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=False)


def _exactly_one(spec: _Model, names: tuple[str, ...], what: str) -> None:
    keys = {name: info.alias or name for name, info in type(spec).model_fields.items()}
    given = [keys[name] for name in names if getattr(spec, name) is not None]
    if len(given) != 1:
        found = f", not {' and '.join(given)} together" if given else ""
        msg = f"{what} has exactly one of {', '.join(keys[name] for name in names)}{found}"
        raise ValueError(msg)


class FormatSpec(_Model):
    """How bytes are read: exactly one of the formats."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    text: Name | None = Field(default=None, description="UTF-8 text as one string column of this name.")
    long: Name | None = Field(default=None, description="Kafka's eight-byte long as one bigint column of this name.")
    json_: Sql | None = Field(
        default=None, alias="json", description="A JSON object with these columns, such as 'ms bigint, page string'."
    )
    registry_json: Sql | None = Field(default=None, description="The same behind a schema registry's five-byte prefix.")

    @model_validator(mode="after")
    def _one(self) -> FormatSpec:
        _exactly_one(self, ("text", "long", "json_", "registry_json"), "a format")
        return self

    def build(self) -> Format:
        """The format itself.

        Raises:
            InvalidFormat: if the column name or the schema cannot be used.
        """
        if self.text is not None:
            fmt: Format = Text(self.text)
            fmt.fields  # noqa: B018 - a name that tables cannot carry is refused here, where its place is known
            return fmt
        if self.long is not None:
            fmt = Long(self.long)
            fmt.fields  # noqa: B018 - as above
            return fmt
        return Json(self.json_) if self.json_ is not None else RegistryJson(self.registry_json or "")


class EventTimeSpec(_Model):
    """Where the event time comes from."""

    field: Name = Field(description="A column of the value: bigint (ms since the epoch) or timestamp.")
    fallback: bool = Field(
        default=True, description="Whether the record's own timestamp stands in where the field is unusable."
    )


def _event_time(given: object) -> object:
    return {"field": given} if isinstance(given, str) else given


class ExpectationsSpec(_Model):
    """What is expected of a stream's records, and what happens to those that differ."""

    keys_not_null: ExpectationAction = Field(
        default=Source.keys_not_null, description="What happens to records without a key."
    )


class TopicSpec(_Model):
    """A topic as a stream or as a table."""

    kind: TopicKind = Field(description="stream: records are points; table: records are versions of their key.")
    topic: Name | None = Field(default=None, description="The Kafka topic; by default the source's name.")
    key: FormatSpec = Field(description="How the key's bytes are read.")
    value: FormatSpec = Field(description="How the value's bytes are read.")
    event_time: (
        Annotated[EventTimeSpec, BeforeValidator(_event_time, json_schema_input_type=str | EventTimeSpec)] | None
    ) = Field(
        default=None,
        description="A column of the value, with the record's own timestamp as fallback; by default the latter alone.",
    )
    max_future: Name = Field(default="1 day", description="Records dated further past their ingest are quarantined.")
    null_values: NullValues | None = Field(
        default=None, description="What happens to a stream's null values; quarantine by default."
    )
    expectations: ExpectationsSpec | None = Field(default=None, description="Expectations of a stream's records.")

    @model_validator(mode="after")
    def _of_a_stream(self) -> TopicSpec:
        if self.kind == "table":
            given = [name for name in ("null_values", "expectations") if getattr(self, name) is not None]
            if given:
                msg = f"{' and '.join(given)}: a table has none (a null value deletes a row, a null key is quarantined)"
                raise ValueError(msg)
        return self


class KafkaSpec(_Model):
    """How Kafka is reached."""

    bootstrap_servers: Sql = Field(description="host:port, several joined by commas.")
    options: dict[str, str | int | bool] = Field(
        default_factory=dict,
        description="Consumer options by Kafka's names; secrets as secret://scope/key or ${NAME} (docs/kafka-options.md).",
    )


class SourcesFile(_Model):
    """conf/sources.yml: Kafka and its topics, once for all pipelines."""

    kafka: KafkaSpec
    topics: Annotated[dict[Name, TopicSpec], Field(min_length=1)]


class SettingsSpec(_Model):
    """How much a cycle takes in, and when it stops."""

    max_offsets_per_trigger: int = Field(
        default=1_000_000, ge=1, description="Records that one ingest takes from Kafka at most."
    )
    max_bad_share: float = Field(
        default=0.05, ge=0, le=1, description="The share of unreadable records of a source at which a run stops."
    )
    snapshot_every: int = Field(default=16, ge=1, description="Cycles between two snapshots of a table's state.")


class JoinSpec(_Model):
    """A stream, and the table in which each of its records looks up its key."""

    left: Name = Field(description="A stream: a source or a step.")
    right: Name = Field(description="A table: a source or a step.")
    co_partitioning: CoPartitioning = Field(
        default=StreamTableJoin.co_partitioning, description="What unequal partition counts of the two topics mean."
    )


class FilterSpec(_Model):
    """The records for which an expression is true."""

    from_: Name = Field(alias="from", description="A source or a step.")
    where: Sql = Field(description="A SQL expression over the columns of the input.")


class SelectSpec(_Model):
    """New columns for each record."""

    from_: Name = Field(alias="from", description="A source or a step.")
    select: Select = Field(description="Column names with their SQL expressions.")


class StepSpec(_Model):
    """A step: exactly one of the verbs; a join may have a `select` beside it."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": [verb]} for verb in _STEPS],
            "dependentSchemas": {"select": {"anyOf": [{"required": [verb]} for verb in _JOINS]}},
        }
    )

    join: JoinSpec | None = Field(default=None, description="Records with a row of their key; others give no result.")
    left_join: JoinSpec | None = Field(default=None, description="Records with the row of their key, or with nulls.")
    filter: FilterSpec | None = Field(default=None, description="Records for which an expression is true.")
    map_values: SelectSpec | None = Field(default=None, description="New values; key, time and order stay.")
    select_key: SelectSpec | None = Field(default=None, description="A new key; value, time and order stay.")
    select: Select | None = Field(
        default=None, description="The columns of a join's result; by default all of both sides."
    )

    @model_validator(mode="after")
    def _one(self) -> StepSpec:
        _exactly_one(self, _STEPS, "a step")
        if self.select is not None and self.join is None and self.left_join is None:
            msg = "select stands beside join or left_join; map_values and select_key have it inside"
            raise ValueError(msg)
        return self

    @property
    def inputs(self) -> tuple[tuple[str, str], ...]:
        """The names it refers to, each with the path to it inside the step."""
        for verb in _JOINS:
            join: JoinSpec | None = getattr(self, verb)
            if join is not None:
                return ((f"{verb}.left", join.left), (f"{verb}.right", join.right))
        one = self.filter or self.map_values or self.select_key
        verb = next(verb for verb in _STEPS if getattr(self, verb) is not None)
        return ((f"{verb}.from", one.from_),) if one is not None else ()


class OutputSpec(_Model):
    """A Delta table that a stream is written to."""

    from_: Name = Field(alias="from", description="A stream: a source or a step.")
    mode: OutputMode = Field(default="append", description="append: one append a cycle.")
    cluster_by: tuple[Name, ...] = Field(default=(), description="Columns for liquid clustering.")
    partition_by: tuple[Name, ...] = Field(
        default=(), description="Columns for partitions; not together with cluster_by."
    )


class PipelineFile(_Model):
    """One pipeline: its steps and outputs, or the Python function that declares them."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["outputs"]}, {"required": ["topology"]}]},
    )

    pipeline: Name = Field(description="Its name, in tables and in the ledger.")
    settings: SettingsSpec = SettingsSpec()
    steps: dict[Name, StepSpec] | None = Field(default=None, description="Step names with what they do, in any order.")
    outputs: dict[Name, OutputSpec] | None = Field(
        default=None, description="Table names with the stream that is written to them."
    )
    topology: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$")] | None = (
        Field(default=None, description="module:function of a Python topology, instead of steps and outputs.")
    )

    @model_validator(mode="after")
    def _one_way(self) -> PipelineFile:
        declared = [name for name in ("steps", "outputs") if getattr(self, name) is not None]
        if self.topology is not None and declared:
            msg = f"topology names a Python function, so it takes the place of {' and '.join(declared)}"
            raise ValueError(msg)
        if self.topology is None and self.outputs is None:
            msg = "a pipeline has outputs (and steps), or topology: module:function"
            raise ValueError(msg)
        return self


def json_text(value: Any) -> str:
    """A Kafka option's value as Kafka writes it: true and 60000 rather than True and 60_000."""
    return str(value).lower() if isinstance(value, bool) else str(value)
