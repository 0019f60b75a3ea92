"""The options of a versioned table's store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True)
class Versioned:
    """A store's history, and how the table's rows lie.

    Attributes:
        history: how far lookups reach back; ms, or an expression over `task`, which lets many tables share a job.
        realm: how many tasks there are, 0 to realm - 1; of many tables that share a job, each has so many.
        shares: how many Python workers the rows need.
        together: whether versions of equal keys, and what looks them up, always lie in one task.
    """

    history: int | Column
    realm: int = 1
    shares: int = 1
    together: bool = False
