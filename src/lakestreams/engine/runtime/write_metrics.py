"""Counting rows on their way into a table, without reading them once more: Spark's observed metrics.

They come with the write itself. A write that Delta skips, because a driver before has made it, observes nothing; then
whoever wants the numbers counts what the table has. Deeper in a plan they may be missing, too: adaptive execution leaves
out what lies below an exchange that it finds empty.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PATIENCE_S = 5.0


class WriteMetrics:
    """Named counts of the rows that one write takes.

    Args:
        name: no other observation of the session has it.
        counts: aggregates by name, each a number or a text: Spark 3.5 does not give Python an array that was observed.
    """

    def __init__(self, name: str, counts: Mapping[str, Column]) -> None:
        self._observation = Observation(name)
        self._counts = counts

    def of(self, rows: DataFrame) -> DataFrame:
        """The rows, counted when they are written. Nothing may stand above them that reads them twice or in part."""
        return rows.observe(self._observation, *(column.alias(name) for name, column in self._counts.items()))

    def counts(self) -> dict[str, int] | None:
        """What was counted; None if the write was skipped, or Spark does not tell. To be asked after the write."""
        values = self.values()
        return None if values is None else {name: int(value or 0) for name, value in values.items()}

    def values(self) -> dict[str, Any] | None:
        """The same, whatever the aggregates' types."""
        answers: list[dict[str, Any]] = []

        def ask() -> None:
            with contextlib.suppress(Exception):  # Spark Connect says at once that there are none
                answers.append(dict(self._observation.get))

        # it waits until there are counts, for ever if there are none
        asking = threading.Thread(target=ask, daemon=True, name="lakestreams-observed")
        asking.start()
        asking.join(_PATIENCE_S)
        # Spark Connect 4.0 has been seen to answer without what was counted
        return answers[0] if answers and answers[0].keys() == self._counts.keys() else None


class NodeMetrics:
    """Counts rows of nodes while something else, which is made of them, is written.

    Args:
        name: no other observations of the session have it.
        observes: whether a write is to tell; else the rows are counted by themselves.
    """

    def __init__(self, name: str, *, observes: bool) -> None:
        self._name = name
        self._observes = observes
        self._rows: dict[str, tuple[DataFrame, Mapping[str, Column]]] = {}
        self._writes: dict[str, WriteMetrics] = {}

    def __call__(self, node: str, rows: DataFrame, counts: Mapping[str, Column]) -> DataFrame:
        """The rows, counted on their way (see `flow.sides.Counter`)."""
        self._rows[node] = rows, counts
        if not self._observes:
            return rows
        self._writes[node] = WriteMetrics(f"{self._name} {node}", counts)
        return self._writes[node].of(rows)

    @property
    def nodes(self) -> list[str]:
        """The nodes that have rows to count."""
        return list(self._rows)

    def counts(self, node: str, *, written: bool) -> dict[str, int]:
        """What was counted of a node; a job of its own where no write has reported.

        Args:
            written: whether anything was written that is made of its rows.
        """
        told = self._writes[node].counts() if written and node in self._writes else None
        return self._alone(node) if told is None else told

    def _alone(self, node: str) -> dict[str, int]:
        rows, counts = self._rows[node]
        row = rows.agg(*(column.alias(name) for name, column in counts.items())).first()
        return {name: int(row[name] or 0) for name in counts} if row is not None else {}
