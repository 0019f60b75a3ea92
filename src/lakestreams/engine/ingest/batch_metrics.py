"""What bronze holds of a batch: counts and bounds of each topic-partition, reported by the appends or read back.

Reading back is always right. For few rows it is a query over tables that have just changed, and costs as much as appending
them; so these are counted while they are appended. What an append does not tell, since Delta skipped it or it was tried
again, is read back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ingest.record_sizes import BYTES
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import LATENESS_MS, AppendedRange, Range
from lakestreams.engine.runtime.write_metrics import WriteMetrics
from lakestreams.engine.state.bronze import late
from lakestreams.expectations.rules import BEHIND, RecordRules
from lakestreams.kafka.noted import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from lakestreams.expectations.rules import Judged
    from lakestreams.topology.endpoints import Source

_RANGES, _ROWS, _BYTES = "told", "rows", "bytes"
_MOST_PARTITIONS = 64
"""Each is a dozen aggregates over every row: of more the batch is read back."""


@dataclass(frozen=True)
class Weight:
    """How many records there are, and what bytes their keys, values and headers have together."""

    records: int
    bytes: int


class AppendMetrics:
    """Counts one topic's rows of a batch, and weighs them, while they are appended.

    Args:
        ledger: of the running epoch.
        source: whose rows.
        partitions: those that may have any; None: rows are only weighed, as for many reading back is cheaper.
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
        counts = {_ROWS: F.count(F.lit(1)), _BYTES: F.expr(f"sum({BYTES})")}
        self._counted = partitions is not None and len(partitions) <= _MOST_PARTITIONS
        if partitions is not None and self._counted:
            counts[_RANGES] = F.to_json(F.array(*(F.expr(self._counts(one)) for one in partitions)))
        self._metrics = WriteMetrics(f"{ledger.pipeline} {ledger.epoch} {seq} bronze {source.topic}", counts)

    def of(self, rows: DataFrame) -> DataFrame:
        """The rows, counted when they are appended: the columns of bronze."""
        if not self._counted:
            return self._metrics.of(rows)
        flagged = rows.select("*", *_flags(self._source, self._rules, len(self._judged)))
        return self._metrics.of(flagged).select(*rows.columns)

    def appended(self) -> dict[TopicPartition, AppendedRange] | None:
        """What was counted, of the partitions that have rows; None if it is not known. To be asked after the append."""
        found = self._values
        if found is None or not self._counted:
            return None
        parts = [one for one in json.loads(found[_RANGES]) if one["records"]]
        if sum(one["records"] for one in parts) != found[_ROWS]:
            return None
        if any(one["records"] > one["last"] - one["first"] + 1 for one in parts):
            return None  # a stage that an executor took with it ran again, and counted twice
        made = [_appended_range(one | {"topic": self._source.topic}, self._judged) for one in parts]
        return {one.range.at: one for one in made}

    def weight(self) -> Weight | None:
        """What the rows weigh, about; None if it is not known. To be asked after the append."""
        return None if self._values is None else Weight(self._values[_ROWS], self._values[_BYTES] or 0)

    @cached_property
    def _values(self) -> dict[str, Any] | None:
        return self._metrics.values()

    def _counts(self, partition: int) -> str:
        """A struct of a partition's counts, as SQL: one call to the JVM instead of dozens."""
        own = f"partition = {partition}"

        def most(what: str, value: str) -> str:
            return f"{what}(if({own}, {value}, null))"

        def count(*flags: str) -> str:
            return f"count_if({' and '.join([own, *flags])})"

        lateness = [
            count(
                "lag_ms is not null",
                *([] if over is None else [f"lag_ms > {over}L"]),
                *([] if up_to is None else [f"lag_ms <= {up_to}L"]),
            )
            for over, up_to in pairwise((None, *LATENESS_MS, None))
        ]
        fields = {
            "partition": str(partition),
            "first": most("min", "offset"),
            "last": most("max", "offset"),
            "records": count(),
            "bad": count("bad"),
            "null_keys": count("null_key"),
            "null_values": count("null_value"),
            "stream_time_ms": most("max", "stream_time_ms"),
            "lag_ms": most("max", "lag_ms"),
            "seq": f"{self._seq}L",
            "ingest_time_ms": f"{self._ingest_time_ms}L",
            "lateness": f"array({', '.join(lateness)})",
        }
        if self._judged:
            fields["failed"] = f"array({', '.join(count(f'failed{place}') for place in range(len(self._judged)))})"
        pairs = ", ".join(f"'{name}', {value}" for name, value in fields.items())
        return f"named_struct({pairs})"


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
    judged = rules.of(source)
    return [
        F.when(readable, F.expr(BEHIND)).alias("lag_ms"),
        F.col("error").isNotNull().alias("bad"),
        (readable & F.col("k").isNull()).alias("null_key"),
        (readable & F.col("v").isNull()).alias("null_value"),
        *((readable & rules.violated(source, one)).alias(f"failed{place}") for place, one in enumerate(judged)),
        *(F.lit(False).alias(f"failed{place}") for place in range(len(judged), most)),
    ]


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
