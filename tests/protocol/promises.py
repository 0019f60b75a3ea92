"""The promises of the protocol: `Broken` is raised where one does not hold any more."""

from __future__ import annotations

from tests.protocol.reads import Reads
from tests.protocol.state import (
    CHANGED,
    LEDGER,
    READ,
    SILVER,
    SLOTS,
    TABLES,
    TRIMMED,
    A,
    B,
    Broken,
    State,
    epoch_of,
    slot_of,
)

from lakestreams.engine.ledger.plans import REPLAYED, Ingest, Plan
from lakestreams.engine.protocol import commands, decisions, machines


class Promises(Reads):
    """What must hold of a state, and is looked at where something could break it."""

    def _answer(self, state: State, who: int, at: int, command: commands.Read, label: int) -> int:
        """The number of what is there."""
        if command.what == "bronze":
            self._require_kept(state, command.of[0], command.of[1], label)
        return self.answer(state, who, at, command)

    def _require_allowed(self, state: State, command: commands.Append, label: int) -> None:
        turn = command.turn
        if state[READ] & CHANGED and command.table != "replays":
            raise Broken("a run that has met tables which others have changed writes", label)
        decides = command.table == "ledger" and command.row[0] in ("epoch", "maintain")  # who is newer
        if turn.epoch and not decides and turn.epoch < epoch_of(state[READ] & ~CHANGED, turn):
            raise Broken(f"a row of epoch {turn.epoch} lands behind a newer one's first read", label)

    def _require_sound(self, state: State, command: commands.Append, label: int) -> None:
        """What must hold behind a commit, of the table that it changed."""
        place = TABLES[command.table]
        key = (
            "sound",
            state[place],
            state[LEDGER] if command.table == "silver" else 0,
            command.table == "ledger" and (state[A], state[B], state[SILVER], command.row[:2]),
        )
        wrong = self._cache.get(key)
        if wrong is None:
            wrong = self._cache[key] = self._wrong(state, command)
        if wrong:
            raise Broken(wrong, label)

    def _wrong(self, state: State, command: commands.Append) -> str:
        rows = [self.rows.values[row] for row in self.tables.values[state[TABLES[command.table]]][0]]
        if command.table in ("a", "b"):
            return "a record is in bronze twice" if len({row[:3] for row in rows}) < len(rows) else ""
        if command.table == "silver":
            if len({row[:3] for row in rows}) < len(rows):
                return "a result is in an output twice"
            by = {number: self._executed(state, plan).fingerprint for number, plan in self._plans(state).items()}
            if any(row[3] not in by for row in rows):
                return "an output has rows of a cycle that the ledger does not know"
            wrong = any(row[4] != by[row[3]] for row in rows)
            return "an output has rows of another configuration than the ledger says" if wrong else ""
        if command.table == "replays":
            return "a record was asked for twice" if len(rows) > 1 else ""
        return self._wrong_in_ledger(state, command)

    def _wrong_in_ledger(self, state: State, command: commands.Append) -> str:
        kind, number = command.row[:2]
        rows = self._ledger(state, kind)
        if kind not in ("taken", "state", "base") and len([row for row in rows if row[1] == number]) > 1:
            return f"there are two rows {kind} {number}"
        if kind == "ingest":
            return self._wrong_batch(state, command.row[2])
        if kind == "plan":
            before = self._plans(state).get(number - 1)
            if (before is None) != (number == 1):
                return f"cycle {number - 1} was never planned"
            reached = before.positions if before is not None else {}
            if any(reached.get(part.at, part.from_offset) != part.from_offset for part in command.row[2].ranges):
                return "plans are not of consecutive ranges"
            return self._unpublished(state, number - 1) if number > 1 else ""
        if kind == "done":
            return self._unpublished(state, number)
        if kind == "state" and number and not {("done", number), ("plan", number + 1)} & self._decided(state):
            return f"what nodes keep is said to be as of cycle {number}, which is not done"
        return ""

    def _decided(self, state: State) -> set[tuple[str, int]]:
        """The plans and done rows of the ledger."""
        return {row[:2] for kind in ("done", "plan") for row in self._ledger(state, kind)}

    def _wrong_batch(self, state: State, one: Ingest) -> str:
        there = {self.rows.values[row][:3] for place in (A, B) for row in self.tables.values[state[place]][0]}
        for part in one.ranges:
            if part.partition == REPLAYED:
                continue
            records = self.scenario.topics[part.topic]
            if any(records[at] == "r" and (part.topic, at, 0) not in there for at in range(part.to_offset)):
                return "the ledger says that a record was ingested which is not in bronze"
        return ""

    def _unpublished(self, state: State, number: int) -> str:
        """What of a cycle that is done is missing in an output."""
        plan = self._executed(state, self._plans(state)[number])
        there = {self.rows.values[row][:4] for row in self.tables.values[state[SILVER]][0]}
        missing = [one for one in self._results(plan, plan.fingerprint) if (*one, number) not in there]
        return f"cycle {number} is done, and rows of it are missing" if missing else ""

    def _require_published(self, state: State, at: machines.At, label: int) -> None:
        """A run that ends well has published what it planned."""
        if at.plan is None:
            return
        written = self._plans(state).get(at.plan.cycle)
        if written is None or written.ranges != at.plan.ranges:
            raise Broken(f"a run ends well, and cycle {at.plan.cycle} is not what it has planned", label)
        wrong = self._unpublished(state, at.plan.cycle)
        if wrong:
            raise Broken(wrong, label)

    def _require_source(self, state: State, command: commands.Overwrite, label: int) -> None:
        """Whether all that is there of which a place is written, each time that the statement begins."""
        since = command.since
        if since is not None and since.slot and slot_of(state[SLOTS], since.slot) != since.cycle:
            raise Broken(f"{command.table} is written from {since.slot}, which is not as of cycle {since.cycle}", label)
        self._require_kept(state, decisions.cycle_of(since), command.stored.cycle, label)

    def _require_kept(self, state: State, since: int, cycle: int, label: int, plan: Plan | None = None) -> None:
        """Whether bronze has what the cycles behind one took; the last one's plan may not be in the ledger yet."""
        if not self.scenario.drivers[0].remembers:
            return
        taken = () if plan is None else tuple((*part.at, part.from_offset, part.to_offset) for part in plan.ranges)
        key = ("there", state[LEDGER], state[A], state[B], since, cycle, taken)
        fault = self._cache.get(key)
        if fault is None:
            there = {self.rows.values[row] for place in (A, B) for row in self.tables.values[state[place]][0]}
            left = {row[:3] for row in there if row[3] != TRIMMED}
            plans = self._plans(state) | ({} if plan is None else {plan.cycle: plan})
            wanted = {one for number in range(since + 1, cycle + 1) for one in self._results(plans[number], "")}
            fault = self._cache[key] = bool(wanted - left)
        if fault:
            raise Broken(f"cycle {cycle} is evaluated from cycle {since} on, and bronze is trimmed behind that", label)
