"""Who is measured: lakestreams, its floor, Kafka Streams and Flink SQL by their settings, Spark's own operators.

Each runs a work once over topics that are loaded, into new tables or topics, and says what it took and where its rows
are. All but Kafka Streams and Flink share one Spark session, which is cold at its first run and warm at the others.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import psutil
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from bench import flink, kafka_streams, spark_native
from bench.measures import Cpu, own_processes
from bench.results import OURS, Run
from lakestreams.engine.driver import Driver
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.runtime.settings import RunSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bench.works import Work
    from lakestreams.local.broker import Broker

FLOOR, SPARK = "floor", "spark"
FEWER: Final = "-fewer"
"""Behind the names of the topics that hold fewer records, for those who are slow."""


@dataclass(frozen=True)
class Bench:
    """What runs need: a session, a broker with loaded topics, a folder, and how large a batch may be."""

    spark: SparkSession
    broker: Broker
    folder: Path
    batch: int
    partitions: int


def ours(bench: Bench, work: Work, *, join: bool) -> tuple[Run, DataFrame]:
    """Lakestreams, with the join or without (its floor)."""
    root = bench.folder / ("lake" if join else "floor")
    shutil.rmtree(root, ignore_errors=True)
    topology = work.topology(join)
    settings = RunSettings(
        kafka={"kafka.bootstrap.servers": bench.broker.bootstrap_servers, "kafka.isolation.level": "read_committed"},
        max_offsets_per_trigger=bench.batch,
        max_bytes_per_batch=1 << 30,
    )
    lake = Lake(str(root))
    with Watch(bench) as watch:
        summary = Driver(bench.spark, topology, lake, settings).run()
    rows = lake.output(topology.sinks[0].name).read(bench.spark)
    columns = work.columns if join else ()
    return watch.run(root, dict(summary.seconds)), rows.select(F.col(work.key).alias("key"), *columns)


def spark(bench: Bench, work: Work) -> tuple[Run, DataFrame]:
    """Spark's own operators."""
    root = bench.folder / "spark"
    shutil.rmtree(root, ignore_errors=True)
    with Watch(bench) as watch:
        spark_native.run(bench.spark, work.name, bench.broker.bootstrap_servers, root, bench.batch, FEWER)
    rows = bench.spark.read.format("delta").load(spark_native.output(root))
    return watch.run(root), rows.select(F.col(work.key).alias("key"), *work.columns)


def streams(bench: Bench, work: Work, guarantee: kafka_streams.Guarantee, cache: int) -> tuple[Run, DataFrame]:
    """Kafka Streams, in a JVM of its own; its results are read from its output topic."""
    found = _streamed(bench, work, guarantee, cache)
    return Run(found.started_seconds, found.cpu_seconds, found.peak_bytes), _of_topic(bench, work, found.output)


def _of_topic(bench: Bench, work: Work, name: str) -> DataFrame:
    """A contender's results where it writes them to a topic: of a table the newest of each key."""
    topic = bench.spark.read.format("kafka").options(
        **{
            "kafka.bootstrap.servers": bench.broker.bootstrap_servers,
            "subscribe": name,
            "kafka.isolation.level": "read_committed",
        }
    )
    rows = topic.load()
    if work.newest:
        newest = Window.partitionBy("key").orderBy(F.desc("partition"), F.desc("offset"))
        rows = rows.withColumn("place", F.row_number().over(newest)).where("place = 1 and value is not null")
    value = F.from_json(F.col("value").cast("string"), work.value).alias("v")
    return rows.select(F.col("key").cast("string").alias("key"), value).select("key", "v.*")


def streams_into_delta(bench: Bench, work: Work) -> tuple[Run, DataFrame]:
    """Kafka Streams, exactly once without its cache, and then Spark, which brings its output topic into Delta.

    One after the other: both want all cores, so side by side they would take as long. The copy is warm after its first.
    """
    found = _streamed(bench, work, "exactly_once_v2", 0)
    streamed = Run(
        found.started_seconds, found.cpu_seconds, found.peak_bytes, stages={"streams": found.started_seconds}
    )
    copied, rows = _copied(bench, work, found.output)
    return _behind(streamed, copied), rows


def _copied(bench: Bench, work: Work, topic: str) -> tuple[Run, DataFrame]:
    """Spark brings a topic of results into Delta."""
    root = bench.folder / "copied"
    shutil.rmtree(root, ignore_errors=True)
    servers = bench.broker.bootstrap_servers
    with Watch(bench) as watch:
        spark_native.copy(bench.spark, topic, work.value, servers, root, bench.batch, newest=work.newest)
    copied = watch.run(root)
    rows = bench.spark.read.format("delta").load(spark_native.output(root))
    return replace(copied, stages={"copy": copied.seconds}), rows.select("key", *work.columns)


def streams_into_lake(bench: Bench, work: Work) -> tuple[Run, DataFrame]:
    """The same, and Spark lands the raw topics in Delta, too: what lakestreams leaves behind, bronze and silver."""
    streamed, rows = streams_into_delta(bench, work)
    root = bench.folder / "landed"
    shutil.rmtree(root, ignore_errors=True)
    topics = {topic: columns for topic, (columns, _) in work.topics.items()}
    with Watch(bench) as watch:
        spark_native.land(bench.spark, topics, bench.broker.bootstrap_servers, root, bench.batch)
    landed = watch.run(root)
    return _behind(streamed, replace(landed, stages={"land": landed.seconds})), rows


def flink_sql(bench: Bench, work: Work, *, lands: bool, backend: str = "hashmap") -> tuple[Run, DataFrame]:
    """Flink SQL, exactly once, in a JVM of its own; with `lands` the raw topics lie beside the results.

    A table's results are in a topic. With `lands` Spark brings them into Delta then, since Flink's files take no updates.
    """
    root = bench.folder / "flink"
    shutil.rmtree(root, ignore_errors=True)
    found = flink.run(work, bench.broker, root, lands=lands, backend=backend, partitions=bench.partitions)
    written = [one for one in root.rglob("part-*") if one.is_file()]
    run = Run(
        found.started_seconds,
        found.cpu_seconds,
        found.peak_bytes,
        len(written),
        sum(one.stat().st_size for one in written),
        stages={"flink": found.started_seconds},
    )
    if not work.newest:
        rows = bench.spark.read.parquet(found.output).withColumnRenamed(work.key, "key")
    elif lands:
        copied, rows = _copied(bench, work, found.output)
        run = _behind(run, copied)
    else:
        rows = _of_topic(bench, work, found.output)
    for topic in work.topics if lands else ():
        landed = bench.spark.read.parquet(str(found.landed / topic)).count()
        if landed != (there := sum(bench.broker.end_offsets(topic).values())):
            msg = f"Flink landed {landed:,} records of {topic}, which has {there:,}"
            raise AssertionError(msg)
    return run, rows


def _behind(first: Run, second: Run) -> Run:
    """Both, one after the other."""
    return Run(
        first.seconds + second.seconds,
        first.cpu + second.cpu,
        max(first.peak, second.peak),
        first.files + second.files,
        first.bytes + second.bytes,
        first.commits + second.commits,
        {**first.stages, **second.stages},
    )


def _streamed(bench: Bench, work: Work, guarantee: kafka_streams.Guarantee, cache: int) -> kafka_streams.Outcome:
    root = bench.folder / "streams"
    shutil.rmtree(root, ignore_errors=True)
    return kafka_streams.run(work.name, bench.broker, root, guarantee, cache, partitions=bench.partitions)


CONTENDERS: Final[dict[str, Callable[[Bench, Work], tuple[Run, DataFrame]]]] = {
    OURS: lambda bench, work: ours(bench, work, join=True),
    FLOOR: lambda bench, work: ours(bench, work, join=False),
    "streams-eos": lambda bench, work: streams(bench, work, "exactly_once_v2", 0),
    "streams-eos-cache": lambda bench, work: streams(bench, work, "exactly_once_v2", kafka_streams.DEFAULT_CACHE),
    "streams-alo": lambda bench, work: streams(bench, work, "at_least_once", 0),
    "streams-alo-cache": lambda bench, work: streams(bench, work, "at_least_once", kafka_streams.DEFAULT_CACHE),
    "streams-eos-delta": streams_into_delta,
    "streams-eos-lake": streams_into_lake,
    "flink": lambda bench, work: flink_sql(bench, work, lands=False),
    "flink-rocksdb": lambda bench, work: flink_sql(bench, work, lands=False, backend="rocksdb"),
    "flink-lake": lambda bench, work: flink_sql(bench, work, lands=True),
    SPARK: spark,
}


def answer(bench: Bench, work: Work, suffix: str = "") -> DataFrame:
    """What must come out, by SQL over the topics."""
    for topic, (columns, _) in work.topics.items():
        options = {"kafka.bootstrap.servers": bench.broker.bootstrap_servers, "subscribe": topic + suffix}
        rows = bench.spark.read.format("kafka").options(**options).load()
        value = F.from_json(F.col("value").cast("string"), columns).alias("v")
        time_ms, at = F.unix_millis("timestamp").alias("time_ms"), F.col("offset").alias("at")
        read = rows.select(F.col("key").cast("string").alias("key"), time_ms, at, value)
        read.select("key", "time_ms", "at", "v.*").createOrReplaceTempView(topic)
    return bench.spark.sql(work.answer)


def summed(rows: DataFrame) -> tuple[int, int]:
    """How many rows, and a sum of their hashes that does not depend on their order: equal for equal rows."""
    digest = F.xxhash64(*(F.coalesce(F.col(name).cast("string"), F.lit("\0")) for name in rows.columns))
    found = rows.agg(F.count(F.lit(1)), F.sum(digest.cast("decimal(38,0)"))).first()
    if found is None:
        raise AssertionError
    return int(found[0]), int(found[1] or 0)


class Watch:
    """Time, CPU and memory of what runs inside the block, in this process and its children but for the broker's."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._began = self.seconds = self.cpu = 0.0
        self.peak = 0

    def __enter__(self) -> Self:
        for one in self._processes():
            try:
                Path(f"/proc/{one.pid}/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
            except OSError:
                break
        self._cpu, self._began = Cpu(self._processes), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds, self.cpu = time.perf_counter() - self._began, self._cpu.spent()
        self.peak = sum(_peak(one.pid) for one in self._processes())

    def run(self, root: Path, stages: Mapping[str, float] | None = None) -> Run:
        """What was measured, with what lies in a folder of Delta tables."""
        data = [one for one in root.rglob("*.parquet") if "_delta_log" not in one.parts]
        commits = sum(1 for one in root.rglob("_delta_log/*.json"))
        size = sum(one.stat().st_size for one in data)
        return Run(self.seconds, self.cpu, self.peak, len(data), size, commits, stages or {})

    def _processes(self) -> Iterator[psutil.Process]:
        left_out = {self._bench.broker.pid, self._bench.broker.guard_pid}
        return (one for one in own_processes() if one.pid not in left_out)


def _peak(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmHWM")), 0)
