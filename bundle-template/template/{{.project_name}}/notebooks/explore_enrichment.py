# Databricks notebook source
# MAGIC %md
# MAGIC # What became of every page view
# MAGIC
# MAGIC Reads what the job `enrichment` has left behind: bronze, silver and quarantine, and follows each record of its stream to
# MAGIC its fate. The last cells assert what must hold for any pipeline whose streams meet tables, so that this notebook can be
# MAGIC scheduled as a check; the widget `conf` takes another pipeline's file.
# MAGIC
# MAGIC On Databricks the widgets above say where the tables are, and the next cell installs the wheel that the jobs run; it
# MAGIC changes nothing where the compute has that version already. On a laptop, where lakestreams is installed with its local
# MAGIC parts, it runs as a script:
# MAGIC `LAKESTREAMS_ROOT=lake python notebooks/explore_enrichment.py`

# COMMAND ----------

from pathlib import Path

wheel = str(max(Path().glob("../wheels/*.whl"), default="../wheels/*.whl"))  # the file that the jobs install

# COMMAND ----------

# MAGIC %pip install --quiet $wheel

# COMMAND ----------

# MAGIC %restart_python

# COMMAND ----------

import os
from functools import reduce

from pyspark.sql import functions as F

import lakestreams
from lakestreams.topology.graph import only_looks_up

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
conf = parameter("conf", os.path.join(os.path.dirname(here), "conf", "enrichment.yml"))

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

# MAGIC %md
# MAGIC ### Cycles: how much each one took
# MAGIC
# MAGIC Every `plan` row of the ledger is a cycle: offset ranges and clocks, written down before anything was computed from
# MAGIC them. A plan closes the cycle before it; `done` closes the last one of a run.

# COMMAND ----------

assert opened.lake.control("ledger").exists(spark), f"there are no tables under {catalog or root}: run the job first"
show(opened.lag())

ledger = opened.lake.control("ledger").read(spark).where(F.col("pipeline") == pipeline)
newest = ledger.agg(
    F.max(F.when(F.col("kind") == "plan", F.col("cycle"))).alias("plan"),
    F.max(F.when(F.col("kind") == "done", F.col("cycle"))).alias("done"),
).first()
# a plan closes the cycle before it; a run may be at work, so what follows is of finished cycles alone
finished = max(newest["done"] or 0, (newest["plan"] or 0) - 1)
ranges = ledger.where((F.col("kind") == "plan") & (F.col("cycle") <= finished)).select("cycle", F.explode("ranges").alias("r")).select("cycle", "r.*")
show(
    ranges.groupBy("cycle", "topic")
    .agg(F.sum("records").alias("records"), F.sum("bad").alias("unreadable"))
    .orderBy(F.desc("cycle"), "topic")
    .limit(50)
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Bronze: the stream and its table

# COMMAND ----------

sources = opened.topology.sources
streams = [source.topic for source in sources if source.kind == "stream"]
outputs = [sink.name for sink in opened.topology.sinks]
assert outputs, f"pipeline {pipeline} writes topics alone: ask `lakestreams why` what became of a record"
PLACE = ["topic", "partition", "offset", "attempt"]
# A plan names a replayed record by its ingest batch, under a partition that there is not.
REPLAYED = F.col("attempt") > 0
PLANNED = {"in_partition": F.when(REPLAYED, F.lit(-1)).otherwise(F.col("partition")), "at": F.when(REPLAYED, F.col("seq")).otherwise(F.col("offset"))}


def bronze(source):
    return opened.bronze(source.name).select(
        *PLACE, "seq", F.to_json("k").alias("key"), F.to_json("v").alias("value"), "event_time_ms", "stream_time_ms", "error"
    )


def union(frames):
    return reduce(lambda left, right: left.unionByName(right), frames)


every = union([bronze(source) for source in sources])
show(every.groupBy("topic").agg(F.count("*").alias("records"), F.count("error").alias("unreadable"), F.timestamp_millis(F.max("event_time_ms")).alias("newest")))
show(every.orderBy("stream_time_ms", "topic", "partition", "offset").limit(20))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Silver: the views with their regions

# COMMAND ----------

for name in outputs:
    print(name)
    show(opened.silver(name).orderBy("_lineage.cycle", "_lineage.trigger", "_lineage.n").limit(20))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Quarantine: what could not be read, or has no key or value

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

views = union([bronze(source) for source in sources if source.kind == "stream"])
results = union(
    [
        opened.silver(name).where(F.col("_lineage.cycle") <= finished).select(
            F.col("_lineage.trigger.source").alias("topic"),
            *(F.col(f"_lineage.trigger.{name}").alias(name) for name in PLACE[1:]),
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
    "topic", F.col("partition").alias("in_partition"), "from_offset", "to_offset", "cycle"
)
of_record = results.groupBy(*PLACE).agg(F.count("*").alias("results"), F.max("kind").alias("kind"))
refused = quarantine.groupBy(*PLACE).agg(F.max("code").alias("code"))
fates = (
    views.withColumns(PLANNED).alias("view")
    .join(
        F.broadcast(planned.alias("plan")),
        F.expr("view.topic = plan.topic and view.in_partition = plan.in_partition and at >= from_offset and at < to_offset"),
        "left",
    )
    .select("view.*", "cycle")
    .join(of_record, PLACE, "left")
    .join(refused, PLACE, "left")
    .withColumn(
        "fate",
        F.when(F.col("kind").isNotNull(), F.col("kind"))
        .when(F.col("code").isNotNull(), F.col("code"))
        .when(F.col("cycle").isNull(), F.lit("held"))
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
        F.count_if(F.col("cycle").isNull() & (F.col("results") > 0)).alias("untaken"),
    )
    .orderBy("fate")
    .collect()
)
counts = {row["fate"]: row["views"] for row in by_fate}
for row in by_fate:
    print(f"{row['fate']:20} {row['views']:>12,} views")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Why: one view's story, from its record to its result

# COMMAND ----------

told = fates.where(F.col("fate").isin("matched", "unmatched", "no result")).orderBy(F.desc("fate"), "event_time_ms", *PLACE).limit(1)
example = told.select(F.concat_ws("", "topic", F.lit("-"), "partition", F.lit("@"), "offset")).first()
why = opened.why(at=example[0]).select("key", "value", F.explode("told").alias("told")).collect() if example else []
for row in why:
    print(f"{example[0]}  {row['key']} -> {row['value']}: {row['told']}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## What must hold

# COMMAND ----------

totals = ranges.agg(
    F.sort_array(F.collect_set("cycle")).alias("cycles"),
    F.sum(F.when(F.col("topic").isin(streams), F.col("records"))).alias("records"),
).first()
assert totals["cycles"], f"pipeline {pipeline} has no finished cycle under {catalog or root}"
holds("cycles are numbered without a gap", totals["cycles"], list(range(1, finished + 1)))

records = sum(counts.values())
holds("every view has one fate", sum(row["places"] for row in by_fate), records)
trimmed = ledger.where("kind = 'trim'").count() > 0  # by maintain: bronze no longer has what all plans took
if not trimmed:
    holds("the plans count as many views as bronze holds of them", sum(row["planned"] for row in by_fate), totals["records"])

given = {"matched", "unmatched", "no result"}
holds("unreadable views that are not in quarantine", sum(row["unreadable"] for row in by_fate if row["fate"] in given), 0)

placed = results.groupBy("output", *PLACE, "n").count()
holds("results that stand twice in an output", placed.where("count > 1").count(), 0)
written = union([opened.silver(name).select("_lineage.cycle") for name in outputs]).agg(F.min("cycle"), F.max("cycle")).first()
last_cycle = opened.lake.control("ledger").read(spark).where((F.col("pipeline") == pipeline) & (F.col("kind") == "plan")).agg(F.max("cycle")).first()[0]
# the ledger was read last, for a run plans a cycle before it writes anything of it
holds("results of a cycle that is in no plan", [cycle for cycle in written if cycle is not None and not 1 <= cycle <= last_cycle], [])
holds("views with results that no finished cycle has taken", sum(row["untaken"] for row in by_fate), 0)

cited = results.select(F.explode("contributors").alias("c")).select(
    F.col("c.source").alias("topic"), *(F.col(f"c.{name}").alias(name) for name in PLACE[1:])
)
if not trimmed:
    holds("results whose records are not in bronze", cited.join(every.select(*PLACE), PLACE, "left_anti").count(), 0)

drops = any(type(node).__name__ in ("Filter", "FlatMap", "FlatMapValues") or getattr(node, "how", "") == "inner" for node in opened.topology.nodes)
ignored = any(source.kind == "stream" and source.null_values == "ignore" for source in sources)
# what waits, adds up or merges has no row of its own for each view, and what is in a topic is not looked at
keeps = only_looks_up(opened.topology.nodes) and all(getattr(output, "mode", "") == "append" for output in opened.topology.outputs)
if keeps and not drops and not ignored:
    holds("views without a result in a pipeline that drops none", counts.get("no result", 0), 0)

holds("rows of finished cycles that break an expectation which is to fail", sum(failed for (*_, action), (_, failed) in expectations.items() if action == "fail"), 0)
refusals = quarantine.select("cycle", F.col("node").alias("dataset"), F.explode("rules").alias("name")).groupBy("cycle", "dataset", "name").count()
uneven = expected_of.where("action = 'drop'").join(refusals, ["cycle", "dataset", "name"], "left").where("failed != coalesce(count, 0)")
holds("expectations that dropped other rows than quarantine has", uneven.count(), 0)

print(f"{len(checked)} statements hold for {records} views of {pipeline}: {counts}")
