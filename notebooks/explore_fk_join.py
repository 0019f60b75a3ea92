# Databricks notebook source
# MAGIC %md
# MAGIC # Orders with the names of their customers
# MAGIC
# MAGIC Reads what the job `fk_join` has left behind: bronze, its two tables and quarantine. It shows how many orders each
# MAGIC customer has, which orders name a customer that is not there, and where a row comes from. The last cells compute the
# MAGIC tables once more, in a few lines over bronze, and assert that they are equal, so that this notebook can be scheduled as
# MAGIC a check.
# MAGIC
# MAGIC On Databricks the widgets above say where the tables are, and the next cell installs the wheel that the jobs run; it
# MAGIC changes nothing where the compute has that version already. On a laptop, where lakestreams is installed with its local
# MAGIC parts, it runs as a script:
# MAGIC `LAKESTREAMS_ROOT=lake python notebooks/explore_fk_join.py`

# COMMAND ----------

from pathlib import Path

wheel = str(max(Path().glob("../dist/*.whl"), default="../dist/*.whl"))  # the file that the jobs install

# COMMAND ----------

# MAGIC %pip install --quiet $wheel

# COMMAND ----------

# MAGIC %restart_python

# COMMAND ----------

import os

from pyspark.sql import Window
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
conf = parameter("conf", os.path.join(os.path.dirname(here), "conf", "fk_join.yml"))

# The outputs of conf/fk_join.yml, of the inner and of the left join; and its tables' columns.
KNOWN, NAMED = "silver.orders_of_known_customers", "silver.orders_with_names"
ORDER, CUSTOMER, COLUMNS = "order_id", "customer_id", ["order_id", "customer_id", "amount", "name"]

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
finished = max(newest["done"] or 0, (newest["plan"] or 0) - 1)  # a plan closes the cycle before it
ranges = ledger.where((F.col("kind") == "plan") & (F.col("cycle") <= finished)).select("cycle", F.explode("ranges").alias("r")).select("cycle", "r.*")
positions = ranges.groupBy("topic", F.col("partition").alias("in_partition")).agg(F.max("to_offset").alias("position"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Bronze: every change of both tables, and what they hold now
# MAGIC
# MAGIC A key's newest record is its row; one without a value has deleted it. Records that no finished cycle has taken, that
# MAGIC could not be read, or that an expectation of their topic has dropped, change nothing.

# COMMAND ----------

orders, customers = (source.name for source in opened.topology.sources)
PLACE = ["topic", "partition", "offset", "attempt"]
# A plan names a replayed record by its ingest batch, under a partition that there is not.
REPLAYED = F.col("attempt") > 0
PLANNED = {"in_partition": F.when(REPLAYED, F.lit(-1)).otherwise(F.col("partition")), "at": F.when(REPLAYED, F.col("seq")).otherwise(F.col("offset"))}
changes = {
    name: opened.bronze(name).withColumns(PLANNED).join(F.broadcast(positions), ["topic", "in_partition"]).where("at < position") for name in (orders, customers)
}
for name, rows in changes.items():
    print(name)
    show(rows.select(*PLACE, F.to_json("k").alias("key"), F.to_json("v").alias("value"), F.timestamp_millis("event_time_ms").alias("at")).orderBy("event_time_ms", *PLACE).limit(20))


def now(name):
    """A table's rows as of the last finished cycle: the columns of key and value."""
    newest_first = Window.partitionBy("k").orderBy(F.desc("offset"), F.desc("attempt"))
    dropped = opened.quarantine().where((F.col("node") == name) & (F.col("code") == "EXPECTATION")).select(*PLACE)
    readable = changes[name].where("error is null and k is not null").join(dropped, PLACE, "left_anti").withColumn("place", F.row_number().over(newest_first))
    return readable.where("place = 1 and v is not null").select("k.*", "v.*")


# COMMAND ----------

# MAGIC %md
# MAGIC ## Silver: the two tables

# COMMAND ----------

for name in (KNOWN, NAMED):
    print(name)
    show(opened.silver(name).orderBy(ORDER).limit(20))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Quarantine: what could not be read, or has no key

# COMMAND ----------

quarantine = opened.quarantine()
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
# MAGIC ## How many orders a customer has
# MAGIC
# MAGIC A change of a customer changes all of its orders: the widest one says what a single record can cost.

# COMMAND ----------

per_customer = now(orders).groupBy(CUSTOMER).agg(F.count("*").alias("orders"))
known = now(customers)
show(known.join(per_customer, CUSTOMER, "left").na.fill(0, ["orders"]).orderBy(F.desc("orders"), CUSTOMER).limit(20))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Orders without their customer
# MAGIC
# MAGIC They come into the inner join's table when the customer comes.

# COMMAND ----------

orphans = now(orders).join(known.select(CUSTOMER), CUSTOMER, "left_anti").orderBy(ORDER)
show(orphans.limit(50))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Why: one order's story, from its record to its rows

# COMMAND ----------

example = opened.silver(NAMED).orderBy(F.col("name").isNotNull(), ORDER).select(ORDER).first()
why = opened.why(key=example[0]).select("topic", "offset", "key", "value", F.explode("told").alias("told")).collect() if example else []
for row in why:
    print(f"{row['topic']}@{row['offset']}  {row['key']} -> {row['value']}: {row['told']}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## What must hold

# COMMAND ----------

cycles = ranges.agg(F.sort_array(F.collect_set("cycle"))).first()[0]
assert cycles, f"pipeline {pipeline} has no finished cycle under {catalog or root}"
holds("cycles are numbered without a gap", cycles, list(range(1, finished + 1)))

expected = {
    KNOWN: now(orders).join(known, CUSTOMER).select(*COLUMNS),
    NAMED: now(orders).join(known, CUSTOMER, "left").select(*COLUMNS),
}
counts = {}
for name, wanted in expected.items():
    rows = opened.silver(name)
    counts[name] = rows.count()
    found = rows.select(*COLUMNS)
    holds(f"rows of {name} that bronze does not give", found.exceptAll(wanted).count(), 0)
    holds(f"rows of {name} that are missing", wanted.exceptAll(found).count(), 0)
    holds(f"orders that {name} has twice", rows.groupBy(ORDER).count().where("count > 1").count(), 0)
    cited = rows.select(F.explode("_lineage.contributors").alias("c")).select(F.col("c.source").alias("topic"), *(F.col(f"c.{part}").alias(part) for part in PLACE[1:]))
    every = changes[orders].select(*PLACE).unionByName(changes[customers].select(*PLACE))
    holds(f"rows of {name} whose records are not in bronze", cited.join(every, PLACE, "left_anti").count(), 0)

holds("orders without their customer are what the two tables differ by", counts[NAMED] - counts[KNOWN], orphans.count())

unreadable = changes[orders].select(*PLACE, "error", "k").where("error is not null or k is null").select(*PLACE)
unreadable = unreadable.unionByName(changes[customers].where("error is not null or k is null").select(*PLACE))
holds("records without use that are not in quarantine", unreadable.join(quarantine.select(*PLACE), PLACE, "left_anti").count(), 0)

holds("rows of finished cycles that break an expectation which is to fail", sum(failed for (*_, action), (_, failed) in expectations.items() if action == "fail"), 0)
refusals = quarantine.select("cycle", F.col("node").alias("dataset"), F.explode("rules").alias("name")).groupBy("cycle", "dataset", "name").count()
uneven = expected_of.where("action = 'drop'").join(refusals, ["cycle", "dataset", "name"], "left").where("failed != coalesce(count, 0)")
holds("expectations that dropped other rows than quarantine has", uneven.count(), 0)

print(f"{len(checked)} statements hold for {counts[NAMED]} orders of {pipeline}: {counts}")
