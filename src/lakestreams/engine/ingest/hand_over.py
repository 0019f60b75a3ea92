"""What passes between a run's driver and its ingest query: closed batches, and pending rows of the ledger."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from lakestreams.engine.ledger.pending_append import PendingAppend

if TYPE_CHECKING:
    from lakestreams.engine.ledger.plans import Ingest


class HandOver:
    """One run's; the driver has it, and the function that its queries call for each batch.

    Where that function runs in the driver's process, both have the same object. It travels to another process (Spark
    Connect's worker) empty: there each row is appended at once, and the driver reads the ledger. A worker that is started
    again in the middle of a query begins where bronze stood at the query's start, takes a sequence number that is taken, and
    stops at the read-back: late, but not wrong.

    Attributes:
        pending: rows of the ledger that are appended while the run goes on.
    """

    def __init__(self) -> None:
        self.pending = PendingAppend()
        self._closed: list[Ingest] = []
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Callable[[], HandOver], tuple[()]]:
        """Pickled, it starts again."""
        return HandOver, ()

    def closed(self, ingest: Ingest) -> None:
        """Hands a batch over that is closed, or whose row is pending."""
        with self._lock:
            self._closed.append(ingest)

    def behind(self, seq: int) -> list[Ingest]:
        """The batches behind a sequence number that were closed in this process."""
        with self._lock:
            return [one for one in self._closed if one.seq > seq]

    def take(self, seq: int) -> list[Ingest] | None:
        """The same, and older ones are forgotten. None if none was ever closed in this process: then the ledger knows."""
        with self._lock:
            if not self._closed:
                return None
            newest = self._closed[-1]  # says where bronze stands
            self._closed = [*(one for one in self._closed[:-1] if one.seq > seq), newest]
            return [one for one in self._closed if one.seq > seq]


__all__ = ["HandOver"]
