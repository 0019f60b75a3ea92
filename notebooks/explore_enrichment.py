# Databricks notebook source
# MAGIC %md
# MAGIC # What became of every page view
# MAGIC
# MAGIC Reads what a pipeline of lakestreams has left behind - bronze, silver, quarantine and the ledger - and follows each
# MAGIC record of its streams to its fate. The last cells assert what must hold for any pipeline, so that this notebook can
# MAGIC be scheduled as a check.
# MAGIC
# MAGIC On Databricks the widgets above say where the tables are. On a laptop it runs as a script:
# MAGIC `LAKESTREAMS_ROOT=lake python notebooks/explore_enrichment.py`

# COMMAND ----------

import importlib.util
import os
import re
import sys
from functools import reduce

from pyspark.sql import functions as F

if importlib.util.find_spec("lakestreams") is None:  # not installed: the bundle's files lie beside this one
    here = os.path.dirname(os.path.abspath(__file__)) if "__file__" in globals() else os.getcwd()
    sys.path.insert(0, os.path.join(os.path.dirname(here), "src"))

from lakestreams.engine import schemas
from lakestreams.engine.lake import Lake


def parameter(name, default):
    """A widget's value on Databricks, else the environment's LAKESTREAMS_<NAME>."""
    if "dbutils" not in globals():
        return os.environ.get(f"LAKESTREAMS_{name.upper()}") or default
    dbutils.widgets.text(name, default)
    return dbutils.widgets.get(name)


catalog = parameter("catalog", "")
names = parameter("schemas", "")
root = parameter("root", "lake")
pipeline = parameter("pipeline", "page_views")

if "spark" not in globals():
    from lakestreams.local.session import spark_session

    spark = spark_session("explore", quick=True)

lake = Lake(root, catalog or None, **schemas.parse(names))
show = globals().get("display") or (lambda frame: frame.show(50, truncate=False))
checked = []


def holds(what, found, expected):
    """An asserted value; `checked` lists them all."""
    assert found == expected, f"{what}: {found}, expected {expected}"
    checked.append(what)
    print(f"holds: {what} = {found}")


# COMMAND ----------

# MAGIC %md
# MAGIC ## The ledger: what was decided
# MAGIC
# MAGIC Every `plan` row is a cycle: offset ranges and clocks, written down before anything was computed from them.
# MAGIC A plan closes the cycle before it; `done` closes the last one of a run.

# COMMAND ----------

assert lake.control("ledger").exists(spark), f"there are no tables under {catalog or root}: run a pipeline first"
ledger = lake.control("ledger").read(spark).where(F.col("pipeline") == pipeline)
show(
    ledger.groupBy("kind")
    .agg(F.count("*").alias("rows"), F.max("epoch").alias("epoch"), F.max("cycle").alias("cycle"), F.max("seq").alias("seq"))
    .orderBy("kind")
)

plans = ledger.where("kind = 'plan'")
newest = ledger.agg(
    F.max(F.when(F.col("kind") == "plan", F.struct("cycle", "fingerprint"))).alias("plan"),
    F.max(F.when(F.col("kind") == "done", F.col("cycle"))).alias("done"),
).first()
last_cycle, fingerprint = newest["plan"] or (0, "")
finished = max(newest["done"] or 0, last_cycle - 1)
ranges = plans.select(F.col("cycle"), F.explode("ranges").alias("r")).select("cycle", "r.*")

# COMMAND ----------

# MAGIC %md
# MAGIC ### Positions: how far each partition has come

# COMMAND ----------

show(
    ranges.where(F.col("cycle") == last_cycle)
    .select("topic", "partition", F.col("to_offset").alias("position"), "end_offset", F.timestamp_millis("stream_time_ms").alias("stream_time"))
    .orderBy("topic", "partition")
)

# COMMAND ----------

# MAGIC %md
# MAGIC ### Cycles: how much each one took

# COMMAND ----------

show(
    ranges.groupBy("cycle", "topic")
    .agg(F.sum("records").alias("records"), F.sum("bad").alias("unreadable"))
    .orderBy("cycle", "topic")
)

# COMMAND ----------

# MAGIC %md
# MAGIC ### The topology that the newest cycle ran under

# COMMAND ----------

config = ledger.where((F.col("kind") == "config") & (F.col("fingerprint") == fingerprint)).select("config").first()
topology = (config["config"] if config else "").partition("\n---\n")[0]
print(topology)

sources = re.findall(r"Source: \S+ \((stream|table), topic: (\S+)\)", topology)
streams = [topic for kind, topic in sources if kind == "stream"]
outputs = re.findall(r"Sink: (\S+) \(delta", topology)
steps = set(re.findall(r"Processor: .* \((\w+)\)", topology))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Bronze, silver, quarantine

# COMMAND ----------

PLACE = ["topic", "partition", "offset", "attempt"]


def bronze(topic):
    return lake.bronze(pipeline, topic).read(spark).select(
        *PLACE, F.to_json("k").alias("key"), F.to_json("v").alias("value"), "event_time_ms", "stream_time_ms", "error"
    )


def union(frames):
    return reduce(lambda left, right: left.unionByName(right), frames)


every = union([bronze(topic) for _, topic in sources])
show(every.orderBy("stream_time_ms", "topic", "partition", "offset").limit(50))

for name in outputs:
    show(lake.output(name).read(spark).orderBy("_lineage.cycle", "_lineage.trigger", "_lineage.n").limit(20))

quarantine = lake.control("quarantine").read(spark).where(F.col("pipeline") == pipeline)
show(quarantine.groupBy("topic", "node", "code", "message").count().orderBy("topic", "code"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## The fate of each view
# MAGIC
# MAGIC | fate | meaning |
# MAGIC |---|---|
# MAGIC | `matched` | joined with the row that its key had then |
# MAGIC | `unmatched` | there was no such row; a left join's result |
# MAGIC | `NULL_KEY`, `MALFORMED_VALUE`, ... | in quarantine, for that reason |
# MAGIC | `no result` | an inner join found no row, a filter dropped it, or its null value is ignored |
# MAGIC | `held` | in bronze, waiting for a cycle |

# COMMAND ----------

views = union([bronze(topic) for topic in streams])
results = union(
    [
        lake.output(name)
        .read(spark)
        .select(
            F.col("_lineage.trigger.source").alias("topic"),
            *(F.col(f"_lineage.trigger.{name}").alias(name) for name in PLACE[1:]),
            F.col("_lineage.cycle").alias("result_cycle"),
            F.col("_lineage.n").alias("n"),
            F.col("_lineage.kind").alias("kind"),
            F.col("_lineage.contributors").alias("contributors"),
            F.to_json(F.struct("*")).alias("result"),
            F.lit(name).alias("output"),
        )
        for name in outputs
    ]
)
planned = ranges.where("records > 0").select(
    F.col("topic").alias("in_topic"), F.col("partition").alias("in_partition"), "from_offset", "to_offset", "cycle"
)
of_record = results.groupBy(*PLACE).agg(F.count("*").alias("results"), F.max("kind").alias("kind"))
refused = quarantine.groupBy(*PLACE).agg(F.max("code").alias("code"))
fates = (
    views.join(
        F.broadcast(planned),
        (F.col("topic") == F.col("in_topic"))
        & (F.col("partition") == F.col("in_partition"))
        & (F.col("offset") >= F.col("from_offset"))
        & (F.col("offset") < F.col("to_offset")),
        "left",
    )
    .join(of_record, PLACE, "left")
    .join(refused, PLACE, "left")
    .withColumn(
        "fate",
        F.when(F.col("kind").isNotNull(), F.col("kind"))
        .when(F.col("code").isNotNull(), F.col("code"))
        .when(F.col("cycle").isNull() | (F.col("cycle") > finished), F.lit("held"))
        .otherwise(F.lit("no result")),
    )
    .select(*PLACE, "key", "value", "event_time_ms", "cycle", "fate", F.coalesce("results", F.lit(0)).alias("results"), "error")
)
show(fates.drop("error").orderBy("event_time_ms", *PLACE).limit(50))

# one pass over all views; what follows reads these few rows
by_fate = (
    fates.groupBy("fate")
    .agg(
        F.count("*").alias("views"),
        F.countDistinct(F.struct(*PLACE)).alias("places"),
        F.count("cycle").alias("planned"),
        F.count("error").alias("unreadable"),
    )
    .orderBy("fate")
    .collect()
)
counts = {row["fate"]: row["views"] for row in by_fate}
for row in by_fate:
    print(f"{row['fate']:20} {row['views']:>12,} views")

# COMMAND ----------

# MAGIC %md
# MAGIC ## What must hold

# COMMAND ----------

totals = ranges.agg(
    F.sort_array(F.collect_set("cycle")).alias("cycles"),
    F.sum(F.when(F.col("topic").isin(streams), F.col("records"))).alias("records"),
).first()
assert totals["cycles"], f"pipeline {pipeline} has no cycle under {catalog or root}"
holds("cycles are numbered without a gap", totals["cycles"], list(range(1, last_cycle + 1)))

records = sum(counts.values())
holds("every view has one fate", sum(row["places"] for row in by_fate), records)
holds("the plans count as many views as bronze holds of them", sum(row["planned"] for row in by_fate), totals["records"])

given = {"matched", "unmatched", "no result"}
holds("unreadable views that are not in quarantine", sum(row["unreadable"] for row in by_fate if row["fate"] in given), 0)

placed = results.groupBy("output", *PLACE, "n").agg(F.count("*").alias("rows"), F.max("result_cycle").alias("cycle"))
doubled, unplanned = placed.agg(F.count_if(F.col("rows") > 1), F.count_if(~F.col("cycle").between(1, last_cycle))).first()
holds("results that stand twice in an output", doubled, 0)
holds("results of a cycle that is in no plan", unplanned, 0)

cited = results.select(F.explode("contributors").alias("c")).select(
    F.col("c.source").alias("topic"), *(F.col(f"c.{name}").alias(name) for name in PLACE[1:])
)
holds("results whose records are not in bronze", cited.join(every.select(*PLACE), PLACE, "left_anti").count(), 0)

if not steps & {"join", "filter"} and "null values: ignore" not in topology:
    holds("views without a result in a pipeline that drops none", counts.get("no result", 0), 0)

print(f"{len(checked)} statements hold for {records} views of {pipeline}: {counts}")
