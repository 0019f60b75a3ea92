"""What comes out of a topology under test: results, and records that some step had no use for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.publish.quarantine import NULL_VALUE
from lakestreams.operators.records import CONTRIBUTORS, KEY, KIND, ORDER, PLACE, TIME, VALUE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Row

    from lakestreams.evaluate.inputs import Rejected, Results
    from lakestreams.testing.histories import Histories
    from lakestreams.topology.endpoints import Sink


@dataclass(frozen=True)
class Result:
    """One record of an output.

    Attributes:
        key: the key's only column, or a dict of its columns; None is a null key.
        value: the value's columns; None is a tombstone.
        timestamp: event time, ms.
        kind: record, matched, unmatched or tombstone.
        cause: which piped record it came out after: 0 is the first one.
        contributors: (source topic, partition, offset) of the records it was made of.
    """

    key: Any
    value: dict[str, Any] | None
    timestamp: int
    kind: str
    cause: int
    contributors: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True)
class Refused:
    """A piped record that some step had no use for: the place it was piped at, the step, the reason code."""

    cause: int
    node: str
    code: str


def outputs(results: Results, sinks: Iterable[Sink]) -> dict[str, DataFrame]:
    """Output name to its records, as they are written.

    Returns:
        Frames with the columns `k, v, ts, kind, contributors, n, cycle`; `cycle, n` is their order. A stream's null
        value goes through the joins, whose clocks it moves, and is written nowhere.
    """
    found = {}
    for sink in sinks:
        columns = [F.col(name) for name in (KEY, VALUE, TIME, KIND, CONTRIBUTORS, PLACE)]
        frame = results.records[sink.name].select(*columns, F.col(ORDER)["cycle"].alias("cycle"))
        found[sink.name] = frame if sink.is_table else frame.where(F.col(VALUE).isNotNull())
    return found


def to_result(row: Row) -> Result:
    """A row of `outputs` as a result."""
    return Result(
        key=plain_key(None if row[KEY] is None else row[KEY].asDict(recursive=True)),
        value=None if row[VALUE] is None else row[VALUE].asDict(recursive=True),
        timestamp=row[TIME],
        kind=row[KIND],
        cause=row["cycle"] - 1,
        contributors=tuple((one["source"], one["partition"], one["offset"]) for one in row[CONTRIBUTORS]),
    )


def plain_key(columns: Mapping[str, Any] | None) -> Any:
    """A key's only column, or a dict of them."""
    if columns is None or len(columns) != 1:
        return columns
    return next(iter(columns.values()))


def refused(histories: Histories, rejected: Iterable[Rejected]) -> list[Refused]:
    """The records that steps had no use for, by place.

    Args:
        histories: what has processed them.
        rejected: what the last step of it gave.

    Returns:
        Each record, step and code once. A stream's null value is refused by its source, unless that ignores them:
        no step's refusal of it is reported as well.
    """
    frames = [
        one.records.select(
            F.lit(one.node).alias("node"), F.lit(one.code).alias("code"), "source", "partition", "offset"
        )
        for one in rejected
    ]
    found = set()
    for row in reduce(DataFrame.unionByName, frames).collect() if frames else []:
        place = histories.place_of(row["source"], row["partition"], row["offset"])
        found.add(Refused(place, row["node"], row["code"]))
    silent = histories.silent_null_values()
    found = {one for one in found if one.code != NULL_VALUE or one.cause not in silent}
    found |= {Refused(place, histories.piped[place].source, NULL_VALUE) for place in histories.null_values()}
    return sorted(found, key=lambda one: (one.cause, one.node, one.code))
