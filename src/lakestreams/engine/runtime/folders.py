"""Values of partition columns: those that a table would not give back as they were written are refused beforehand.

Delta writes a partition's value as text, and reads the empty text as null; Hive's word for null is taken for null, too. On
a disk the value names a folder. An output that is laid out in another way, `cluster_by`, keeps every value
(docs/decisions/0030-hard-cases-of-a-run.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StringType

from lakestreams.errors import UnwritablePartition
from lakestreams.errors.places import NodePlace
from lakestreams.evaluate.outputs import LINEAGE
from lakestreams.operators.records import TOMBSTONE
from lakestreams.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from lakestreams.engine.runtime.table import Table
    from lakestreams.topology.endpoints import DeltaSink

NULL_WORD: Final = "__HIVE_DEFAULT_PARTITION__"
LONGEST_NAME: Final = 255
"""Bytes of a folder's name, on every file system of a laptop."""
_ESCAPED: Final = r'[\x01-\x1f\x7f"#%\'*/:=?\\{\[\]^]'
_SHOWN, _LONGEST_SHOWN = 3, 40


def require_exact(sink: DeltaSink, rows: DataFrame, table: Table) -> None:
    """Refuses rows of which a partition column would come back with another value.

    Args:
        rows: what a cycle writes to it; of a merged one deletions are not written.
        table: where.

    Raises:
        UnwritablePartition: naming columns and values.
    """
    kinds = {field.name: field.dataType for field in rows.schema.fields if field.name in sink.partition_by}
    faults = {name: fault for name, kind in kinds.items() if (fault := _fault(name, kind, table)) is not None}
    if not faults:
        return
    written = rows.where(F.col(LINEAGE)["kind"] != TOMBSTONE) if sink.mode == "merge" else rows
    judged = F.array_compact(F.array(*(F.when(fault, _said(name)) for name, fault in faults.items())))
    examples = written.select(F.explode(judged).alias("fault")).distinct().orderBy("fault").limit(_SHOWN).collect()
    if examples:
        lines = "\n".join(f"{sink.name}: {one['fault']} would be read back as another value" for one in examples)
        raise UnwritablePartition(f"{lines}\nnothing of the cycle was published", where=NodePlace("output", sink.name))


def _said(name: str) -> Column:
    value = F.col(quoted(name)).cast("string")
    shown = F.concat(F.lit("'"), F.substring(value, 1, _LONGEST_SHOWN), F.lit("'"))
    length = F.when(F.length(value) > _LONGEST_SHOWN, F.format_string("... (%d bytes)", F.octet_length(value)))
    return F.concat(F.lit(f"{name} = "), shown, F.coalesce(length, F.lit("")))


def _fault(name: str, kind: DataType, table: Table) -> Column | None:
    """When a value is lost on its way; None: no value of the type is."""
    if not isinstance(kind, StringType):
        return None  # numbers, booleans, dates and times have one text each
    value = F.col(quoted(name))
    lost = value.isin("", NULL_WORD)
    if table.path is not None:
        escaped = F.regexp_replace(value, _ESCAPED, "%00")
        lost |= F.octet_length(escaped) + len(name.encode()) + 1 > LONGEST_NAME
    return lost
