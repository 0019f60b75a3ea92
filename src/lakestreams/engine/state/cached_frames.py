"""Frames that are kept in memory while a cycle reads them in several places."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from lakestreams.engine.runtime.parallel import in_parallel

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
        return self._kept(rows)[0]

    def extract(self, *frames: DataFrame) -> list[tuple[DataFrame, int | None]]:
        """Each frame, computed and kept, and how many rows it has; as it is and None where frames cannot be kept."""

        def computed(rows: DataFrame) -> tuple[DataFrame, int | None]:
            rows, is_kept = self._kept(rows)
            return rows, rows.count() if is_kept else None

        return in_parallel(frames[0].sparkSession, [partial(computed, rows) for rows in frames])

    def _kept(self, rows: DataFrame) -> tuple[DataFrame, bool]:
        try:
            kept = rows.persist()
        except Exception:  # noqa: BLE001 - each kind of compute refuses in its own way
            return rows, False
        self._frames.append(kept)
        return kept, True

    def release(self) -> None:
        """Keeps them no longer.

        A session that is gone keeps nothing. The error that ended it is the one to report.
        """
        while self._frames:
            with contextlib.suppress(Exception):
                self._frames.pop().unpersist()
