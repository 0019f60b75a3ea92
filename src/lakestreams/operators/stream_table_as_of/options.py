"""The options of a stream-table join against a versioned table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.topology.kinds import JoinKind, Overlap


@dataclass(frozen=True)
class AsOf:
    """Times are in ms: numbers, or expressions over `task`, which let many histories share a job.

    Attributes:
        how: `inner` or `left`.
        history: the table's history retention.
        grace: how long records of the stream wait, at most the history; None is no grace.
        overlap: whether both sides hold rows of one source record, and whose come first.
        multi_row: whether the stream holds several rows of one source record.
        realm: how many tasks there are, 0 to realm - 1; of many histories that share a job, each has so many.
        shares: how many Python workers the rows need.
        together: whether records and versions of equal keys always lie in one task.
    """

    how: JoinKind
    history: int | Column
    grace: int | Column | None = None
    overlap: Overlap = "none"
    multi_row: bool = False
    realm: int = 1
    shares: int = 1
    together: bool = False

    @property
    def by_key(self) -> bool:
        """Whether rows go to workers by their keys."""
        return self.shares > 1 and not self.together
