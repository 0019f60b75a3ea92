"""What a file may expect of the rows of a source, a step or an output; and how that is declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, Literal, TypeAlias

from pydantic import Field

from lakestreams.api.handles import Handle
from lakestreams.config.load import Document, KeyPath
from lakestreams.config.parts import Duration, Model, Name, Select
from lakestreams.errors import InvalidOption, LakestreamsError
from lakestreams.expressions.environment import Written
from lakestreams.expressions.parse import compile_expression
from lakestreams.topology.expectations import INVARIANTS, InvariantAction
from lakestreams.topology.kinds import Partitioner

InvariantName: TypeAlias = Literal[
    "fan_out", "one_outcome_per_left", "match_rate", "foreign_key_exists", "unique_key", "no_duplicate_result",
    "lateness", "time_skew", "key_on_home_partition", "one_key_one_partition", "skew", "layout",
]  # fmt: skip


class InvariantSpec(Model):
    """The bounds of an invariant, and what a violation does; each kind has some of the options."""

    action: InvariantAction = Field(
        default="warn",
        description="warn counts and reports; fail ends the run before anything of the cycle is published.",
    )
    at_most: int | float | Duration | None = Field(
        default=None, description="Of fan_out a count, of skew a share, of lateness and time_skew a duration."
    )
    at_least: float | None = Field(default=None, description="Of match_rate: a share.")
    over: Duration | None = Field(default=None, description="Of match_rate: the span of stream time that it covers.")
    records: int | None = Field(
        default=None, description="Of match_rate and skew: it judges nothing with fewer results or records."
    )
    columns: tuple[Name, ...] | None = Field(default=None, description="Of unique_key: columns of the output.")
    within: Duration | None = Field(
        default=None,
        description="Of unique_key: the span of event time in which keys must differ; 1 day by default.",
    )
    partitioner: Partitioner | None = Field(default=None, description="Of key_on_home_partition; murmur2 by default.")
    look_back: int | None = Field(
        default=None, description="Of one_key_one_partition: records of each partition before a cycle's own."
    )


class WithExpectations(Model):
    """Expectations of rows: conditions by name, and invariants."""

    expect: Select | None = Field(
        default=None, description="Names with SQL conditions for each row; rows that violate one are counted."
    )
    expect_or_drop: Select | None = Field(
        default=None, description="The same; a row that violates one goes to quarantine and no further."
    )
    expect_or_fail: Select | None = Field(
        default=None, description="The same; a row that violates one ends the run before its cycle is published."
    )
    invariants: dict[InvariantName, InvariantSpec] | None = Field(
        default=None, description="Rules about many rows, by name (docs/expectations.md)."
    )


EXPECTATION_KEYS: Final = tuple(WithExpectations.model_fields)


def declare_expectations(handle: Handle, spec: WithExpectations, document: Document, path: KeyPath) -> None:
    """Declares what a part of a file expects; faults are noted in the document.

    Args:
        handle: of the source, step or output.
        spec: what the file says.
        path: to the source, step or output in it.
    """
    for verb in ("expect", "expect_or_drop", "expect_or_fail"):
        conditions: Mapping[str, str] = getattr(spec, verb) or {}
        for name, text in conditions.items():
            place = document.where((*path, verb, name))
            try:
                written = Written(text, document.references)
                compile_expression(written, place)
                getattr(handle, verb)(name, written if written.references else text)
            except LakestreamsError as fault:
                fault.where = place
                document.faults.append(fault)
    for kind, options in (spec.invariants or {}).items():
        place = document.where((*path, "invariants", kind))
        arguments: dict[str, Any] = {name: getattr(options, name) for name in options.model_fields_set}
        known = [one.name for one in fields(INVARIANTS[kind])]
        unknown = [name for name in arguments if name not in known]
        try:
            if unknown:
                message = f"{kind} has no {' and no '.join(unknown)}"
                raise InvalidOption(message, hint=f"it has: {', '.join(known)}")
            handle.holds(INVARIANTS[kind](**arguments))
        except LakestreamsError as fault:
            fault.where = place
            document.faults.append(fault)
