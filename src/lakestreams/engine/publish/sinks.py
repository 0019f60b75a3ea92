"""Outputs: how each one's Delta table is made, and how a cycle's rows get into it, in one commit and exactly once.

`append` and `changes` append all rows, under a transaction that Delta accepts once. `merge` keeps one row a key, of a
stream one a record (`merged_by`): the last one that the cycle gives; it changes only what an earlier cycle wrote, so that
a repetition changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import DataType, StructType

from lakestreams.engine.ledger.fence import translated
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.runtime.lake import OWNER, owned_by
from lakestreams.engine.runtime.table import INDEXED
from lakestreams.evaluate.outputs import LINEAGE
from lakestreams.evaluate.stateless import names
from lakestreams.operators.records import KEY, TOMBSTONE
from lakestreams.sql import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.engine.ledger.plans import Plan
    from lakestreams.engine.protocol.commands import Transaction
    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.topology.endpoints import DeltaSink

# A changed row is marked in the file that holds it, which is not rewritten: merging costs half (DESIGN section 9).
_MERGED: Final = {"delta.enableDeletionVectors": "true"}
MANY = 10_000  # records whose rows cost more to merge than a look at how many files a table has
_FEED: Final = {"delta.enableChangeDataFeed": "true"}
_MOST_INDEXED: Final = 32  # Delta's default
_LATEST = "latest"


def create(spark: SparkSession, lake: Lake, sink: DeltaSink, schema: StructType, pipeline: str) -> None:
    """Creates an output's table unless it is there; columns that it lacks are added.

    Raises:
        TableSchemaMismatch: if its columns differ in another way.
    """
    properties = (_MERGED if sink.mode == "merge" else {}) | (_FEED if sink.change_feed else {}) | _indexed(schema)
    properties = {**properties, OWNER: owned_by(pipeline, f"output {sink.name.lower()}")}  # as catalogs do
    lake.output(sink.name).create(
        spark,
        schema,
        cluster_by=sink.cluster_by,
        partition_by=sink.partition_by,
        properties=properties,
        grows=True,
    )


def _indexed(schema: StructType) -> dict[str, str]:
    """Statistics of the key, the values, the time and the cycle, which stands first in the lineage.

    Nobody skips files by the rest of the lineage, and to collect it took a twentieth of a stream-table join's statement.
    """
    columns = _leaves(StructType([field for field in schema.fields if field.name != LINEAGE])) + 1
    return {INDEXED: str(columns)} if columns < _MOST_INDEXED else {}


def _leaves(kind: DataType) -> int:
    """How many columns Delta counts in a type: those of structs one by one, any other is one."""
    return sum(_leaves(field.dataType) for field in kind.fields) if isinstance(kind, StructType) else 1


def laid_out_otherwise(spark: SparkSession, lake: Lake, sink: DeltaSink) -> str | None:
    """How an output's table differs from what is declared of its layout, in words; None: it does not."""
    (row,) = spark.sql(f"DESCRIBE DETAIL {lake.output(sink.name).reference}").collect()
    detail = row.asDict()
    for words, declared, column in (
        ("clustered", sink.cluster_by, "clusteringColumns"),
        ("partitioned", sink.partition_by, "partitionColumns"),
    ):
        actual = tuple(detail.get(column) or ())
        if declared != actual:
            wanted = f"by {', '.join(declared)}" if declared else "not at all"
            return f"{sink.name} is {words} by {', '.join(actual) or 'nothing'}; declared: {wanted}"
    return None


def is_first_load(spark: SparkSession, ledger: Ledger, sink: DeltaSink, plan: Plan) -> bool:
    """Whether a merged output is empty and a plan brings many records, whose rows are then appended.

    A merge into an empty table replaces nothing, and costs more than twice the CPU of an append. A repetition finds the rows
    there, and merges; an older driver's append is skipped or fails, as any other of its appends.
    """
    many = sum(part.records for part in plan.ranges) >= MANY
    return many and not ledger.lake.output(sink.name).size(spark)[0]


def append(spark: SparkSession, ledger: Ledger, sink: DeltaSink, rows: DataFrame, known: Transaction) -> None:
    """Appends a cycle's rows to an output, of a merged one without its deletions.

    Args:
        ledger: of the running epoch.
        rows: as its table has them; of a merged one a row a key (`latest`), deletions of the kind `tombstone`.
        known: what Delta knows the append by.

    Raises:
        Fenced: if a newer driver runs the pipeline; nothing is written.
    """
    ledger.failpoint("publish.before", sink.name)
    with translated(ledger.pipeline):
        kept = rows.where(f"NOT ({GONE})") if sink.mode == "merge" else rows
        ledger.lake.output(sink.name).append(ledger.fence(spark, kept), *known.of(ledger.pipeline))
    ledger.failpoint("publish.after", sink.name)


def merge(
    spark: SparkSession, ledger: Ledger, sink: DeltaSink, rows: DataFrame, key: Sequence[str], plan: Plan
) -> None:
    """Merges a cycle's rows into an output.

    Args:
        ledger: of the running epoch.
        rows: as its table has them, a row a key (`latest`), deletions of the kind `tombstone`.
        key: what says which row of the table it is (`merged_by`).

    Raises:
        Fenced: if a newer driver runs the pipeline; nothing is written.
    """
    ledger.failpoint("publish.before", sink.name)
    with translated(ledger.pipeline):
        table, fenced = ledger.lake.output(sink.name), ledger.fence(spark, rows)
        table.merge(spark, fenced, key, newer=CYCLE, gone=GONE, up_to=plan.cycle)
    ledger.failpoint("publish.after", sink.name)


def holds(spark: SparkSession, lake: Lake, sink: DeltaSink, cycle: int) -> bool:
    """Whether anything of a cycle is in an output, or may be: of a merged one, deletions too."""
    table = lake.output(sink.name)
    if table.read(spark).where(F.col(CYCLE) == cycle).limit(1).count():
        return True
    return sink.mode == "merge" and table.may_have_deleted(spark, CYCLE, cycle)


CYCLE = f"{LINEAGE}.cycle"
GONE = f"{LINEAGE}.kind = '{TOMBSTONE}'"
# The record of the stream that a result is of: what joins add to its contributors stands behind it.
RECORD = f"{LINEAGE}.contributors[0]"


def merged_by(sink: DeltaSink, records: DataFrame) -> list[str]:
    """What says which row of a merged output it is, as SQL paths: a table's key; of a stream the record it is of.

    Args:
        records: the records frame that it is made of.
    """
    if sink.parent.is_table:
        return [quoted(name) for name in names(records, KEY)]
    return [RECORD]


def latest(rows: DataFrame, key: Sequence[str], *, repeated: bool = True) -> DataFrame:
    """The last row of each key (SQL paths), after one exchange by the key.

    Args:
        rows: an output's.
        repeated: whether most keys have many rows, of which all but the last are then left out before the exchange, for a
            sort more. Else they are sorted once, by a number of the key first (decision 0010).
    """
    order = [F.col(LINEAGE)[name] for name in ("cycle", "trigger", "n")]
    paths = [F.expr(path) for path in key]
    if repeated:
        last = rows.groupBy(*paths).agg(F.max_by(F.struct(*rows.columns), F.struct(*order)).alias(_LATEST))
        last = last.toDF(*map(str, range(len(paths))), _LATEST)  # a column of the key may be called so, too
        return last.select(*(F.col(_LATEST)[name].alias(name) for name in rows.columns))
    of_key = Window.partitionBy(F.xxhash64(*paths), *paths).orderBy(*order)
    # two columns with names of our own, so that none of the output's can be one of them
    known = rows.select(F.struct("*").alias("row"), F.lead(F.lit(1)).over(of_key).alias("later"))
    return known.where("later is null").select("row.*")
