"""Counting rows on their way into a table, without reading them once more: Spark's observed metrics.

They come with the write itself. A write that Delta skips, because a driver before has made it, observes nothing; then
whoever wants the numbers counts what the table has. Deeper in a plan they may be missing, too: adaptive execution leaves
out what lies below an exchange that it finds empty.

Spark reports a statement's metrics a moment behind its end, and nothing at all if there are none. It reports statements in the
order in which they end. So what is not there soon is missing once a later statement has been reported.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SOON_S, _PATIENCE_S, _ON_ITS_WAY_S = 0.3, 5.0, 0.1
_THREAD = "lakestreams-observed"


def count_rows(rows: DataFrame, counts: Mapping[str, Column]) -> dict[str, int]:
    """Counts of rows, by a job of its own."""
    row = rows.agg(*(column.alias(name) for name, column in counts.items())).first()
    return {name: int(row[name] or 0) for name in counts} if row is not None else {}


class WriteMetrics:
    """Named counts of the rows that one write takes.

    Args:
        name: no other observation of the session has it.
        counts: aggregates by name, each a number or a text: Spark 3.5 does not give Python an array that was observed.
    """

    def __init__(self, name: str, counts: Mapping[str, Column]) -> None:
        self._name, self._counts = name, counts
        self._observation = Observation(name)
        self._session: SparkSession | None = None

    def of(self, rows: DataFrame) -> DataFrame:
        """The rows, counted when they are written. Nothing may stand above them that reads them twice or in part."""
        self._session = rows.sparkSession
        return rows.observe(self._observation, *(column.alias(name) for name, column in self._counts.items()))

    def counts(self) -> dict[str, int] | None:
        """What was counted; None if the write was skipped, or Spark does not tell. To be asked after the write."""
        values = self.values()
        return None if values is None else {name: int(value or 0) for name, value in values.items()}

    def values(self) -> dict[str, Any] | None:
        """The same, whatever the aggregates' types."""
        answered = threading.Event()
        answer = _Answer(self._observation, answered)
        if not answered.wait(_SOON_S) and self._session is not None:
            later = Observation(f"{self._name}, and later")
            threading.Thread(
                target=_run_later_statement, args=(self._session, later, answered), daemon=True, name=_THREAD
            ).start()
            answered.wait(_PATIENCE_S)
        # Spark Connect 4.0 has been seen to answer without what was counted
        values = answer.values()
        return values if values.keys() == self._counts.keys() else None


class _Answer:
    """What an observation has counted. Asking waits until there are counts, for ever if there are none: in a thread, therefore.

    Args:
        answered: is set when somebody has answered, were it that there is nothing.
    """

    def __init__(self, observation: Observation, answered: threading.Event) -> None:
        self._observation, self._answered = observation, answered
        self._values: dict[str, Any] = {}
        self._asking = threading.Thread(target=self._ask, daemon=True, name=_THREAD)
        self._asking.start()

    def values(self) -> dict[str, Any]:
        """What was answered so far; what is on its way may come yet."""
        self._asking.join(_ON_ITS_WAY_S)
        return self._values

    def _ask(self) -> None:
        with contextlib.suppress(Exception):  # Spark Connect says at once that there are none
            self._values = dict(self._observation.get)
        self._answered.set()


def _run_later_statement(session: SparkSession, later: Observation, answered: threading.Event) -> None:
    """Runs a small statement, and waits until Spark has reported it: what ended before it is reported by then."""
    with contextlib.suppress(Exception):  # what is missing is counted
        session.range(0, 1, 1, 1).observe(later, F.count(F.lit(1)).alias("rows")).collect()
        _ = later.get
    answered.set()


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
        """The rows, counted on their way (see `evaluate.inputs.Counter`)."""
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
        return count_rows(*self._rows[node])
