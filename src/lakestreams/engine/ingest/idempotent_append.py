"""Appends a batch to bronze exactly once, whatever is tried again.

Each append has a number (`decisions.of_batch`), and Delta lets one append of a number through. The number is of the driver's
epoch first and of the batch second: so no driver can take another one's number, and whatever an older driver tries again is
below it and is skipped. What an older driver has on its way when another takes over is stopped by a seal (`claims.take_over`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestreams.engine.ledger.fence import translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.engine.ledger.ledger import Ledger
    from lakestreams.engine.protocol.commands import Transaction


def append_once(spark: SparkSession, ledger: Ledger, topic: str, rows: DataFrame, known: Transaction) -> bool:
    """Appends a topic's rows of a batch to its bronze table.

    Args:
        ledger: of the running epoch.
        topic: whose bronze.
        rows: the columns of bronze.
        known: what Delta knows the append by.

    Returns:
        Whether the first attempt went through. Of a later one, what was observed of the rows is not sure.

    Raises:
        Fenced: if a newer driver runs the pipeline.
    """
    table = ledger.lake.bronze(ledger.pipeline, topic)
    with translated(ledger.pipeline):
        return table.append(ledger.fence(spark, rows), *known.of(ledger.pipeline))


__all__ = ["append_once"]
