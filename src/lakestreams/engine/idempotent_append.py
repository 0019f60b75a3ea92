"""Appends a batch to bronze exactly once, whatever is tried again.

Each append has a number, and Delta lets one append of a number through. The number is of the driver's epoch first and of the
batch second: so no driver can take another one's number, and whatever an older driver tries again is below it and is skipped.
What an older driver has on its way when another takes over is stopped by a seal (`starting.stop_older_drivers`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakestreams.engine.fence import translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.engine.ledger import Ledger

_BATCHES_AN_EPOCH: Final = 2**32


def number(epoch: int, seq: int) -> int:
    """The transaction version of a batch's appends: ascends over epochs, and over batches in an epoch."""
    return epoch * _BATCHES_AN_EPOCH + seq


def append_once(spark: SparkSession, ledger: Ledger, topic: str, rows: DataFrame, seq: int) -> bool:
    """Appends a topic's rows of a batch to its bronze table.

    Args:
        spark: the session.
        ledger: of the running epoch.
        topic: whose bronze.
        rows: the columns of bronze.
        seq: the batch's number.

    Returns:
        Whether the first attempt went through. Of a later one, what was observed of the rows is not sure.

    Raises:
        Fenced: if a newer driver runs the pipeline.
    """
    table = ledger.lake.bronze(ledger.pipeline, topic)
    with translated(ledger.pipeline):
        return table.append(ledger.fence(spark, rows), f"{ledger.pipeline}/bronze/{topic}", number(ledger.epoch, seq))


__all__ = ["append_once", "number"]
