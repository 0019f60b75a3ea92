"""How a pipeline's topics are partitioned, judged from what bronze holds of their newest records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ingest.delta_source import is_delta
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.state.bronze import within
from lakestreams.partitioning import copartitioning
from lakestreams.partitioning import judging as partitioning
from lakestreams.partitioning.copartitioning import Pair
from lakestreams.partitioning.judging import PartitionerReport, Skew, SplitKeys
from lakestreams.topology.endpoints import Source
from lakestreams.topology.node import Node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.ledger.plans import Ingest
    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.topology.topology import Topology

NEWEST: Final = 200_000
_BATCHES: Final = 1_000  # newest ingest batches in which the records are looked for


@dataclass(frozen=True)
class TopicPartitioning:
    """What the records of a topic say of its partitioning."""

    topic: str
    partitioner: PartitionerReport
    skew: Skew
    split: SplitKeys


@dataclass(frozen=True)
class Partitioning:
    """What the records of a pipeline's topics say of their partitioning.

    Attributes:
        pipeline: its name.
        topics: those that bronze holds records of, in the order of the sources.
        pairs: topics that meet in a join by key, as they were written.
        notes: what was not looked at, and why.
    """

    pipeline: str
    topics: tuple[TopicPartitioning, ...] = ()
    pairs: tuple[Pair, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Newest:
    """Where the newest records of a topic lie: partition to offsets, the end exclusive, in these batches."""

    ranges: Mapping[int, tuple[int, int]]
    seq_from: int
    seq: int


def examine(spark: SparkSession, lake: Lake, topology: Topology, newest: int = NEWEST) -> Partitioning:
    """Judges the partitioning of a pipeline's topics; reads `partition` and `key` of bronze, three small jobs.

    The partition counts are those that the newest batch was read with, so no broker is asked.

    Args:
        newest: at most so many records of each topic, the last ones that were ingested, by offsets.
    """
    lake = lake.naming(topology)
    ledger = Ledger(lake, topology.name)
    history = ledger.history(spark) if ledger.table.exists(spark) else None
    if history is None or history.ingest is None:
        return Partitioning(topology.name, notes=("nothing has been ingested yet: run the pipeline first",))
    batches = ledger.ingests(spark, max(1, history.ingest.seq - _BATCHES + 1))
    counts = _partition_counts(batches)
    notes, places = [], {}
    for source in topology.sources:
        if is_delta(source.topic):
            notes.append(f"{source.name}: a Delta table has no partitions")
        elif (place := _newest(batches, source.topic, newest)) is None:
            notes.append(f"{source.name}: bronze holds no record of topic {source.topic}")
        else:
            places[source.topic] = place
    if not places:
        return Partitioning(topology.name, notes=tuple(notes))
    rows = reduce(DataFrame.unionByName, (_rows(spark, ledger, topic, place) for topic, place in places.items()))
    reports = partitioning.detect_each(rows, {topic: counts[topic] for topic in places})
    skews, splits = partitioning.skew_each(rows), partitioning.split_keys_each(rows)
    topics = tuple(
        TopicPartitioning(topic, report, skews.get(topic, Skew()), splits.get(topic, SplitKeys()))
        for topic, report in reports.items()
    )
    met = [(reports[left], reports[right]) for left, right in meeting(topology) if {left, right} <= set(reports)]
    return Partitioning(topology.name, topics, tuple(copartitioning.pairs(met)), tuple(notes))


def meeting(topology: Topology) -> list[tuple[str, str]]:
    """Topics whose records meet by key as they lie in their partitions: left and right of each such join, each pair once."""
    joins = (node for node in topology.joins if node.co_partitioning is not None)
    topics = ((left, right) for join in joins for left in _topics(join.left) for right in _topics(join.right))
    return list(dict.fromkeys((left, right) for left, right in topics if left != right))


def _topics(node: Node) -> Iterator[str]:
    return (pin.topic for pin in node.pins() or () if isinstance(pin, Source))


def _rows(spark: SparkSession, ledger: Ledger, topic: str, place: _Newest) -> DataFrame:
    rows = ledger.lake.bronze(ledger.pipeline, topic).read(spark)
    # the bounds of the batches let Delta skip files; a record that is replayed lies in the topic only once
    newest = F.col("seq").between(place.seq_from, place.seq) & within(place.ranges) & (F.col("attempt") == 0)
    return rows.where(newest).select(F.lit(topic).alias("topic"), "partition", "key")


def _partition_counts(batches: Sequence[Ingest]) -> dict[str, int]:
    """Topic to partition count, as the newest batch that tells the topic's positions has them."""
    counts: dict[str, int] = {}
    for batch in batches:
        counts |= _counted(batch)
    return counts


def _counted(batch: Ingest) -> dict[str, int]:
    counts: dict[str, int] = {}
    for part in batch.ranges:
        counts[part.topic] = max(counts.get(part.topic, 0), part.partition + 1)
    return counts


def _newest(batches: Sequence[Ingest], topic: str, most: int) -> _Newest | None:
    """Batch by batch from the newest; of the one with which there are enough, the end of each partition's range.

    A batch is cut in all partitions alike, so that what is read lies as unevenly as what is there.
    """
    ranges: dict[int, tuple[int, int]] = {}
    left, seq_from = most, batches[-1].seq
    for batch in reversed(batches):
        own = [part for part in batch.ranges if part.topic == topic and part.records]
        records = sum(part.records for part in own)
        for part in own:
            size = part.to_offset - part.from_offset
            start = part.to_offset - (size if records <= left else size * left // records)
            ranges[part.partition] = (start, ranges.get(part.partition, (0, part.to_offset))[1])
        seq_from = batch.seq_from if own else seq_from
        left -= min(left, records)
        if not left:
            break
    return _Newest(ranges, seq_from, batches[-1].seq) if ranges else None
