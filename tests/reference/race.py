"""Stream-table joins whose records look out for rows that come after them: plain Python, one record at a time.

`wait`: a record without a row waits until its task's clock passes its time and the bound; the first row of its key that
comes by then is what it meets. `amend`: a record that came out without a row is put right by the first row that comes in
time. Each record has one fate, and at most one amendment. DESIGN section 1; decision 0017.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.reference.records import START, Joiner, Record, Result


@dataclass(frozen=True)
class Amended(Result):
    """What was given without a row, put right."""

    @property
    def kind(self) -> str:
        return "amended"


class RaceJoin:
    """`left` takes the stream's records, `right` the table's."""

    def __init__(self, how: str, wait: int | None, amend: int | None, joiner: Joiner) -> None:
        self._is_left = how == "left"
        self._wait, self._amend, self._joiner = wait, amend, joiner
        self._rows: dict[object, Record] = {}
        self._clocks: dict[int, int] = {}
        self._waiting: list[Record] = []
        self._amendable: list[Record] = []
        self.given_up: list[Record] = []  # of an inner join

    def left(self, record: Record) -> list[Result]:
        if record.value is None:
            return []
        if record.key is None and not self._is_left:
            self._pass_time(record)
            return []
        results = self._pass_time(record)
        row = self._rows.get(record.key)
        if record.key is not None and row is not None:
            return [*results, self._pair(record, row, record)]
        if record.key is None:
            return [*results, self._alone(record, record)]
        if self._wait is not None and self._in_time(record, self._wait):
            self._waiting.append(record)
            return results
        return [*results, *self._give_up(record, record)]

    def right(self, record: Record) -> list[Result]:
        results = self._pass_time(record)
        if record.value is None:
            self._rows.pop(record.key, None)
            return results
        self._rows[record.key] = record
        met = {id(one) for one in [*self._waiting, *self._amendable] if one.key == record.key}
        late = {id(one) for one in self._amendable}
        # in the order in which they came
        for one in sorted([*self._waiting, *self._amendable], key=self._arrival):
            if id(one) in met:
                results.append(self._pair(one, record, record, Amended if id(one) in late else Result))
        self._waiting = [one for one in self._waiting if id(one) not in met]
        self._amendable = [one for one in self._amendable if id(one) not in met]
        return results

    def tick(self, record: Record) -> list[Result]:
        """Time goes on although no record comes."""
        return self._pass_time(record)

    @staticmethod
    def _arrival(record: Record) -> int:
        return record.offset  # in a history the place

    def _pass_time(self, cause: Record) -> list[Result]:
        task = cause.task
        self._clocks[task] = max(self._clocks.get(task, START), cause.ts, cause.stream_time)
        over = [one for one in self._waiting if not self._in_time(one, self._wait)]
        self._waiting = [one for one in self._waiting if self._in_time(one, self._wait)]
        results = [result for one in over for result in self._give_up(one, cause)]
        self._amendable = [one for one in self._amendable if self._in_time(one, self._amend)]
        return results

    def _give_up(self, record: Record, cause: Record) -> list[Result]:
        if not self._is_left:
            self.given_up.append(record)
            return []
        if self._amend is not None and self._in_time(record, self._amend):
            self._amendable.append(record)
        return [self._alone(record, cause)]

    def _in_time(self, record: Record, bound: int | None) -> bool:
        return record.ts + (bound or 0) >= self._clocks.get(record.task, START)

    def _pair(self, record: Record, row: Record, cause: Record, kind: type[Result] = Result) -> Result:
        value = self._joiner(record.key, record.value, row.value)
        return kind(record.key, value, record.ts, cause, (record, row))

    def _alone(self, record: Record, cause: Record) -> Result:
        return Result(record.key, self._joiner(record.key, record.value, None), record.ts, cause, (record, None))
