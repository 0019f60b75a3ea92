"""What one would write by hand with Spark alone: the works (`run`), a topic of results (`copy`), raw topics into Delta (`land`).

The works are a static table joined to a stream, the stream-stream join with RocksDB, and `foreachBatch` with MERGE. They and
`copy` end with their rows committed to a Delta table under `root`/out, `land` with one under `root`/<topic>/out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from delta.tables import DeltaTable
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from bench.works import CUSTOMER, FK_ORDER, ORDER, PAYMENT, PROFILE, VIEW

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
# Results of the windowed join may come this much later than their window closes: batches of two topics do not end at the
# same moment, and what lies behind the watermark is dropped.
WATERMARK: Final = "1 minute"
SETTINGS: Final = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.shuffle.partitions": "4",
}


@dataclass(frozen=True)
class _Kafka:
    """Where topics are read: the broker, how many records at once, and what stands behind their names."""

    spark: SparkSession
    servers: str
    batch: int
    suffix: str

    def options(self, *topics: str) -> dict[str, str]:
        """Of Spark's source."""
        return {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": ",".join(f"{topic}{self.suffix}" for topic in topics),
            "startingOffsets": "earliest",
            "kafka.isolation.level": "read_committed",
        }

    def stream(self, *topics: str, headers: bool = False) -> DataFrame:
        """What is in the topics, batch by batch."""
        options = self.options(*topics) | {"maxOffsetsPerTrigger": str(self.batch), "includeHeaders": str(headers)}
        return self.spark.readStream.format("kafka").options(**options).load()


def run(spark: SparkSession, work: str, servers: str, root: Path, batch: int, suffix: str = "") -> None:
    """Runs a work once over everything that is in its topics.

    Args:
        spark: the session; its settings are as before afterwards.
        work: which one.
        servers: the broker.
        root: a folder of its own.
        batch: how many records a micro-batch reads at most.
        suffix: behind the topics' names.
    """
    with _settings(spark):
        _WORKS[work](_Kafka(spark, servers, batch, suffix), root)


def copy(spark: SparkSession, topic: str, value: str, servers: str, root: Path, batch: int, *, newest: bool) -> None:
    """Brings what another engine wrote to a topic into Delta, once: as JSON columns beside the `key`.

    Args:
        spark: the session; its settings are as before afterwards.
        topic: a key as text, a value as JSON or null.
        value: columns of the value.
        servers: the broker.
        root: a folder of its own.
        batch: how many records a micro-batch reads at most.
        newest: whether a record replaces the one before of its key, or deletes it, by MERGE; else each is appended.
    """
    with _settings(spark):
        rows = _Kafka(spark, servers, batch, "").stream(topic)
        if not newest:
            _append(_parsed(rows, value, "key").drop("time"), root)
            return
        out = output(root)
        spark.sql(f"create table delta.`{out}` (key string, {value}) using delta")

        def apply(rows: DataFrame, _: int) -> None:
            order = Window.partitionBy("key").orderBy(F.desc("partition"), F.desc("offset"))
            last = rows.withColumn("place", F.row_number().over(order)).where("place = 1")
            parsed = _parsed(last, value, "key", F.col("value").isNull().alias("gone")).drop("time")
            merge = DeltaTable.forPath(rows.sparkSession, out).alias("t").merge(parsed.alias("s"), "t.key = s.key")
            columns: dict[str, str | Column] = {name: f"s.{name}" for name in parsed.columns if name != "gone"}
            merge = merge.whenMatchedDelete("s.gone").whenMatchedUpdate(set=columns)
            merge.whenNotMatchedInsert("not s.gone", values=columns).execute()

        _each_batch(rows, root, apply)


def land(spark: SparkSession, topics: Mapping[str, str], servers: str, root: Path, batch: int) -> None:
    """Brings topics into Delta as they are, each into a table of its own: raw, with offsets and headers, and parsed.

    Args:
        spark: the session; its settings are as before afterwards.
        topics: topic to the columns of its JSON value.
        servers: the broker.
        root: a folder of its own.
        batch: how many records a micro-batch reads at most.
    """
    with _settings(spark):
        for topic, columns in topics.items():
            rows = _Kafka(spark, servers, batch, "").stream(topic, headers=True)
            parsed = F.from_json(F.col("value").cast("string"), columns).alias("v")
            _append(rows.select("*", F.col("key").cast("string").alias("k"), parsed), root / topic)


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    for name, setting in SETTINGS.items():
        spark.conf.set(name, setting)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def output(root: Path) -> str:
    """Where the rows are."""
    return str(root / "out")


def _enrichment(kafka: _Kafka, root: Path) -> None:
    """The table as it is now, in Delta, then every view beside it: no view gets the row of its own time."""
    spark = kafka.spark
    topic = spark.read.format("kafka").options(**kafka.options("profiles")).load()
    newest = Window.partitionBy("key").orderBy(F.desc("offset"))
    latest = topic.withColumn("place", F.row_number().over(newest)).where("place = 1 and value is not null")
    _parsed(latest, PROFILE, "user").drop("time").write.format("delta").save(str(root / "profiles"))
    profiles = spark.read.format("delta").load(str(root / "profiles"))
    views = _parsed(kafka.stream("views"), VIEW, "user")
    joined = views.join(profiles, "user", "left").select("user", "ms", "page", "region", "plan")
    _append(joined, root)


def _correlation(kafka: _Kafka, root: Path) -> None:
    orders = _parsed(kafka.stream("orders"), ORDER, "order_id").withWatermark("time", WATERMARK)
    payments = _parsed(kafka.stream("payments"), PAYMENT, "order_id").withWatermark("time", WATERMARK)
    left, right = orders.alias("o"), payments.alias("p")
    near = "p.time between o.time - interval 5 minutes and o.time + interval 5 minutes"
    joined = left.join(right, F.expr(f"o.order_id = p.order_id and {near}"), "left_outer")
    _append(joined.select("o.order_id", "o.amount", "p.method"), root)


def _foreign_key(kafka: _Kafka, root: Path) -> None:
    """Two tables kept by MERGE; a changed customer finds its orders in the table that is written."""
    spark, (first, second) = kafka.spark, (f"{name}{kafka.suffix}" for name in ("customers", "fk_orders"))
    customers, out = root / "customers", output(root)
    spark.sql(f"create table delta.`{customers}` (customer string, name string, tier string) using delta")
    columns = "order_id string, customer string, amount int, name string, tier string"
    spark.sql(f"create table delta.`{out}` ({columns}) using delta")

    def apply(rows: DataFrame, _: int) -> None:
        session = rows.sparkSession
        rows = rows.persist()
        newest = Window.partitionBy("topic", "key").orderBy(F.desc("partition"), F.desc("offset"))
        latest = rows.withColumn("place", F.row_number().over(newest)).where("place = 1")
        changed = _parsed(latest.where(F.col("topic") == first), CUSTOMER, "customer").drop("time")
        orders = _parsed(latest.where(F.col("topic") == second), FK_ORDER, "order_id").drop("time")
        into = DeltaTable.forPath(session, str(customers))
        merge = into.alias("t").merge(changed.alias("s"), "t.customer = s.customer")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        there = session.read.format("delta").load(out).select("order_id", "customer", "amount")
        touched = there.join(changed.select("customer"), "customer", "left_semi").select(*orders.columns)
        touched = touched.join(orders.select("order_id"), "order_id", "left_anti").unionByName(orders)
        now = session.read.format("delta").load(str(customers))
        results = touched.join(now, "customer", "left").select("order_id", "customer", "amount", "name", "tier")
        merge = DeltaTable.forPath(session, out).alias("t").merge(results.alias("s"), "t.order_id = s.order_id")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        rows.unpersist()

    _each_batch(kafka.stream("customers", "fk_orders"), root, apply)


def _each_batch(rows: DataFrame, root: Path, apply: Callable[[DataFrame, int], None]) -> None:
    query = (
        rows.writeStream.option("checkpointLocation", str(root / "checkpoint"))
        .trigger(availableNow=True)
        .foreachBatch(apply)
        .start()
    )
    query.awaitTermination()


def _append(rows: DataFrame, root: Path) -> None:
    query = (
        rows.writeStream.format("delta")
        .option("checkpointLocation", str(root / "checkpoint"))
        .trigger(availableNow=True)
        .start(output(root))
    )
    query.awaitTermination()


def _parsed(rows: DataFrame, schema: str, key: str, *more: Column) -> DataFrame:
    """The value's columns, the key under its name, the record's time, and more."""
    value = F.from_json(F.col("value").cast("string"), schema).alias("v")
    columns = rows.select(F.col("key").cast("string").alias(key), F.col("timestamp").alias("time"), value, *more)
    return columns.select(key, "time", "v.*", *columns.columns[3:])


_WORKS: Final[Mapping[str, Callable[[_Kafka, Path], None]]] = {
    "enrichment": _enrichment,
    "correlation": _correlation,
    "foreign_key": _foreign_key,
}
