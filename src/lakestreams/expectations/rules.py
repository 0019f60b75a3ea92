"""Rules as Columns: which row violates which condition.

A condition that is null counts as violated, as it does in Lakeflow; a row without a value (a deletion, a stream's null
value) is not judged. SQL conditions are written so that what would raise on one bad row, such as a cast, is null instead:
one record never stops a job for a rule that only counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.errors import LakestreamsError
from lakestreams.expressions.parse import compile_expression
from lakestreams.operators.records import KEY, VALUE
from lakestreams.partitioning.partitioners import key_on_home_partition
from lakestreams.spark import holds_any
from lakestreams.sql import quoted
from lakestreams.topology.expectations import OF_RECORDS, Expectations, Invariant, KeyOnHomePartition, Lateness, Rule
from lakestreams.topology.fields import Fields

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakestreams.topology.endpoints import Source

# How far a record's event time lies behind its partition's stream time, in ms, over bronze's columns.
BEHIND = "stream_time_ms - event_time_ms"


def violated(rule: Rule, fields: Fields) -> Column:
    """Whether a row violates a rule: true or false, never null.

    Args:
        rule: the rule.
        fields: the columns of the row's key and value; the frame's value is in the column `v`.

    Raises:
        ExpressionRefused: if the condition is SQL that is not allowed.
    """
    if isinstance(rule.condition, str):
        expression = compile_expression(rule.condition, f'expectation "{rule.name}" of {rule.dataset}')
        fulfilled = expression.column({rule.dataset: fields}, tolerant=True)
    else:
        fulfilled = rule.condition(fields)
    # the check refuses what is no boolean here; a cast of a text would fail at its first odd value, in a run
    is_true = F.when(fulfilled, F.lit(True)).otherwise(F.lit(False))
    return F.col(VALUE).isNotNull() & ~is_true


def names_of(rules: Sequence[Rule], fields: Fields) -> Column:
    """The names of the rules that a row violates: array<string>, in the order of declaration."""
    names = [F.when(violated(rule, fields), F.lit(rule.name)) for rule in rules]
    return F.array_compact(F.array(*names)) if names else F.array().cast("array<string>")


def any_of(rules: Sequence[Rule], fields: Fields) -> Column:
    """Whether a row violates any of the rules."""
    return holds_any(violated(rule, fields) for rule in rules)


# --- sources ---------------------------------------------------------------------------------------------------------


def fields_of(source: Source, faults: list[LakestreamsError] | None = None) -> Fields:
    """The columns of a source's records, over bronze's `k` and `v` as over a records frame."""
    paths = {one.name: quoted(KEY, one.name) for one in source.key.fields}
    paths |= {one.name: quoted(VALUE, one.name) for one in source.value.fields}
    kinds = {one.name: one.type for one in (*source.key.fields, *source.value.fields)}
    return Fields(source.name, paths, [] if faults is None else faults, f'source "{source.name}"', kinds)


def dropped(source: Source, expectations: Expectations) -> Column | None:
    """Whether a bronze row is dropped by one of its source's rules; None if there is no such rule."""
    rules = [rule for rule in expectations.rules_of(source.name) if rule.action == "drop"]
    return any_of(rules, fields_of(source)) if rules else None


def kept(rows: DataFrame, source: Source, expectations: Expectations) -> DataFrame:
    """The bronze rows that no rule of their source drops."""
    out = dropped(source, expectations)
    return rows if out is None else rows.where(~out)


@dataclass(frozen=True)
class Judged:
    """One thing that is judged of each record of a source.

    Attributes:
        what: the rule, or an invariant of single records.
        id: by which counts are recorded; another condition, or another partition count, is another one.
    """

    what: Rule | Invariant
    id: str

    @property
    def name(self) -> str:
        """As it is reported."""
        return self.what.name

    @property
    def action(self) -> str:
        """What happens to a record that violates it."""
        return self.what.action


@dataclass(frozen=True)
class RecordRules:
    """What is judged of single records while they are counted.

    Attributes:
        expectations: of the topology.
        partitions: topic to partition count.
    """

    expectations: Expectations = field(default_factory=Expectations)
    partitions: Mapping[str, int] = field(default_factory=dict)

    def of(self, source: Source) -> tuple[Judged, ...]:
        """All that is judged of a source's records, in the order of declaration."""
        rules = (Judged(rule, rule.id) for rule in self.expectations.rules_of(source.name))
        invariants = (
            Judged(one, self._id(source, one))
            for one in self.expectations.invariants_of(source.name)
            if isinstance(one, OF_RECORDS)
        )
        return (*rules, *invariants)

    def violated(self, source: Source, judged: Judged) -> Column:
        """Whether a readable bronze row violates it: never null."""
        if isinstance(judged.what, Rule):
            return violated(judged.what, fields_of(source))
        if isinstance(judged.what, Lateness):
            return F.coalesce(F.expr(BEHIND) > judged.what.at_most_ms, F.lit(False))
        assert isinstance(judged.what, KeyOnHomePartition)  # noqa: S101 - OF_RECORDS has no other kind
        count = self.partitions.get(source.topic, 1)
        return ~key_on_home_partition(F.col("key"), F.col("partition"), judged.what.partitioner, count)

    def _id(self, source: Source, invariant: Invariant) -> str:
        count = f" of {self.partitions.get(source.topic)}" if isinstance(invariant, KeyOnHomePartition) else ""
        return f"{invariant.describe()}{count}"
