"""How a cache of the past is replaced: in one fenced commit, whose rows are counted while they are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.fence import translated
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.runtime.write_metrics import WriteMetrics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.engine.runtime.table import Table

_ROWS: Final = "rows"


def overwrite_counted(
    spark: SparkSession,
    ledger: Ledger,
    table: Table,
    rows: DataFrame,
    counted_as: str,
    mark: str,
    properties: Mapping[str, str] | None = None,
) -> int:
    """Replaces a table's content: how many rows it has then.

    Args:
        ledger: of the running epoch.
        counted_as: no other write of the epoch is counted by this name.
        mark: what the commit carries (`commits.holds`).
        properties: Delta's table properties, of a table that is not there yet.

    Raises:
        Fenced: a newer driver is there.
    """
    counting = WriteMetrics(f"{ledger.pipeline} {ledger.epoch} {counted_as}", {_ROWS: F.count(F.lit(1))})
    with translated(ledger.pipeline):
        at_once = table.overwrite(ledger.fence(spark, counting.of(rows)), properties, mark=mark)
    counts = counting.counts() if at_once else None
    return table.read(spark).count() if counts is None else counts[_ROWS]


__all__ = ["overwrite_counted"]
