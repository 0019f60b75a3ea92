# Databricks notebook source
# MAGIC %md
# MAGIC # Which orders were paid, and when
# MAGIC
# MAGIC Reads what the job `correlation` has left behind: bronze, its three outputs and quarantine. It shows how long payments
# MAGIC take beside the window that they have, and the fate of each order and payment. The last cells assert what must hold,
# MAGIC so that this notebook can be scheduled as a check.
# MAGIC
# MAGIC On Databricks the widgets above say where the tables are, and the next cell installs the wheel that the jobs run; it
# MAGIC changes nothing where the compute has that version already. On a laptop, where lakestreams is installed with its local
# MAGIC parts, it runs as a script:
# MAGIC `LAKESTREAMS_ROOT=lake python notebooks/explore_correlation.py`

# COMMAND ----------

from pathlib import Path

wheel = str(max(Path().glob("../dist/*.whl"), default="../dist/*.whl"))  # the file that the jobs install

# COMMAND ----------

# MAGIC %pip install --quiet $wheel

# COMMAND ----------

# MAGIC %restart_python

# COMMAND ----------

import os
from functools import reduce

from pyspark.sql import functions as F

import lakestreams

here = os.path.dirname(os.path.abspath(__file__)) if "__file__" in globals() else os.getcwd()


def parameter(name, default):
    """A widget's value on Databricks, else the environment's LAKESTREAMS_<NAME>."""
    if "dbutils" not in globals():
        return os.environ.get(f"LAKESTREAMS_{name.upper()}") or default
    dbutils.widgets.text(name, default)
    return dbutils.widgets.get(name)


catalog = parameter("catalog", "")
schemas = parameter("schemas", "")
root = parameter("root", "lake")
conf = parameter("conf", os.path.join(os.path.dirname(here), "conf", "correlation.yml"))

# The outputs of conf/correlation.yml: of the inner, the left and the outer join.
PAID, ORDERS, BOTH = "silver.paid_orders", "silver.order_payments", "silver.orders_and_payments"

opened = lakestreams.open(conf, root=root, catalog=catalog or None, schemas=schemas or None)
spark, pipeline = opened.spark, opened.topology.name
show = globals().get("display") or (lambda frame: frame.show(50, truncate=False))
checked = []


def holds(what, found, expected):
    """An asserted value; `checked` lists them all."""
    assert found == expected, f"{what}: {found}, expected {expected}"
    checked.append(what)
    print(f"holds: {what} = {found}")


# COMMAND ----------

# MAGIC %md
# MAGIC ## The plan: what is joined with what, and how far it has come

# COMMAND ----------

print(opened.topology.describe())
if "displayHTML" in globals():
    displayHTML(opened.topology.svg())

# COMMAND ----------

assert opened.lake.control("ledger").exists(spark), f"there are no tables under {catalog or root}: run the job first"
show(opened.lag())

ledger = opened.lake.control("ledger").read(spark).where(F.col("pipeline") == pipeline)
newest = ledger.agg(
    F.max(F.when(F.col("kind") == "plan", F.col("cycle"))).alias("plan"),
    F.max(F.when(F.col("kind") == "done", F.col("cycle"))).alias("done"),
).first()
# a plan closes the cycle before it; the job may be at work, so what follows is of finished cycles alone
finished = max(newest["done"] or 0, (newest["plan"] or 0) - 1)
ranges = ledger.where((F.col("kind") == "plan") & (F.col("cycle") <= finished)).select("cycle", F.explode("ranges").alias("r")).select("cycle", "r.*")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Bronze: the two streams

# COMMAND ----------

join = next(node for node in opened.topology.nodes if type(node).__name__ == "WindowedJoin" and node.how == "outer")
left, right = opened.topology.sources
PLACE = ["topic", "partition", "offset", "attempt"]
# A plan names a replayed record by its ingest batch, under a partition that there is not.
REPLAYED = F.col("attempt") > 0
PLANNED = {"in_partition": F.when(REPLAYED, F.lit(-1)).otherwise(F.col("partition")), "at": F.when(REPLAYED, F.col("seq")).otherwise(F.col("offset"))}


def bronze(source):
    return opened.bronze(source.name).select(
        F.lit(source.name).alias("stream"), *PLACE, "seq", F.to_json("k").alias("key"), F.to_json("v").alias("value"), "event_time_ms", "error"
    )


def silver(name):
    return opened.silver(name).where(F.col("_lineage.cycle") <= finished)


every = bronze(left).unionByName(bronze(right))
show(every.groupBy("stream").agg(F.count("*").alias("records"), F.count("error").alias("unreadable"), F.timestamp_millis(F.max("event_time_ms")).alias("newest")))
show(every.orderBy("event_time_ms", *PLACE).limit(20))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Silver: paid orders, all orders, both sides

# COMMAND ----------

for name in (PAID, ORDERS, BOTH):
    print(name)
    show(silver(name).orderBy("_lineage.cycle", "_lineage.trigger", "_lineage.n").limit(20))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Quarantine: what could not be read, has no key or value, or came too late for its window

# COMMAND ----------

quarantine = opened.quarantine().where(F.col("cycle") <= finished)
show(quarantine.groupBy("topic", "node", "code", "message").count().orderBy("topic", "code", "node"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Expectations: how often each one was met
# MAGIC
# MAGIC Those of the pipeline's file and of its topics (`expect`, `expect_or_drop`, `expect_or_fail`, `invariants`), over all
# MAGIC finished cycles. Where none is declared there is `keys_not_null` of each table, or nothing.

# COMMAND ----------

expected_of = opened.expectations()
sums = expected_of.groupBy("dataset", "name", "action").agg(F.sum("passed").alias("passed"), F.sum("failed").alias("failed"))
expectations = {(row["dataset"], row["name"], row["action"]): (row["passed"], row["failed"]) for row in sums.collect()}
show(sums.withColumn("failed_share", F.col("failed") / F.nullif(F.col("passed") + F.col("failed"), F.lit(0))).orderBy("dataset", "name"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## How long payments take
# MAGIC
# MAGIC Of each matched pair the payment's time less the order's. Much at the window's edge says that the window is narrow.

# COMMAND ----------

cited = silver(BOTH).select(
    F.col("_lineage.trigger").alias("trigger"), F.col("_lineage.n").alias("n"), F.col("_lineage.kind").alias("kind"), F.explode("_lineage.contributors").alias("c")
).select("trigger", "n", "kind", F.col("c.source").alias("topic"), *(F.col(f"c.{name}").alias(name) for name in PLACE[1:]))
timed = cited.join(every, PLACE)
pairs = timed.where("kind = 'matched'").groupBy("trigger", "n").agg(
    F.max(F.when(F.col("stream") == right.name, F.col("event_time_ms"))).alias("paid_ms"),
    F.max(F.when(F.col("stream") == left.name, F.col("event_time_ms"))).alias("ordered_ms"),
).withColumn("took_ms", F.col("paid_ms") - F.col("ordered_ms"))
width = max(1, (join.before_ms + join.after_ms) // 10)
show(
    pairs.groupBy((F.floor(F.col("took_ms") / width) * width).alias("from_ms"))
    .agg(F.count("*").alias("pairs"))
    .withColumn("to_ms", F.col("from_ms") + width)
    .orderBy("from_ms")
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The fate of each order and payment
# MAGIC
# MAGIC | fate | meaning |
# MAGIC |---|---|
# MAGIC | `matched` | the other side was there in time |
# MAGIC | `unmatched` | its window closed without |
# MAGIC | `LATE`, `NULL_KEY`, `MALFORMED_VALUE`, ... | in quarantine, for that reason |
# MAGIC | `waits` | its window is still open |
# MAGIC | `held` | in bronze, waiting for a cycle |

# COMMAND ----------

positions = ranges.groupBy("topic", "partition").agg(
    F.max("to_offset").alias("position"), F.max("stream_time_ms").alias("stream_time_ms")
)
of_record = cited.groupBy(*PLACE).agg(F.count("*").alias("results"), F.min("kind").alias("kind"))
refused = quarantine.groupBy(*PLACE).agg(F.max("code").alias("code"))
fates = (
    every.withColumns(PLANNED)
    .join(F.broadcast(positions.select("topic", F.col("partition").alias("in_partition"), "position")), ["topic", "in_partition"], "left")
    .join(of_record, PLACE, "left")
    .join(refused, PLACE, "left")
    .withColumn(
        "fate",
        F.when(F.col("kind").isNotNull(), F.col("kind"))
        .when(F.col("code").isNotNull(), F.col("code"))
        .when(F.col("position").isNull() | (F.col("at") >= F.col("position")), F.lit("held"))
        .otherwise(F.lit("waits")),
    )
    .select("stream", *PLACE, "key", "value", "event_time_ms", "fate", F.coalesce("results", F.lit(0)).alias("results"), "error")
)
show(fates.drop("error").orderBy("event_time_ms", *PLACE).limit(50))

by_fate = (
    fates.groupBy("stream", "fate")
    .agg(F.count("*").alias("records"), F.countDistinct(F.struct(*PLACE)).alias("places"), F.count("error").alias("unreadable"))
    .orderBy("stream", "fate")
    .collect()
)
counts = {(row["stream"], row["fate"]): row["records"] for row in by_fate}
for row in by_fate:
    print(f"{row['stream']:20} {row['fate']:20} {row['records']:>12,} records")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Why: one order's story, from its record to its results

# COMMAND ----------

told = fates.where(F.col("fate").isin("unmatched", "waits", "matched")).orderBy(F.desc("fate"), "event_time_ms").limit(1)
example = told.select(F.concat_ws("", "topic", F.lit("-"), "partition", F.lit("@"), "offset")).first()
why = opened.why(at=example[0]).select("key", "value", F.explode("told").alias("told")).collect() if example else []
for row in why:
    print(f"{example[0]}  {row['key']} -> {row['value']}: {row['told']}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## What must hold

# COMMAND ----------

taken = ranges.agg(F.sort_array(F.collect_set("cycle")).alias("cycles"), F.sum("records").alias("records")).first()
assert taken["cycles"], f"pipeline {pipeline} has no finished cycle under {catalog or root}"
holds("cycles are numbered without a gap", taken["cycles"], list(range(1, finished + 1)))

records, held = sum(counts.values()), sum(count for (_, fate), count in counts.items() if fate == "held")
holds("every record has one fate", sum(row["places"] for row in by_fate), records)
trimmed = ledger.where("kind = 'trim'").count() > 0  # by maintain: bronze no longer has what all plans took
if not trimmed:
    holds("the plans count as many records as bronze holds of them", taken["records"], records - held)
holds(
    "unreadable records that are not in quarantine",
    sum(row["unreadable"] for row in by_fate if row["fate"] in {"matched", "unmatched", "waits"}),
    0,
)

kinds = {
    name: {row["kind"]: row["count"] for row in silver(name).groupBy(F.col("_lineage.kind").alias("kind")).count().collect()}
    for name in (PAID, ORDERS, BOTH)
}
alone = {row["topic"]: row["count"] for row in cited.where("kind = 'unmatched'").groupBy("topic").count().collect()}
unpaid, unknown = alone.get(left.topic, 0), alone.get(right.topic, 0)
matched = kinds[BOTH].get("matched", 0)
holds("the inner join has the matched pairs", kinds[PAID], {"matched": matched} if matched else {})
holds("the left join has them, and the orders that nobody paid", sum(kinds[ORDERS].values()), matched + unpaid)
holds("the outer join has all of these, and the payments without an order", sum(kinds[BOTH].values()), matched + unpaid + unknown)

placed = reduce(
    lambda one, other: one.unionByName(other),
    [silver(name).select(F.lit(name).alias("output"), "_lineage.trigger", "_lineage.n") for name in (PAID, ORDERS, BOTH)],
)
holds("results that stand twice in an output", placed.groupBy("output", "trigger", "n").count().where("count > 1").count(), 0)
if not trimmed:
    holds("results whose records are not in bronze", cited.join(every.select(*PLACE), PLACE, "left_anti").count(), 0)

outside = ~F.col("took_ms").between(-join.before_ms, join.after_ms)
holds("pairs that lie outside their window", pairs.where(outside).count(), 0)

# a task's clock is the furthest stream time of its partition in both topics
clocks = positions.groupBy("partition").agg(F.max("stream_time_ms").alias("clock_ms"))
slack = F.when(F.col("stream") == left.name, F.lit(join.after_ms)).otherwise(F.lit(join.before_ms)) + join.grace_ms
waiting = fates.where("fate = 'waits'").join(F.broadcast(clocks), "partition")
holds("records that wait although their window is closed", waiting.where(F.col("event_time_ms") + slack < F.col("clock_ms")).count(), 0)

holds("rows of finished cycles that break an expectation which is to fail", sum(failed for (*_, action), (_, failed) in expectations.items() if action == "fail"), 0)
refusals = quarantine.select("cycle", F.col("node").alias("dataset"), F.explode("rules").alias("name")).groupBy("cycle", "dataset", "name").count()
uneven = expected_of.where("action = 'drop'").join(refusals, ["cycle", "dataset", "name"], "left").where("failed != coalesce(count, 0)")
holds("expectations that dropped other rows than quarantine has", uneven.count(), 0)

print(f"{len(checked)} statements hold for {records} records of {pipeline}: {counts}")
