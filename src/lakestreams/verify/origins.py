"""Where the results of a key come from whose records have other keys: those of a re-keyed or an aggregated output.

A row's lineage names its records; an aggregate's only the last one of them, so what made its rows is read from an
evaluation of the finished cycles, which has every change of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.evaluate import walk
from lakestreams.evaluate.inputs import Results
from lakestreams.evaluate.outputs import LINEAGE
from lakestreams.evaluate.stateless import names
from lakestreams.operators.records import CONTRIBUTORS, KEY, ORDER
from lakestreams.operators.versions import TableSide
from lakestreams.topology.derived import Aggregate, Suppress, ToStream
from lakestreams.topology.endpoints import KafkaSink
from lakestreams.topology.graph import key_source, upstream
from lakestreams.topology.steps import Filter, MapValues
from lakestreams.verify.identity import Identity, places
from lakestreams.verify.keys import has_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.topology.endpoints import Sink
    from lakestreams.topology.node import Node
    from lakestreams.topology.topology import Topology

_COUNTED = 10_000  # of more records it is only said that there are more
_PLACE, _AT = "place", "at"
_KEEPS_ROWS = (MapValues, Filter, Suppress, ToStream)  # a row of theirs has the key of the row that it is of


@dataclass(frozen=True)
class Origin:
    """The records that made an output's rows of a key.

    Attributes:
        output: its name.
        places: those of the newest records, the newest one first.
        records: how many there are in all; None: more than 10,000.
        latest: whether only the last one of each cycle is known: its aggregate tells no other.
    """

    output: str
    places: tuple[Identity, ...]
    records: int | None
    latest: bool = False

    def sentence(self, key: str) -> str:
        """What there is to say of each of them."""
        if self.records == 1:
            return f"made the key {key!r} of {self.output}{', as the last one of its cycle' if self.latest else ''}"
        number = f"more than {_COUNTED:,}" if self.records is None else f"{self.records:,}"
        text = f"is one of {number} records that made the key {key!r} of {self.output}"
        if self.latest:
            text += ", each the last one of its cycle"
        if self.records is None:
            return f"{text}; the older ones are left out"
        left = self.records - len(self.places)
        return f"{text}; {left:,} older {'one is' if left == 1 else 'ones are'} left out" if left else text


def origins(
    spark: SparkSession,
    lake: Lake,
    topology: Topology,
    key: str,
    again: Callable[[], Results] | None,
    *,
    topics: Collection[str],
    most: int,
) -> list[Origin]:
    """Which records made the rows of a key, of each output that has some.

    Args:
        topology: the pipeline, as it ran.
        key: as `has_key` takes it.
        again: evaluates the finished cycles; None: nothing of them is left in bronze.
        topics: those that have records of this key: an output whose rows have their key from there is left out.
        most: how many records are reported of an output.
    """
    looked = [sink for sink in topology.outputs if not _has_its_key_from(topics, sink)]
    keys = walk.keys(topology, spark) if looked else {}
    result = []
    for sink in looked:
        contributors = _of_key(spark, lake, sink, key, keys[sink.name], again)
        if contributors is not None:
            latest = (aggregate := _aggregate(sink)) is not None and aggregate.emit == "latest"
            result += _newest(sink.name, contributors, most, latest=latest)
    return result


def gathers(node: Node) -> bool:
    """Whether rows of a node name only the records that brought them about."""
    return any(one.condenses for one in upstream(node))


def _has_its_key_from(topics: Collection[str], sink: Sink) -> bool:
    source = key_source(sink)
    return source is not None and source.topic in topics


def _of_key(
    spark: SparkSession,
    lake: Lake,
    sink: Sink,
    key: str,
    columns: Collection[str],
    again: Callable[[], Results] | None,
) -> DataFrame | None:
    """The contributors of the rows of a key, and when they made them: columns `place`, `at`."""
    if isinstance(sink, KafkaSink):
        return None if again is None else _of_records(again().records[sink.name], key)
    if not (output := lake.output(sink.name)).exists(spark):
        return None  # it is new: no run has written it
    rows = output.read(spark)
    of_key = rows.where(has_key(rows, {name: F.col(name) for name in columns}, key))
    if not of_key.take(1):
        return None
    if gathers(sink) and again is not None:
        return _of_records(_changes(sink, again()), key)
    at = F.struct(*(F.col(LINEAGE)[name] for name in ("cycle", "trigger", "n")))
    return of_key.select(F.explode(places(F.col(LINEAGE)["contributors"])).alias(_PLACE), at.alias(_AT))


def _aggregate(sink: Sink) -> Aggregate | None:
    """The aggregate whose rows an output has, also where only some of them come out."""
    node = sink.parents[0]
    while isinstance(node, _KEEPS_ROWS):
        node = node.parents[0]
    return node if isinstance(node, Aggregate) else None


def _changes(sink: Sink, results: Results) -> DataFrame:
    """Every change of the rows that an output has, also of those that do not come out."""
    aggregate = _aggregate(sink)
    if aggregate is None:
        return results.records[sink.name]
    rows = results.nodes[aggregate.name]
    return rows.all() if isinstance(rows, TableSide) else rows


def _of_records(rows: DataFrame, key: str) -> DataFrame:
    of_key = rows.where(has_key(rows, {name: F.col(KEY)[name] for name in names(rows, KEY)}, key))
    return of_key.select(F.explode(places(F.col(CONTRIBUTORS))).alias(_PLACE), F.col(ORDER).alias(_AT))


def _newest(output: str, contributors: DataFrame, most: int, *, latest: bool) -> list[Origin]:
    each = contributors.groupBy(_PLACE).agg(F.max(_AT).alias(_AT))
    newest = each.orderBy(F.desc(_AT), F.desc(_PLACE)).limit(most + 1).collect()
    if not newest:
        return []
    number = len(newest) if len(newest) <= most else each.limit(_COUNTED + 1).count()
    places = tuple(tuple(row[_PLACE]) for row in newest[:most])
    return [Origin(output, places, None if number > _COUNTED else number, latest)]
