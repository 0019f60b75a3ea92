"""The stream-stream join under `strict`, lakestreams' default: every record has one fate (semantics 3.7).

A record is matched, unmatched or late. It lives from its arrival until its own task's clock passes its close; what
arrives after that is late. Nothing is clipped, nothing depends on which side triggers.
"""

from __future__ import annotations

from tests.reference.records import Record, Result
from tests.reference.windows import Entry, StreamStreamJoin


class StrictJoin(StreamStreamJoin):
    """One record at a time: close what its time closes, judge it, pair it, keep it."""

    def moves(self, record: Record) -> int:
        """Its own partition's stream time comes along, also that of records that went to other tasks (DESIGN 2)."""
        return max(record.ts, record.stream_time)

    def process(self, entry: Entry) -> list[Result]:
        record = entry.record
        results = self._close(record)
        if record.value is None:
            return results  # a stream's null value says nothing
        if record.key is None:
            return [*results, self.alone(entry, record)] if self.is_outer(entry) else results
        if self._is_closed(entry):
            self.late.append(record)
            return results
        found = [one for one in self.partners(entry, *entry.bounds(self.windows)) if self._is_open_to(entry, one)]
        for partner in found:
            partner.waiting = False
            results.append(self.pair(entry, partner))
        if not found and self.is_outer(entry):
            if self.eager:
                results.append(self.alone(entry, record))
            else:
                entry.waiting = True
        self.stored.append(entry)
        return results

    def tick(self, record: Record) -> list[Result]:
        """Time goes on although no record comes: as a record does that has neither key nor value."""
        return self.left(record)

    def _close(self, cause: Record) -> list[Result]:
        """Removes what the clock has passed; those still waiting come out before the cause's own rows."""
        closed = [entry for entry in self.stored if self._is_closed(entry)]
        self.stored = [entry for entry in self.stored if not self._is_closed(entry)]
        waiting = sorted((entry for entry in closed if entry.waiting), key=lambda entry: entry.flush_order)
        return [self.alone(entry, cause) for entry in waiting]

    def _is_open_to(self, entry: Entry, partner: Entry) -> bool:
        """A key that lies in two tasks is judged by the greatest clock of all tasks, so that one fate holds."""
        if entry.record.task == partner.record.task:
            return True
        return self.horizon <= min(entry.close(self.windows), partner.close(self.windows))

    def _is_closed(self, entry: Entry) -> bool:
        return entry.close(self.windows) < self.clock(entry.record.task)
