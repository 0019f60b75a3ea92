"""The stream-stream join under `kafka`: parity, with the bookkeeping of flushes left out (semantics 3.1-3.5, 3.7).

Left out of `KStreamKStreamJoin`: which side triggers a flush, its lower bound of times, where a scan stops, the
wall-clock throttle. What remains is local to a record and the clocks.
"""

from __future__ import annotations

from tests.reference.records import START, Joiner, Record, Result
from tests.reference.windows import Emit, Entry, How, StreamStreamJoin, Windows


class KafkaJoin(StreamStreamJoin):
    """As Kafka: lateness is judged by the other side's store, out-of-order unmatched rows do not wait for grace."""

    def __init__(
        self,
        how: How,
        windows: Windows,
        joiner: Joiner,
        emit: Emit = "on_window_close",
        *,
        in_memory: bool = False,
    ) -> None:
        super().__init__(how, windows, joiner, emit)
        self._in_memory = in_memory
        self._store_times: dict[tuple[int, int], int] = {}

    def process(self, entry: Entry) -> list[Result]:
        record = entry.record
        if record.key is None:
            emits = record.value is not None and self.is_outer(entry)
            return [self.alone(entry, record)] if emits else []
        if record.value is None:
            if self._in_memory:  # this store moves its clock before it looks at the value
                self._move_store(entry)
            return []
        clock = self.clock(record.task)
        results = self._flush(record) if record.ts == clock else []
        first, last = (max(0, bound) for bound in entry.bounds(self.windows))
        mine = [other for other in self.partners(entry, first, last) if other.record.task == record.task]
        found = [other for other in mine if self._is_visible(other)]  # a task never sees another's records
        for partner in found:
            partner.waiting = False
            results.append(self.pair(entry, partner))
        if not found and self.is_outer(entry):
            if self.eager or last < clock:  # out of order: at once, although inside grace it can still match later
                results.append(self.alone(entry, record))
            else:
                entry.waiting = True
        self._move_store(entry)
        self.stored.append(entry)
        return results

    def _flush(self, cause: Record) -> list[Result]:
        """Unmatched rows of this task whose close has passed, before the matches of an in-order record."""
        clock = self.clock(cause.task)
        closed = [
            entry
            for entry in self.stored
            if entry.waiting and entry.record.task == cause.task and entry.close(self.windows) < clock
        ]
        for entry in closed:
            entry.waiting = False
        return [self.alone(entry, cause) for entry in sorted(closed, key=lambda entry: entry.flush_order)]

    def _move_store(self, entry: Entry) -> None:
        store = (entry.arm, entry.record.task)
        self._store_times[store] = max(self._store_times.get(store, START), entry.record.ts)

    def _is_visible(self, entry: Entry) -> bool:
        """Whether its side's store still has it (`AbstractRocksDBSegmentedBytesStore`, since 3.4 to the millisecond)."""
        store_time = self._store_times[entry.arm, entry.record.task]
        return entry.record.ts >= store_time - self.windows.retention_ms + 1
