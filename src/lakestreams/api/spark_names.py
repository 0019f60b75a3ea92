"""What to write instead of methods of Spark's DataFrames and of Lakeflow pipelines."""

from __future__ import annotations

from typing import Final

_COLUMNS: Final = (
    'map_values(lambda row: {"name": row.column}) gives all columns of the value; select_key those of the key'
)
_WRITE: Final = 'to_delta("silver.name") writes a table; lakestreams run or a job starts the pipeline'
_READ: Final = 'stream("topic", ...) reads events, table("topic", ...) rows by key; with delta= they read a Delta table'
_LOOK: Final = (
    "a step holds no rows: lakestreams show TABLE prints them, lakestreams.open(...) gives them as DataFrames"
)
_PLAN: Final = "the engine decides what it keeps and how it is laid out; lakestreams check --explain prints its plan"
_DATASET: Final = "a source or a step is a dataset; to_delta(...) makes a table of it, and any step may read it"
_DUPLICATES: Final = (
    "to_table() keeps the newest record of each key; the invariant unique_key finds rows that come twice"
)
INSTEAD: Final = {
    **dict.fromkeys(("select", "selectExpr", "withColumn", "withColumns", "withColumnRenamed", "drop"), _COLUMNS),
    **dict.fromkeys(("where",), "filter(lambda row: row.amount > 0) keeps the rows that fulfil a condition"),
    "agg": 'group first, then aggregate(lambda row: {"total": agg.sum(row.amount)})',
    "window": 'group_by_key().windowed_by("1 hour") groups by windows',
    "withWatermark": 'windows and joins take grace="10 minutes": how late a record may come',
    **dict.fromkeys(("union", "unionAll", "unionByName"), "merge(other) puts two streams together"),
    **dict.fromkeys(("distinct", "dropDuplicates", "dropDuplicatesWithinWatermark"), _DUPLICATES),
    "crossJoin": "each join has a key; a global table is joined by any column: left_on=",
    **dict.fromkeys(("write", "writeStream", "writeTo", "saveAsTable"), _WRITE),
    **dict.fromkeys(("read", "readStream", "read_stream"), _READ),
    **dict.fromkeys(("foreachBatch", "mapInPandas", "transform_with_state"), "results depend on recorded input only: "
                    "use map_values or flat_map with Spark's functions"),
    **dict.fromkeys(("collect", "display", "show", "toPandas", "take", "limit", "orderBy", "sort"), _LOOK),
    **dict.fromkeys(("cache", "persist", "coalesce", "checkpoint"), _PLAN),
    **dict.fromkeys(
        ("create_streaming_table", "materialized_view", "streaming_table", "temporary_view", "view"), _DATASET
    ),
    **dict.fromkeys(
        ("apply_changes", "create_auto_cdc_flow", "append_flow"),
        'table("topic", ...) follows changes by key, with DebeziumJson(...) a database; to_delta(...) keeps a row per key',
    ),
    "expect_or_quarantine": "expect_or_drop puts a row that violates the condition into quarantine",
}  # fmt: skip
"""Names that users of Spark and Lakeflow type, and what to do instead."""
