"""What a step of a pipeline's file may say, as types: one class a verb, or a family of verbs with the same keys.

The options of a join stand in one class: which of them a join takes follows from its sides, as in Python, and is judged
when the step is declared.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from lakestreams.config.parts import Columns, Duration, Model, Name, Select, Sql, exactly_one
from lakestreams.topology.kinds import Changes, CoPartitioning, Emission, EmptyGroup, Rules, WhenFull

References: TypeAlias = tuple[tuple[str, str], ...]


class FromSpec(Model):
    """One input and nothing else."""

    from_: Name = Field(alias="from", description="The input: a source or a step.")

    @property
    def inputs(self) -> References:
        """The name it refers to, with its key."""
        return (("from", self.from_),)


class _TwoSides(Model):
    left: Name = Field(description="A source or a step.")
    right: Name = Field(description="A source or a step.")

    @property
    def inputs(self) -> References:
        """The names it refers to, with their keys."""
        return (("left", self.left), ("right", self.right))


class JoinSpec(_TwoSides):
    """Two sides. Their kinds, and `left_on` or `right_on`, decide which join it is and what else it takes."""

    within: Duration | None = Field(
        default=None,
        description="Stream with stream: how far apart the times of both records may be, in either direction.",
    )
    before: Duration | None = Field(
        default=None,
        description="Stream with stream: how far the right record may be before the left one; 0 by default.",
    )
    after: Duration | None = Field(
        default=None,
        description="Stream with stream: how far the right record may be after the left one; 0 by default.",
    )
    wait: Duration | None = Field(
        default=None,
        description="Stream with table: how long a record waits for its row, before it comes out without one (left_join) "
        "or is refused (join).",
    )
    amend: Duration | None = Field(
        default=None,
        description="left_join of a stream with a table: how long after a record's time a row may still come and correct "
        "its result.",
    )
    grace: Duration | None = Field(
        default=None,
        description="Stream with stream: how long a window accepts late records. Stream with a versioned table: how long "
        "records wait for late rows.",
    )
    emit_unmatched: Emission | None = Field(
        default=None,
        description="Stream with stream, left and outer: when records without a partner come out; on_window_close by "
        "default.",
    )
    rules: Rules | None = Field(
        default=None, description="Stream with stream: strict (one outcome per record, the default) or kafka (parity)."
    )
    left_on: Columns | None = Field(
        default=None,
        description="The left side's columns that hold the right side's key, in its order. For joins of a stream with a "
        "global table, and of two tables by foreign key.",
    )
    right_on: Columns | None = Field(
        default=None,
        description="Stream with table by foreign key (KIP-955): the columns of the table that hold the stream's key.",
    )
    co_partitioning: CoPartitioning | None = Field(
        default=None,
        description="Joins by the key of both sides: require (the default) refuses unequal partition counts of the topics; "
        "warn and off accept them.",
    )


class FilterSpec(FromSpec):
    """The records or rows for which an expression is true."""

    where: Sql = Field(description="A SQL expression over the columns of the input.")


class SelectSpec(FromSpec):
    """New columns for each record or row."""

    select: Select = Field(description="Column names with their SQL expressions.")


class MapSpec(FromSpec):
    """A new key and a new value for each record."""

    key: Select = Field(description="The key's columns with their SQL expressions.")
    value: Select = Field(description="The value's columns with their SQL expressions.")


class FlatMapValuesSpec(FromSpec):
    """Several values for each record."""

    each: Sql = Field(
        description="A SQL expression of type `array<struct<...>>`: one record per element, with its members as columns."
    )
    keep: Columns | None = Field(
        default=None,
        description="Columns of the record that each element gets as well, in place of members of their names.",
    )


class MergeSpec(_TwoSides):
    """The records of two streams with the same columns."""


class RepartitionSpec(FromSpec):
    """The number of tasks for the following steps."""

    partitions: int = Field(description="The number, 1 or more; no topic is created.")


class WindowsSpec(Model):
    """Time windows in which a stream's records are grouped."""

    size: Duration = Field(description="How long a window is.")
    advance: Duration | None = Field(
        default=None,
        description="The time between the starts of windows; by default the size. A smaller one makes them overlap.",
    )
    grace: Duration | None = Field(
        default=None, description="How long after its end a window accepts late records; 0 by default."
    )


class AggregatorSpec(Model):
    """The aggregate of a column: exactly one of these, over a SQL expression."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    count: Sql | None = Field(default=None, description="The number of values that are not null; `*` counts all.")
    sum: Sql | None = Field(default=None, description="The sum of a number; 0 if there is no value.")
    avg: Sql | None = Field(default=None, description="The mean of a number; null if there is no value.")
    min: Sql | None = Field(default=None, description="The smallest value.")
    max: Sql | None = Field(default=None, description="The greatest value.")
    last: Sql | None = Field(default=None, description="The value that came last; it may be null.")
    collect: Sql | None = Field(default=None, description="All values, in order.")

    @model_validator(mode="after")
    def _one(self) -> AggregatorSpec:
        exactly_one(self, AGGREGATORS, "an aggregate")
        return self

    @property
    def kind(self) -> str:
        """Which one it is."""
        return next(name for name in AGGREGATORS if getattr(self, name) is not None)

    @property
    def of(self) -> str | None:
        """Its expression; None of a count of all."""
        text: str = getattr(self, self.kind)
        return None if self.kind == "count" and text.strip() == "*" else text


# `fold` and `reduce` are functions, which only Python has.
AGGREGATORS: Final = tuple(AggregatorSpec.model_fields)


def _aggregator(value: object) -> object:
    if value == "count":
        return {"count": "*"}
    if isinstance(value, str):
        kinds = ", ".join(AGGREGATORS)
        msg = f"{value!r} is no aggregate; write count, or one of {kinds} with an expression, such as {{sum: amount}}"
        raise ValueError(msg)  # noqa: TRY004 - what pydantic collects
    return value


class CountSpec(FromSpec):
    """Groups with the number of their records or rows: one column, `count`."""

    group_by: Columns | None = Field(
        default=None, description="The group's key; for a stream, by default the key of its records."
    )
    windows: WindowsSpec | None = Field(default=None, description="Of a stream: time windows within each group.")
    emit: Changes | None = Field(
        default=None, description="A row for each change of a group (the default), or the last one of each cycle."
    )
    empty: EmptyGroup | None = Field(
        default=None,
        description="Of a table: what remains of a group without rows: a row of zeros (keep, the default) or none (delete).",
    )


class AggregateSpec(CountSpec):
    """Groups with aggregates of their values."""

    value: Select | None = Field(
        default=None, description="Of a table: the columns to aggregate; by default the row's value."
    )
    columns: Annotated[
        dict[
            Name,
            Annotated[AggregatorSpec, BeforeValidator(_aggregator, json_schema_input_type=AggregatorSpec | str)],
        ],
        Field(min_length=1),
    ] = Field(description="Column names with their aggregates: count, or {sum: amount}.")


class SuppressSpec(FromSpec):
    """A table whose updates wait, so that only the last one within a time comes out."""

    until: Duration = Field(description="How long the first update of a key waits; or window_closes.")
    max_records: int | None = Field(
        default=None, description="How many keys may wait in each task; any number by default."
    )
    when_full: WhenFull | None = Field(
        default=None,
        description="What happens at that limit: the oldest come out early (emit, the default), or the run stops (shutdown).",
    )
