"""Spark's settings for tiny inputs: what pays for large ones costs more here than the work itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakestreams.engine.runtime.tuning import Tuning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def small(spark: SparkSession) -> Iterator[None]:
    """Sets a session up for tiny inputs, for a while."""
    with Tuning(spark).small_input():
        yield
