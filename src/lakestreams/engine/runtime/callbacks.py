"""What a classic session keeps of each streaming query that has called Python: a connection, and a thread that waits on it.

py4j gives a connection of its own to each thread of the JVM that calls a Python function, and never closes one although its
thread has ended, as a query's does. A job that runs a query every round would have thousands after a day, and fail for want of
file descriptors after the first thousand where that is the limit.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def release_idle(spark: SparkSession) -> None:
    """Closes the connections that no call is using; whoever calls again opens another one.

    Spark Connect has none. Compute that does not let us near them keeps what it has.
    """
    client = getattr(getattr(getattr(spark, "_sc", None), "_gateway", None), "_gateway_client", None)
    if client is None:
        return
    with contextlib.suppress(Exception):
        from py4j.java_gateway import JavaObject  # type: ignore[import-untyped]  # noqa: PLC0415 - classic sessions have it

        JavaObject("GATEWAY_SERVER", client).getCallbackClient().periodicCleanup()


__all__ = ["release_idle"]
