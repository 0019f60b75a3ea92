"""What an aggregation makes of the values of a group: `from lakestreams import agg`, then `agg.sum(line.amount)`.

Each is declared over a record's columns and stays columnar. Of a stream they take each record in. Of a table they
also give back what a row was before it changed or left the group, as adder and subtractor do in Kafka Streams: for
counts, sums and averages that costs a subtraction; `min`, `max`, `last` and `collect` look at the rows that the group
has then, so a change of a group costs at most its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

AggregatorKind = Literal["count", "sum", "avg", "min", "max", "last", "collect", "fold"]
Fold: TypeAlias = "Callable[[Column, Column], Column]"


@dataclass(frozen=True, eq=False)  # columns have no equality of their own
class Aggregator:
    """One column of an aggregate.

    Attributes:
        kind: how values are put together.
        of: the value that each record brings; of a count none.
        initial, add, subtract: of a fold only.
    """

    kind: AggregatorKind
    of: Any = None
    initial: Any = None
    add: Fold | None = None
    subtract: Fold | None = None


def count(of: Column | None = None) -> Aggregator:
    """The number of the group's records or rows; of a column, the number of values that are not null.

    A bigint; 0 where all have gone.
    """
    return Aggregator("count", of)


def sum(of: Column) -> Aggregator:  # noqa: A001 - Kafka's and SQL's word
    """The sum of a number, without nulls; 0 if there is no value, as from an initialiser.

    Whole numbers give a bigint, decimals ten digits more. Doubles are added one after the other in the order of the
    records, so the sum does not depend on how the input was cut. But what is subtracted again leaves its rounding
    behind: use a decimal for money.
    """
    return Aggregator("sum", of)


def avg(of: Column) -> Aggregator:
    """The mean of a number's values that are not null; null if there is none. Added up as in `sum`."""
    return Aggregator("avg", of)


def min(of: Column) -> Aggregator:  # noqa: A001 - SQL's word
    """The smallest value that is not null. For a table, each change of the group reads its present rows."""
    return Aggregator("min", of)


def max(of: Column) -> Aggregator:  # noqa: A001 - SQL's word
    """The greatest value that is not null; costs what `min` does."""
    return Aggregator("max", of)


def last(of: Column) -> Aggregator:
    """The value of the last record, or of a table's row that was written last; it may be null."""
    return Aggregator("last", of)


def collect(of: Column) -> Aggregator:
    """All values in order, nulls included; for a table, the values of the rows that the group has.

    Each result holds them all: a group that grows without end is written out again at each change.
    """
    return Aggregator("collect", of)


def fold(of: Column, *, initial: Column, add: Fold, subtract: Fold | None = None) -> Aggregator:
    """Any function over columns, as Kafka Streams' initializer, adder and subtractor: one value at a time.

    Args:
        of: the value that each record brings.
        initial: what a group starts from; its type is the result's.
        add: from the aggregate and a value to the new aggregate.
        subtract: the same for a value that leaves; a table needs one.

    A group's changes of one cycle are folded in memory by one task, so they must fit it.
    """
    return Aggregator("fold", of, initial, add, subtract)
