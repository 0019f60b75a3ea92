"""The cluster as Spark's own Kafka source shows it, by the progress of a query that reads nothing: partitions and offsets.

It tells no topic ids: then a run warns that it cannot tell a topic from another of the same name.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakestreams.errors import LakestreamsError
from lakestreams.kafka.client_errors import fault, topics_missing
from lakestreams.kafka.cluster_view import ClusterView
from lakestreams.kafka.noted import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress

# A query with these ends at once with an empty batch: so many records never come, and it would wait longer than time is old.
_READS_NOTHING: Final = {"minOffsetsPerTrigger": str(1 << 62), "maxTriggerDelay": "100000d"}


@dataclass(frozen=True)
class ProbeCluster:
    """Asks with a streaming query that reads nothing: its progress lists every partition's first and end offset.

    Attributes:
        options: of Spark's Kafka source.
        scratch: a folder that Spark can write to.
        unchecked: why no admin client is asked.
    """

    spark: SparkSession
    options: Mapping[str, str] = field(repr=False)
    scratch: Path
    unchecked: str = ""

    def view(self, topics: Iterable[str], written: Iterable[str] = ()) -> ClusterView:
        """Partition counts and offsets from one query; from another one where topics are missing."""
        names = sorted({*topics, *written})
        try:
            starts, ends = self._bounds("subscribe", ",".join(names), names)
        except LakestreamsError:
            raise
        except Exception as error:
            if "UnknownTopicOrPartition" not in str(error):
                raise
            # which of them it does not say; a pattern takes those that are there
            starts, ends = self._bounds("subscribePattern", "|".join(map(re.escape, names)), names)
        missing = [name for name in names if not any(topic == name for topic, _ in ends)]
        if missing:
            raise topics_missing(missing, self.options["kafka.bootstrap.servers"])
        return ClusterView(ends, starts, unchecked=self.unchecked)

    def topic_ids(self, _topics: Iterable[str]) -> Mapping[str, str]:
        """None: Spark's source does not know them."""
        return {}

    def most_bytes(self, _topics: Iterable[str]) -> Mapping[str, int]:
        """None: Spark's source does not know it."""
        return {}

    def _bounds(
        self, how: str, text: str, names: Sequence[str]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """First and end offsets: a batch begins at the first, and waits for more records than there can be."""
        limits = {"kafka.default.api.timeout.ms": "15000", "kafka.request.timeout.ms": "10000"}
        reader = self.spark.readStream.format("kafka").options(**{**limits, **self.options}).options(**_READS_NOTHING)
        source = reader.option(how, text).option("startingOffsets", "earliest").load()
        self.scratch.mkdir(parents=True, exist_ok=True)
        # a volume may refuse to remove a folder
        with tempfile.TemporaryDirectory(prefix="probe-", dir=self.scratch, ignore_cleanup_errors=True) as folder:
            try:
                query = (
                    source.writeStream.foreachBatch(_nothing)  # as ingest does: compute may refuse other sinks
                    .option("checkpointLocation", folder)
                    .trigger(availableNow=True)
                    .start()
                )
                query.awaitTermination()
                progress = _as_dict(query.lastProgress)
            except Exception as error:
                wrong = fault(error, self.options["kafka.bootstrap.servers"], names)
                if wrong is None:
                    raise
                raise wrong from error
        told = (progress.get("sources") or [{}])[0]
        starts = {} if told.get("numInputRows") else _offsets(told.get("endOffset"))  # what has read does not tell
        return starts, _offsets(told.get("latestOffset") or told.get("endOffset"))


def _nothing(_rows: DataFrame, _number: int) -> None:
    """What becomes of a batch: there is none, or nobody wants its rows."""


def _offsets(offsets: str | Mapping[str, Any] | None) -> dict[TopicPartition, int]:
    """Offsets as a progress has them: "null" where there is no topic."""
    found = (json.loads(offsets) if isinstance(offsets, str) else offsets) or {}
    return {(topic, int(part)): int(offset) for topic, parts in found.items() for part, offset in parts.items()}


def _as_dict(progress: StreamingQueryProgress | None) -> dict[str, Any]:
    """What the JVM tells, by its text: Spark 4.0 itself makes Python's text, and no JSON, of the offsets in it."""
    found: dict[str, Any] = {} if progress is None else json.loads(progress.json)
    return found
