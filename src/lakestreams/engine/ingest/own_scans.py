"""One topic's part of a batch, read from Kafka by a scan of its own.

The topics of a batch are appended by statements of their own, in parallel, and each of these would read the whole batch. So
the batch had to be held in memory before anything was appended, and was read once more from there. With scans of their own
nothing is held, and one topic is read while another is written.

A scan reads the offsets that the streaming query has planned, from where bronze stands. So its rows are those of the batch
that bronze lacks.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from lakestreams.engine.ingest.checkpoint import read_starts
from lakestreams.engine.protocol import decisions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.engine.ledger.plans import BronzeState
    from lakestreams.kafka.noted import TopicPartition

_OLD_READERS: Final = "spark.sql.sources.useV1SourceList"

Part: TypeAlias = "Callable[[str], DataFrame]"
"""A topic to its records in a batch, as Spark's Kafka source gives them."""


class OwnScans:
    """Reads topics of a query's batches, each by a scan of its own.

    Kafka's options may hold secrets. So they stay in the driver's process: this travels to another one (Spark Connect's
    worker) empty, and there a batch is held in memory.

    Args:
        options: those of the query's own reader, but for its topics and offsets; None: nothing is read here.
    """

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        # Executors keep consumers by their group: with one name for all scans of a query they are used again. Else each batch
        # would leave some behind, with what they have fetched. Partitions are assigned, so brokers see no member of a group.
        group = {"kafka.group.id": f"lakestreams-{uuid.uuid4()}"}
        self._options = None if options is None else {**group, **options}

    def __reduce__(self) -> tuple[Callable[[], OwnScans], tuple[()]]:
        """Pickled, it has no options."""
        return OwnScans, ()

    def of_batch(
        self,
        spark: SparkSession,
        checkpoint: str,
        batch_id: int,
        before: BronzeState,
        ends: Mapping[TopicPartition, int],
    ) -> Part | None:
        """What reads the topics of a batch; None where it is not known exactly what the batch has.

        Args:
            spark: the batch's session.
            checkpoint: the folder of the checkpoint's generation.
            batch_id: Spark's number of it.
            before: where bronze stands.
            ends: where the batch ends.
        """
        options, starts = self._options, read_starts(Path(checkpoint), batch_id)
        if options is None or not starts or not ends:
            return None
        _read_as_queries(spark)
        return partial(_scan, spark, options, starts, before, ends)


def _read_as_queries(spark: SparkSession) -> None:
    """Lets the batch's own session read Kafka as streaming queries do, where compute takes the setting.

    By default a batch is read by an older reader, which makes objects of each record.
    """
    with contextlib.suppress(Exception):
        old = spark.conf.get(_OLD_READERS, None)
        if old is not None:
            spark.conf.set(_OLD_READERS, ",".join(one for one in old.split(",") if one.strip().lower() != "kafka"))


def _scan(
    spark: SparkSession,
    options: Mapping[str, str],
    starts: Mapping[TopicPartition, int],
    before: BronzeState,
    ends: Mapping[TopicPartition, int],
    topic: str,
) -> DataFrame:
    """A topic's records of a batch, without those that bronze has."""
    news = decisions.news_of(topic, before, ends)
    # A checkpoint may begin behind where bronze stands, since expired records were accepted as lost. A partition that it
    # does not know is new.
    first = {str(one): max(at, starts.get((topic, one), 0)) for one, at, _ in news}
    last = {str(one): end for one, _, end in news}
    return (
        spark.read.format("kafka")
        .options(**options)
        .option("assign", json.dumps({topic: [one for one, _, _ in news]}))
        .option("startingOffsets", json.dumps({topic: first}))
        .option("endingOffsets", json.dumps({topic: last}))
        .load()
    )


__all__ = ["OwnScans", "Part"]
