"""Counting rows on their way into a table, without reading them once more: Spark's observed metrics.

They come with the write itself. A write that Delta skips, because a driver before has made it, observes nothing; then
whoever wants the numbers counts what the table has.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import Observation

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PATIENCE_S = 5.0


class Observed:
    """Named counts of the rows that one write takes.

    Args:
        name: no other observation of the session has it.
        counts: aggregates by name.
    """

    def __init__(self, name: str, counts: Mapping[str, Column]) -> None:
        self._observation = Observation(name)
        self._counts = counts

    def of(self, rows: DataFrame) -> DataFrame:
        """The rows, counted when they are written. Nothing may stand above them that reads them twice or in part."""
        return rows.observe(self._observation, *(column.alias(name) for name, column in self._counts.items()))

    def counts(self) -> dict[str, int] | None:
        """What was counted; None if the write was skipped, or Spark does not tell. To be asked after the write."""
        found: list[dict[str, int]] = []

        def ask() -> None:
            with contextlib.suppress(Exception):  # Spark Connect says at once that there are none
                found.append({name: int(value or 0) for name, value in self._observation.get.items()})

        # it waits until there are counts, for ever if there are none
        asking = threading.Thread(target=ask, daemon=True, name="lakestreams-observed")
        asking.start()
        asking.join(_PATIENCE_S)
        # Spark Connect 4.0 has been seen to answer without what was counted
        return found[0] if found and found[0].keys() >= self._counts.keys() else None
