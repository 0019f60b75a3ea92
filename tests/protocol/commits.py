"""What a commit does to the tables, and to the statements that are under way beside it; as Delta does it.

- an append is skipped if its application has that version or a later one;
- a statement does not commit if the table's metadata has changed since it began, or the same application has committed;
  overwrites and deletes also not beside any other commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tests.protocol.promises import Promises
from tests.protocol.state import (
    ACTORS,
    DOOMED,
    LATE,
    SLOTS,
    TABLES,
    TRIMMED,
    UNDER_WAY,
    A,
    Actor,
    B,
    Other,
    State,
    Thread,
    Twofold,
    put,
    slot_to,
)

from lakestreams.engine.ledger.plans import REPLAYED
from lakestreams.engine.protocol import commands


class Commits(Promises):
    """How statements commit, and which others cannot commit behind them."""

    def _commits(self, place: int) -> bool:
        command = self.machines.commands[place]
        return type(command) in (commands.Append, commands.Overwrite, commands.Delete)

    def _renamed(self, table: int, names: Mapping[int, int]) -> int:
        rows, numbers, table_id, by = self.tables.values[table]
        values = [self.rows.values[row] for row in rows]
        renamed = (self.rows.of((kind, number, names.get(run, run), *rest)) for kind, number, run, *rest in values)
        return self.tables.of((tuple(renamed), numbers, table_id, by))

    def _is_skipped(self, state: State, command: commands.Append) -> bool:
        application, version = command.transaction
        return any(
            name == application and last >= version
            for name, last in self.tables.values[state[TABLES[command.table]]][1]
        )

    def _committed(self, state: State, at: int, who: int, label: int) -> State:
        """The statement of a place's command commits."""
        command = self.machines.commands[at]
        if type(command) is commands.Overwrite:
            return self._doomed(
                put(state, SLOTS, slot_to(state[SLOTS], command.stored.slot, command.stored.cycle)),
                command.table,
                None,
                who,
            )
        if type(command) is commands.Delete:
            state = self._deleted(state, command.cycle)
            return self._doomed(self._doomed(state, "a", "", who), "b", "", who)
        place = TABLES[command.table]
        along = [self.machines.commands[self.machines.along[at]]] if at in self.machines.along else []
        self._require_allowed(state, command, label)
        key = ("appended", state[place], at, who)
        made = self._cache.get(key)
        if made is None:
            rows, numbers, table_id, by = self.tables.values[state[place]]
            added = tuple(self.rows.of(row) for one in (*along, command) for row in self._rows(one, who))
            application, version = command.transaction
            if application:  # without one Delta does not know an append again
                numbers = tuple(sorted({**dict(numbers), application: version}.items()))
            ordered = (*rows, *added) if self._looks else tuple(sorted((*rows, *added)))
            made = self._cache[key] = self.tables.of((ordered, numbers, table_id, by))
        state = self._doomed(put(state, place, made), command.table, command.transaction.application, who)
        for one in (*along, command):
            self._require_sound(state, one, label)
        return state

    def _rows(self, command: commands.Append, who: int) -> Iterator[tuple[Any, ...]]:
        """The rows that an append has: `kind, number, run, epoch, value` of the ledger; else what tells them apart."""
        row = command.row
        if command.table == "ledger":
            yield (row[0], row[1], who, command.turn.epoch, self.machines.answers.of(row[2]))
        elif command.table == "replays":
            yield ("request", row, who)
        elif command.table in ("a", "b"):
            topic, what, seq = row
            if isinstance(what, int):
                yield (topic, 0, 1, seq)  # of the one record in quarantine a new attempt
            else:
                records = self.scenario.topics[topic]
                news = (offset for _, first, end in what for offset in range(first, end))
                yield from ((topic, offset, 0, seq) for offset in news if records[offset] == "r")
        else:
            plan, fingerprint = row
            yield from ((*one, plan.cycle, fingerprint) for one in self._results(plan, fingerprint))

    def _deleted(self, state: State, cycle: int) -> State:
        """Rows stay as marks, so that one that is ingested again is noticed."""
        plan = self._plans(state)[cycle]
        ends = {(part.topic, part.partition): part.to_offset for part in plan.ranges}
        for place, topic in ((A, "a"), (B, "b")):
            rows, numbers, table_id, by = self.tables.values[state[place]]
            values = [self.rows.values[row] for row in rows]
            gone = [
                (one[3] < ends.get((topic, REPLAYED), 0)) if one[2] else (one[1] < ends.get((topic, 0), 0))
                for one in values
            ]
            marked = (
                self.rows.of((*one[:3], TRIMMED if is_gone else one[3]))
                for one, is_gone in zip(values, gone, strict=True)
            )
            state = put(state, place, self.tables.of((tuple(sorted(marked)), numbers, table_id, by)))
        return state

    def _doomed(self, state: State, table: str, application: str | None, by: int) -> State:
        """Statements that are under way to a table and cannot commit behind this commit.

        Args:
            application: of an append; "": of another change of rows; None: of metadata, or of the whole table.
        """
        late = self.late.values[state[LATE]]
        if late:
            left = tuple(one for one in late if not self._conflicts(one, table, application))
            if len(left) < len(late):
                state = put(state, LATE, self.late.of(left))
        for who in ACTORS:
            if who == by or state[who] == self._idle:
                continue
            key = ("doomed", state[who], table, application)
            doomed = self._cache.get(key)
            if doomed is None:
                actor: Actor = self.actors.values[state[who]]
                made = actor
                if self._cannot_commit(actor, table, application):
                    made = replace(made, phase=DOOMED)
                made = replace(made, others=self._without(actor.others, table, application))
                if isinstance(made, Twofold) and made.beside is not None:
                    beside = made.beside._replace(others=self._without(made.beside.others, table, application))
                    if self._cannot_commit(beside, table, application):
                        beside = beside._replace(phase=DOOMED)
                    made = replace(made, beside=beside)
                doomed = self._cache[key] = self.actors.of(made)
            state = put(state, who, doomed)
        return state

    def _cannot_commit(self, one: Actor | Thread | Other, table: str, application: str | None) -> bool:
        """Whether a statement is under way that cannot commit behind a commit."""
        under_way = one.phase == UNDER_WAY and self._commits(one.place)
        return under_way and self._conflicts(one.place, table, application)

    def _without(self, others: tuple[Other, ...], table: str, application: str | None) -> tuple[Other, ...]:
        return tuple(
            one._replace(phase=DOOMED) if self._cannot_commit(one, table, application) else one for one in others
        )

    def _conflicts(self, place: int, table: str, application: str | None) -> bool:
        command = self.machines.commands[place]
        if type(command) is commands.Delete:
            return table in ("a", "b")
        if command.table != table:
            return False
        if type(command) is commands.Overwrite or application is None:
            return True
        return bool(application) and bool(command.transaction.application == application)
