"""What a step of a pipeline's file may say, as types: one class a verb, or a family of verbs with the same keys.

The options of a join stand in one class: which of them a join takes follows from its sides, as in Python, and is judged
when the step is declared.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from lakestreams.config.expected import EXPECTING, Expecting
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
        default=None, description="Stream with stream: how far apart the times of the two may lie, either way."
    )
    before: Duration | None = Field(
        default=None, description="Stream with stream: how far the right one may lie before the left one; else 0."
    )
    after: Duration | None = Field(
        default=None, description="Stream with stream: how far the right one may lie after the left one; else 0."
    )
    wait: Duration | None = Field(
        default=None,
        description="Stream with table: how long a record without a row waits for one, before it comes out without (left_join) "
        "or is refused (join).",
    )
    amend: Duration | None = Field(
        default=None,
        description="left_join of a stream with a table: how long after its time a record that came out without a row is put "
        "right by one that comes.",
    )
    grace: Duration | None = Field(
        default=None,
        description="Stream with stream: how long a window takes records that come late. Stream with a versioned table: "
        "how long records wait for rows that come late.",
    )
    emit_unmatched: Emission | None = Field(
        default=None,
        description="Stream with stream, left and outer: when records without a partner come out; on_window_close by "
        "default.",
    )
    rules: Rules | None = Field(
        default=None, description="Stream with stream: strict (one fate a record, the default) or kafka (parity)."
    )
    left_on: Columns | None = Field(
        default=None,
        description="Stream with a global table; table with table by foreign key: what of the left side is the right "
        "side's key, in its order.",
    )
    right_on: Columns | None = Field(
        default=None,
        description="Stream with table by foreign key (KIP-955): what of the table's rows is the stream's key.",
    )
    co_partitioning: CoPartitioning | None = Field(
        default=None,
        description="Joins by the key of both sides: what unequal partition counts of the topics mean; require (refused) "
        "by default.",
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
        description="A SQL expression of type `array<struct<...>>`: one record an element, whose members are the columns."
    )


class MergeSpec(_TwoSides):
    """The records of two streams with the same columns."""


class RepartitionSpec(FromSpec):
    """A count of tasks for what follows."""

    partitions: int = Field(description="The count, 1 or more; no topic is made.")


class WindowsSpec(Model):
    """Time windows in which a stream's records are grouped."""

    size: Duration = Field(description="How long a window is.")
    advance: Duration | None = Field(
        default=None, description="How far apart windows start; by default the size, less makes them overlap."
    )
    grace: Duration | None = Field(
        default=None, description="How long after its end a window takes records that come late; 0 by default."
    )


class AggregatorSpec(Model):
    """What is made of a group's values: exactly one of these, of a SQL expression over the columns of the input."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    count: Sql | None = Field(default=None, description="How many values are not null; of `*`, how many there are.")
    sum: Sql | None = Field(default=None, description="The sum of a number; 0 where there is none.")
    avg: Sql | None = Field(default=None, description="The mean of a number; null where there is none.")
    min: Sql | None = Field(default=None, description="The smallest value.")
    max: Sql | None = Field(default=None, description="The greatest value.")
    last: Sql | None = Field(default=None, description="The value that came last, null perhaps.")
    collect: Sql | None = Field(default=None, description="All values, in the order in which they came.")

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


def _aggregator(given: object) -> object:
    if given == "count":
        return {"count": "*"}
    if isinstance(given, str):
        kinds = ", ".join(AGGREGATORS)
        msg = f"{given!r} is no aggregate; write count, or one of {kinds} with an expression, such as {{sum: amount}}"
        raise ValueError(msg)  # noqa: TRY004 - what pydantic collects
    return given


class CountSpec(FromSpec):
    """Groups, and how many records or rows each has: one column, `count`."""

    group_by: Columns | None = Field(
        default=None, description="What makes the group's key; of a stream, by default the key that its records have."
    )
    windows: WindowsSpec | None = Field(default=None, description="Of a stream: time windows within each group.")
    emit: Changes | None = Field(
        default=None, description="A row for each change of a group (the default), or the last one of each cycle."
    )
    empty: EmptyGroup | None = Field(
        default=None,
        description="Of a table: what a group is whose rows have all gone, a row of zeros (keep, the default) or none.",
    )


class AggregateSpec(CountSpec):
    """Groups, and what is made of the values of each."""

    value: Select | None = Field(
        default=None, description="Of a table: the columns that are aggregated; by default the row's value."
    )
    columns: Annotated[
        dict[
            Name,
            Annotated[AggregatorSpec, BeforeValidator(_aggregator, json_schema_input_type=AggregatorSpec | str)],
        ],
        Field(min_length=1),
    ] = Field(description="Column names with their aggregates: count, or {sum: amount}.")


class SuppressSpec(FromSpec):
    """A table whose updates wait, so that only the last one of a while is told."""

    until: Duration = Field(description="How long the first update of a key waits; or window_closes.")
    max_records: int | None = Field(
        default=None, description="How many keys may wait in each task; any number by default."
    )
    when_full: WhenFull | None = Field(
        default=None, description="What happens then: the oldest come out early (emit, the default), or the run stops."
    )


_JOINS: Final = ("join", "left_join", "outer_join")


def _one_verb(schema: dict[str, Any]) -> None:
    schema["oneOf"] = [{"required": [verb]} for verb in VERBS]
    schema["dependentSchemas"] = {"select": {"anyOf": [{"required": [verb]} for verb in _JOINS]}}


class StepSpec(Expecting):
    """A step: exactly one of the verbs; a join may have a `select` beside it."""

    model_config = ConfigDict(json_schema_extra=_one_verb)

    join: JoinSpec | None = Field(default=None, description="What meets on both sides; the rest gives no result.")
    left_join: JoinSpec | None = Field(
        default=None, description="All of the left side, with nulls where nothing meets."
    )
    outer_join: JoinSpec | None = Field(default=None, description="All of both sides, with nulls where nothing meets.")
    filter: FilterSpec | None = Field(default=None, description="Records or rows for which an expression is true.")
    map_values: SelectSpec | None = Field(default=None, description="New values; key, time and order stay.")
    select_key: SelectSpec | None = Field(default=None, description="Of a stream: a new key; value and time stay.")
    map: MapSpec | None = Field(default=None, description="Of a stream: a new key and a new value.")
    flat_map_values: FlatMapValuesSpec | None = Field(
        default=None, description="Of a stream: none, one or several records for each."
    )
    merge: MergeSpec | None = Field(default=None, description="The records of two streams as one stream.")
    repartition: RepartitionSpec | None = Field(
        default=None, description="Of a stream: how many tasks work on it from here on."
    )
    to_table: FromSpec | None = Field(default=None, description="A stream read as a table: the newest record of a key.")
    to_stream: FromSpec | None = Field(default=None, description="A table's changes as a stream.")
    drop_absent_deletes: FromSpec | None = Field(
        default=None, description="A table without the deletions of keys that have no row."
    )
    count: CountSpec | None = Field(default=None, description="A table of how many records or rows each group has.")
    aggregate: AggregateSpec | None = Field(default=None, description="A table of sums and the like of each group.")
    suppress: SuppressSpec | None = Field(default=None, description="A table that tells only the last of its updates.")
    select: Select | None = Field(
        default=None, description="The columns of a join's result; by default all of both sides."
    )

    @model_validator(mode="after")
    def _one(self) -> StepSpec:
        exactly_one(self, VERBS, "a step")
        if self.select is not None and self.verb not in _JOINS:
            inside = [verb for verb in VERBS if StepSpec.model_fields[verb].annotation == SelectSpec | None]
            msg = f"select stands beside {', '.join(_JOINS)}; {' and '.join(inside)} have it inside"
            raise ValueError(msg)
        return self

    @property
    def verb(self) -> str:
        """Which step it is."""
        return next(verb for verb in VERBS if getattr(self, verb) is not None)

    @property
    def part(self) -> Any:
        """What stands behind the verb."""
        return getattr(self, self.verb)

    @property
    def inputs(self) -> References:
        """The names it refers to, each with the path to it inside the step."""
        references: References = self.part.inputs
        return tuple((f"{self.verb}.{key}", name) for key, name in references)


VERBS: Final = tuple(name for name in StepSpec.model_fields if name not in ("select", *EXPECTING))
