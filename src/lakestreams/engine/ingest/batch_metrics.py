"""What bronze holds of a batch: counts and bounds of each topic-partition, reported by the appends or read back.

Reading back is always right, and is a query over tables that have just changed. So the workers that make the rows count them
(`row_counts`), and the append reports that. What an append does not report, since Delta skipped it or it was tried again, is read
back; so are many records that rules are judged of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ingest.row_counts import COUNTS, pieces, total
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import AppendedRange, Range, known_sum
from lakestreams.engine.runtime.write_metrics import WriteMetrics
from lakestreams.engine.state.bronze import late
from lakestreams.expectations.rules import BEHIND, RecordRules
from lakestreams.kafka.noted import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from lakestreams.engine.ingest.row_counts import Counts
    from lakestreams.expectations.rules import Judged
    from lakestreams.operators.noted_homes import Homes
    from lakestreams.topology.endpoints import Source

_ROW_COUNTS, _FAILED = "row_counts", "failed"
_MOST_PARTITIONS = 64
"""Each is an aggregate for every rule over every row: of more the batch is read back."""


@dataclass(frozen=True)
class Weight:
    """What it takes to read a topic's records.

    Attributes:
        records: how many there are.
        bytes: of their keys, values and headers together.
        one_by_one: how many of them were read by themselves (decision 0039); None: their formats have one way only.
    """

    records: int
    bytes: int
    one_by_one: int | None = None


class AppendMetrics:
    """What an append reports of one topic's rows of a batch: their counts, and what they weigh.

    Args:
        ledger: of the running epoch.
        source: whose rows.
        partitions: those that may have any; None: they are many, and what rules say of them is cheaper to read back.
        rules: what is judged of single records.
        ingest_time_ms: of its rows.
    """

    def __init__(
        self,
        ledger: Ledger,
        source: Source,
        partitions: Sequence[int] | None,
        rules: RecordRules,
        seq: int,
        ingest_time_ms: int,
    ) -> None:
        self._source, self._rules, self._seq, self._ingest_time_ms = source, rules, seq, ingest_time_ms
        self._judged = rules.of(source)
        counts = {_ROW_COUNTS: F.concat_ws("\n", F.collect_list(COUNTS))}
        own = [] if partitions is None or len(partitions) > _MOST_PARTITIONS else partitions
        if self._judged and own:
            failed = ", ".join(self._failed(partition) for partition in own)
            counts[_FAILED] = F.expr(f"to_json(map({failed}))")
        self._counted = not self._judged or bool(own)
        self._metrics = WriteMetrics(f"{ledger.pipeline} {ledger.epoch} {seq} bronze {source.topic}", counts)

    def of(self, rows: DataFrame) -> DataFrame:
        """Rows with their counts, observed when they are appended: the columns of bronze."""
        bronze = [name for name in rows.columns if name != COUNTS]
        if self._judged and self._counted:
            rows = rows.select("*", *_failures(self._source, self._rules, len(self._judged)))
        return self._metrics.of(rows).select(*bronze)

    def appended(self) -> dict[TopicPartition, AppendedRange] | None:
        """What was counted, of the partitions that have rows; None if it is not known. To be asked after the append."""
        if self._pieces is None or not self._counted:
            return None
        failed = json.loads(self._values[_FAILED]) if self._judged and self._values is not None else {}
        own = {"topic": self._source.topic, "seq": self._seq, "ingest_time_ms": self._ingest_time_ms}
        found: dict[TopicPartition, AppendedRange] = {}
        for partition, parts in self._pieces.items():
            counts = total(parts)
            if counts["records"] > counts["last"] - counts["first"] + 1:
                return None  # an offset counted twice
            if self._judged and str(partition) not in failed:
                return None
            one = _appended_range({**counts, **own, _FAILED: failed.get(str(partition), ())}, self._judged)
            if not self._judged and _in_order(parts):  # what rules say is not known of pieces
                one = replace(one, pieces=tuple(_appended_range({**part, **own}, ()).range for part in parts))
            found[one.range.at] = one
        return found

    def weight(self) -> Weight | None:
        """What the rows weigh; None if it is not known. To be asked after the append."""
        if self._pieces is None:
            return None
        parts = [one for own in self._pieces.values() for one in own]
        records, size = (sum(one[name] for one in parts) for name in ("records", "bytes"))
        return Weight(records, size, known_sum([one["one_by_one"] for one in parts]))

    def homes(self, partitions: int) -> dict[TopicPartition, Homes]:
        """By which partitioners keys lie where they are, as far as that was counted (`Range.homes`).

        Args:
            partitions: how many the topic has.
        """
        topic, own = self._source.topic, self._pieces or {}
        return {
            (topic, partition): {
                (law, partitions): frozenset(keys) for law, keys in total(parts).get("homes", {}).items()
            }
            for partition, parts in own.items()
        }

    @cached_property
    def _values(self) -> dict[str, Any] | None:
        return self._metrics.values()

    @cached_property
    def _pieces(self) -> dict[int, list[Counts]] | None:
        return None if self._values is None else pieces(self._values[_ROW_COUNTS].splitlines())

    def _failed(self, partition: int) -> str:
        """A partition, and how many of its rows violate each rule; as SQL: one call to the JVM instead of dozens."""
        counts = (f"count_if(partition = {partition} and failed{place})" for place in range(len(self._judged)))
        return f"{partition}, array({', '.join(counts)})"


def read_back(
    spark: SparkSession,
    ledger: Ledger,
    sources: Sequence[Source],
    after_seq: int,
    rules: RecordRules,
    *,
    again: bool = False,
) -> dict[TopicPartition, AppendedRange]:
    """Counts and bounds of the bronze rows past a sequence number, per topic-partition; rules are judged on the way.

    Of replayed records if `again`, else of the others.

    One query over the sources' tables; one row a partition comes back; files of earlier batches are skipped by their
    statistics.
    """
    judged = {source.topic: rules.of(source) for source in sources}
    most = max(map(len, judged.values()), default=0)
    parts = [
        ledger.lake.bronze(ledger.pipeline, source.topic)
        .read(spark)
        .where((F.col("seq") > after_seq) & (F.col("attempt") > 0 if again else F.col("attempt") == 0))
        .select(
            *("topic", "partition", "offset", "stream_time_ms", "seq", "ingest_time_ms"),
            *_flags(source, rules, most),
        )
        for source in sources
    ]
    found = (
        reduce(DataFrame.unionAll, parts)
        .groupBy("topic", "partition")
        .agg(
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
            F.count("*").alias("records"),
            F.count_if("bad").alias("bad"),
            F.count_if("null_key").alias("null_keys"),
            F.count_if("null_value").alias("null_values"),
            F.max("stream_time_ms").alias("stream_time_ms"),
            F.max("lag_ms").alias("lag_ms"),
            F.max("seq").alias("seq"),
            F.max_by("ingest_time_ms", "seq").alias("ingest_time_ms"),
            F.array(*late(F.col("lag_ms"))).alias("lateness"),
            F.array(*(F.count_if(f"failed{place}") for place in range(most))).alias("failed"),
        )
        .collect()
    )
    return {(row["topic"], row["partition"]): _appended_range(row.asDict(), judged[row["topic"]]) for row in found}


def _flags(source: Source, rules: RecordRules, most: int) -> list[Column]:
    """What is counted of a bronze row; of what is judged one column each, and as many for every source."""
    readable = F.col("error").isNull()
    return [
        F.when(readable, F.expr(BEHIND)).alias("lag_ms"),
        F.col("error").isNotNull().alias("bad"),
        (readable & F.col("k").isNull()).alias("null_key"),
        (readable & F.col("v").isNull()).alias("null_value"),
        *_failures(source, rules, most),
    ]


def _failures(source: Source, rules: RecordRules, most: int) -> list[Column]:
    """Whether a readable bronze row violates what is judged: `failed0`, `failed1` and so on, as many as `most`."""
    readable, judged = F.col("error").isNull(), rules.of(source)
    return [
        *((readable & rules.violated(source, one)).alias(f"failed{place}") for place, one in enumerate(judged)),
        *(F.lit(False).alias(f"failed{place}") for place in range(len(judged), most)),
    ]


def _in_order(parts: Sequence[Counts]) -> bool:
    """Whether a partition's pieces follow each other, in offsets and in time: another task may have had some of them."""
    return all(
        one["last"] < other["first"] and one["stream_time_ms"] <= other["stream_time_ms"]
        for one, other in pairwise(parts)
    )


def _appended_range(row: Mapping[str, Any], judged: Sequence[Judged]) -> AppendedRange:
    part = Range(
        row["topic"],
        row["partition"],
        row["first"],
        row["last"] + 1,
        row["records"],
        row["bad"],
        row["null_keys"],
        row["null_values"],
        row["stream_time_ms"],
        row.get("lag_ms") or 0,
        failed={one.id: n for one, n in zip(judged, row.get("failed", ()), strict=False)},
        lateness=tuple(row["lateness"]),
    )
    return AppendedRange(part, row["seq"], row["ingest_time_ms"])


__all__ = ["AppendMetrics", "Weight", "read_back"]
