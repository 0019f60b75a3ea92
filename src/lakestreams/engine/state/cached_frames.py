"""Frames that are kept in memory while a cycle reads them in several places."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class CachedFrames:
    """Frames that are kept in memory while a cycle reads them in several places.

    A plan that reads a Delta table in ten places looks ten times for the files that it needs, which is most of what a
    small cycle costs. Where compute refuses to keep frames (serverless) they are read as often as they are needed.
    """

    def __init__(self) -> None:
        self._frames: list[DataFrame] = []

    def __call__(self, rows: DataFrame) -> DataFrame:
        """The frame, kept from its first use on."""
        with contextlib.suppress(Exception):
            rows = rows.persist()
            self._frames.append(rows)
        return rows

    def extract(self, rows: DataFrame) -> tuple[DataFrame, int | None]:
        """The frame, computed and kept, and how many rows it has; as it is and None where frames cannot be kept."""
        before = len(self._frames)
        rows = self(rows)
        return rows, rows.count() if len(self._frames) > before else None

    def release(self) -> None:
        """Keeps them no longer."""
        while self._frames:
            self._frames.pop().unpersist()
