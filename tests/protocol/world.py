"""A lake in memory, and everything that can happen in it next.

A state is a tuple of small numbers; what each stands for is kept once (`Numbers`). Tables behave as Delta's do:
- an append is skipped if its application has that version or a later one, before its fence is looked at;
- a fence is evaluated when the statement begins, and the statement commits in a later step;
- it does not commit if the table's metadata has changed since, or the same application has committed; overwrites and deletes
  also not beside any other commit. Appends are then tried again from their beginning;
- what a process has begun may commit after the process is gone.

`Broken` is raised where a promise of the protocol does not hold any more.
"""

# ruff: noqa: ARG002 - all that answers a read is called alike

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.protocol.machines import IDLE, Ended, Machines, Numbers

from lakestreams.engine.ledger.plans import ATTEMPTS, History, Ingest, KnownTable, Plan, Range, Tail
from lakestreams.engine.protocol import commands, decisions, machines

# Places in a state.
LEDGER, A, B, SILVER, REPLAYS, SLOTS, EPOCHS, READ, ENDS, LATE, LEFT, ONE, TWO, TRIM, ASK = range(15)
ACTORS = (ONE, TWO, TRIM, ASK)
TABLES = {"ledger": LEDGER, "a": A, "b": B, "silver": SILVER, "replays": REPLAYS}
CACHES = ("state a", "state b", "base a", "base b")
# Which parts of a state a read looks at, where that is not the ledger.
LOOKED_AT: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("tail", "attempts"), (A, B)),
    **dict.fromkeys(("requests", "open", "landed"), (REPLAYS,)),
    "ends": (ENDS,),
    "holds": (SLOTS,),
    "out": (SILVER,),
    "tables": (LEDGER, A, B, SILVER, EPOCHS),
}
NAMES = {ONE: "driver 1", TWO: "driver 2", TRIM: "maintenance", ASK: "request"}
# What may still happen, each a digit of one number.
KINDS = ("starts", "crashes", "lost", "failures", "trims", "asks", "damages")
DIGIT = {kind: 8**place for place, kind in enumerate(KINDS)}
# How far an actor's statement has come.
NEW, UNDER_WAY, DOOMED = 0, 1, 2
TRIMMED = -1
CHANGED = 1 << 20  # in READ: somebody has changed a table, and whoever begins may write nothing

State = tuple[int, ...]
Table = tuple[tuple[int, ...], tuple[tuple[str, int], ...], int, int]  # rows, transactions, id, sealed by


class Broken(AssertionError):
    """A promise does not hold."""


@dataclass(frozen=True)
class Actor:
    """A process: its machine's place, and its statements.

    Attributes:
        phase: of the statement of its place's command; of a seal how many tables are sealed.
        again: whether the statement was begun before, so that its answer is not sure.
        beside: the place whose append goes on beside it, its phase and `again`; None: none does.
        failed: whether that one has turned out not to be its own.
    """

    place: int = IDLE
    phase: int = NEW
    again: bool = False
    beside: tuple[int, int, bool] | None = None
    failed: bool = False


@dataclass(frozen=True)
class Scenario:
    """What is there, and how much of what may happen.

    Attributes:
        drivers: the machines of the two drivers.
        topics: topic to its records, `r` a record, `m` a transaction marker.
        ends: up to where they are there at first.
        left: how often each of KINDS may happen.
        damages: what an operator does between runs: `delete` or `put back`, and the table; or deletes `caches`.
        empty: configurations that give no results.
        alone: whether a driver begins only when the other one is gone.
    """

    name: str
    drivers: tuple[machines.Pipeline, machines.Pipeline]
    rounds: int = 1
    topics: Mapping[str, str] = field(default_factory=lambda: {"a": "rr", "b": "r"})
    ends: tuple[int, int] = (1, 1)
    left: Mapping[str, int] = field(default_factory=dict)
    damages: tuple[tuple[str, str], ...] = ()
    empty: frozenset[str] = frozenset()
    alone: bool = False

    @property
    def symmetric(self) -> bool:
        """Whether it does not matter which of two drivers is which."""
        return self.drivers[0] == self.drivers[1]


Step = tuple[int, State]  # what happened (see `World.told`), and what is then


class World:
    """Every state of a scenario, and what can happen next."""

    def __init__(self, scenario: Scenario) -> None:
        one, two = scenario.drivers
        self.scenario = scenario
        self.machines = Machines(
            {
                "one": lambda: machines.drive(one, scenario.rounds),
                **({} if scenario.symmetric else {"two": lambda: machines.drive(two, scenario.rounds)}),
                "trim": lambda: machines.trim(one),
                "ask": machines.request,
            }
        )
        self.begun = {
            ONE: self.machines.begun["one"],
            TWO: self.machines.begun["one" if scenario.symmetric else "two"],
            TRIM: self.machines.begun["trim"],
            ASK: self.machines.begun["ask"],
        }
        self.rows, self.tables, self.actors, self.late = Numbers(), Numbers(), Numbers(), Numbers()
        self._cache: dict[tuple[Any, ...], Any] = {}
        self._labels: dict[tuple[int, str, int], int] = {}
        self._after: dict[tuple[int, int], tuple[int, Ended | None]] = {}
        self._symmetric = scenario.symmetric
        self.told: list[str] = []
        empty = self.tables.of(((), (), 1, 0))
        idle, none = self.actors.of(Actor()), self.late.of(())
        left = sum(count * DIGIT[kind] for kind, count in scenario.left.items())
        ends = scenario.ends[0] + 8 * scenario.ends[1]
        self.first: State = (empty, empty, empty, empty, empty, 0, 0, 0, ends, none, left, idle, idle, idle, idle)
        self._idle = idle
        self._looks = any(table in TABLES for _, table in scenario.damages)
        self._lengths = [len(scenario.topics.get(topic, "")) for topic in ("a", "b")]
        self._begun = {who: self.actors.of(Actor(place)) for who, place in self.begun.items()}
        self._yes, self._no, self._none_told = (self.machines.answers.of(one) for one in (True, False, None))
        self._none = none

    # --- what can happen ---------------------------------------------------------------------------------------------

    def steps(self, state: State) -> list[Step]:
        """Everything that can happen next.

        Raises:
            Broken: where something would break a promise; `args` has what was about to happen as its second.
        """
        found: list[Step] = []
        for who in ACTORS:
            if state[who] == self._idle:
                self._begin(state, who, found)
            else:
                self._act(state, who, found)
                if state[LEFT] // DIGIT["crashes"] % 8:
                    found.append((self._label(who, "crashes"), self._spent(self._gone(state, who), "crashes")))
        if state[LATE] != self._none:
            self._land_late(state, found)
        self._produce(state, found)
        if state[LEFT] // DIGIT["damages"] % 8:
            self._damage(state, found)
        return found

    def _label(self, who: int, what: str, place: int = 0) -> int:
        """The number of something that happens; what the command of a place is stands behind it."""
        key = (who, what, place)
        number = self._labels.get(key)
        if number is None:
            number = self._labels[key] = len(self.told)
            said = _said(self.machines.commands[place]) if place else ""
            self.told.append(" ".join(one for one in (f"{NAMES[who]}:" if who else "", what, said) if one))
        return number

    @staticmethod
    def _spent(state: State, kind: str) -> State:
        return (*state[:LEFT], state[LEFT] - DIGIT[kind], *state[LEFT + 1 :])

    def _begin(self, state: State, who: int, found: list[Step]) -> None:
        kind = {TRIM: "trims", ASK: "asks"}.get(who, "starts")
        if self.scenario.alone and who in (ONE, TWO) and state[ONE + TWO - who] != self._idle:
            return
        if state[LEFT] // DIGIT[kind] % 8:
            begun = self._begun[who]
            found.append((self._label(who, "begins"), self._spent(_with(state, who, begun), kind)))

    def _produce(self, state: State, found: list[Step]) -> None:
        for place, topic in enumerate(("a", "b")):
            if state[ENDS] // 8**place % 8 < self._lengths[place]:
                found.append((self._label(0, f"a record comes to {topic}"), _with(state, ENDS, state[ENDS] + 8**place)))

    def _damage(self, state: State, found: list[Step]) -> None:
        if state[LATE] != self._none or any(state[who] != self._idle for who in (ONE, TWO)):
            return  # what happens while somebody runs is seen by the next start: decision 0031
        if ("delete", "caches") in self.scenario.damages and state[SLOTS] % 64:
            kept = _with(state, SLOTS, state[SLOTS] - state[SLOTS] % 64)  # the base is no cache: decision 0015
            found.append((self._label(0, "somebody: delete caches"), self._spent(kept, "damages")))
        known = self._read_ledger(state, 0, None).tables
        for what, name in self.scenario.damages if self._looks else ():
            rows, numbers, table_id, by = self.tables.values[state[TABLES[name]]]
            least = known[name].version if name in known else 0
            if what == "delete" and rows and _epoch(state[EPOCHS], commands.Turn("epoch", 0)):
                made: Table = ((), (), table_id + 1, 0)
            elif what == "put back" and least:  # what has come since the last start is not seen: decision 0031
                made = (rows[: least - 1], numbers, table_id, by)
            else:
                continue
            spent = self._spent(_with(state, TABLES[name], self.tables.of(made)), "damages")
            # from here on nobody may write
            found.append((self._label(0, f"somebody: {what} {name}"), _with(spent, READ, spent[READ] | CHANGED)))

    def _land_late(self, state: State, found: list[Step]) -> None:
        for one in self.late.values[state[LATE]]:
            rest = list(self.late.values[state[LATE]])
            rest.remove(one)
            without = _with(state, LATE, self.late.of(tuple(rest)))
            label = self._label(0, "commits late:", one)
            found.append((label, self._committed(without, one, 0, label)))

    # --- one actor's next step ---------------------------------------------------------------------------------------

    def _act(self, state: State, who: int, found: list[Step]) -> None:
        actor: Actor = self.actors.values[state[who]]
        command = self.machines.commands[actor.place]
        if actor.beside is not None:
            self._append_beside(state, who, actor, found)
        kind = type(command)
        if kind is commands.Append:
            self._append(state, who, actor, command, found)
        elif kind is commands.Read:
            label = self._label(who, "", actor.place)
            answered = self._answered(
                state, who, state[who], self._answer(state, who, actor.place, command, label), label
            )
            if command.what == commands.LEDGER and command.of is not None:  # the first look behind a takeover
                answered = _with(answered, READ, _raised(answered[READ], command.of))
            found.append((label, answered))
        elif kind is commands.Raise:
            label = self._label(who, "", actor.place)
            raised = _with(state, EPOCHS, _raised(state[EPOCHS], command.turn))
            found.append((label, self._answered(raised, who, state[who], self._none_told, label)))
        elif kind is commands.Seal:
            self._seal(state, who, actor, command, found)
        elif kind is commands.Evaluate:
            label = self._label(who, "", actor.place)
            if not _is_older(state, command.turn):  # what an older driver computes is published nowhere
                self._require_there(state, command.since, command.plan.cycle, label)
            found.append((label, self._answered(state, who, state[who], self._yes, label)))
            if state[LEFT] // DIGIT["failures"] % 8:
                label = self._label(who, "finds that a rule fails:", actor.place)
                found.append((label, self._spent(self._answered(state, who, state[who], self._no, label), "failures")))
        elif kind is commands.Wait:
            if actor.beside is None:
                label = self._label(who, "", actor.place)
                answer = self._no if actor.failed else self._yes
                found.append((label, self._answered(state, who, state[who], answer, label)))
        else:
            self._replace(state, who, actor, command, found)

    def _append(self, state: State, who: int, actor: Actor, command: commands.Append, found: list[Step]) -> None:
        if command.beside:
            label = self._label(who, "goes on beside:", actor.place)
            beside = self.actors.of(replace(actor, beside=(actor.place, NEW, False)))
            found.append((label, self._answered(state, who, beside, self._none_told, label)))
        elif actor.phase == NEW:
            label = self._label(who, "begins:", actor.place)
            if self._is_skipped(state, command):
                found.append((label, self._answered(state, who, state[who], self._no, label)))
            elif _is_fenced(state, command):
                found.append((label, self._gone(state, who)))
            else:
                found.append((label, _with(state, who, self.actors.of(replace(actor, phase=UNDER_WAY)))))
        elif actor.phase == DOOMED:
            label = self._label(who, "is in conflict:", actor.place)
            found.append((label, _with(state, who, self.actors.of(replace(actor, phase=NEW, again=True)))))
        else:
            label = self._label(who, "commits:", actor.place)
            done = self._committed(state, actor.place, who, label)
            found.append((label, self._answered(done, who, done[who], self._no if actor.again else self._yes, label)))
            if state[LEFT] // DIGIT["lost"] % 8:
                label = self._label(who, "commits, and the answer is lost:", actor.place)
                again = self.actors.of(replace(actor, phase=NEW, again=True))
                found.append((label, self._spent(_with(done, who, again), "lost")))

    def _append_beside(self, state: State, who: int, actor: Actor, found: list[Step]) -> None:
        assert actor.beside is not None
        place, phase, again = actor.beside
        command: commands.Append = self.machines.commands[place]

        def gone_on(state: State, beside: tuple[int, int, bool] | None, *, failed: bool = False) -> State:
            return _with(state, who, self.actors.of(replace(actor, beside=beside, failed=failed)))

        if phase == NEW:
            label = self._label(who, "begins beside:", place)
            if self._is_skipped(state, command):
                there = self._read_mine(state, who, command.row[:2])
                own = decisions.is_own(written=False, there=there, mine=True)
                found.append((label, gone_on(state, None, failed=not own)))
            elif _is_fenced(state, command):
                found.append((label, gone_on(state, None, failed=True)))
            else:
                found.append((label, gone_on(state, (place, UNDER_WAY, again))))
        elif phase == DOOMED:
            label = self._label(who, "is in conflict beside:", place)
            found.append((label, gone_on(state, (place, NEW, True))))
        else:
            label = self._label(who, "commits beside:", place)
            done = self._committed(state, place, who, label)
            found.append((label, gone_on(done, None)))

    def _seal(self, state: State, who: int, actor: Actor, command: commands.Seal, found: list[Step]) -> None:
        if actor.phase == len(command.tables):
            label = self._label(who, "has sealed")
            found.append((label, self._answered(state, who, state[who], self._none_told, label)))
            return
        name = command.tables[actor.phase]
        label = self._label(who, f"seals {name}")
        rows, numbers, table_id, by = self.tables.values[state[TABLES[name]]]
        by = max(by, command.turn.epoch) if command.turn.role == "epoch" else by
        done = self._doomed(_with(state, TABLES[name], self.tables.of((rows, numbers, table_id, by))), name, None, who)
        found.append((label, _with(done, who, self.actors.of(replace(actor, phase=actor.phase + 1)))))

    def _replace(self, state: State, who: int, actor: Actor, command: Any, found: list[Step]) -> None:
        """An overwrite of a cache, or a delete in bronze."""
        if actor.phase == NEW:
            label = self._label(who, "begins:", actor.place)
            if type(command) is commands.Overwrite and _is_older(state, command.turn):
                found.append((label, self._gone(state, who)))
            else:
                found.append((label, _with(state, who, self.actors.of(replace(actor, phase=UNDER_WAY)))))
        elif actor.phase == DOOMED:
            label = self._label(who, "is in conflict:", actor.place)
            if type(command) is commands.Delete:  # left to the next maintenance
                found.append((label, self._answered(state, who, state[who], self._no, label)))
            else:
                found.append((label, self._gone(state, who)))
        else:
            label = self._label(who, "commits:", actor.place)
            done = self._committed(state, actor.place, who, label)
            found.append((label, self._answered(done, who, done[who], self._yes, label)))

    # --- what a step does --------------------------------------------------------------------------------------------

    def _answered(self, state: State, who: int, actor: int, answer: int, label: int) -> State:
        """The machine goes on behind its command."""
        found = self._after.get((actor, answer))
        if found is None:
            before: Actor = self.actors.values[actor]
            place = self.machines.after(before.place, answer)
            command = self.machines.commands[place]
            after = Actor(place, NEW, False, before.beside, before.failed and type(command) is not Ended)
            if type(self.machines.commands[before.place]) is commands.Wait:
                after = replace(after, failed=False)
            found = self._after[actor, answer] = (self.actors.of(after), command if type(command) is Ended else None)
        following, ended = found
        state = _with(state, who, following)
        if ended is None:
            return state
        if ended.how == "ok" and who in (ONE, TWO):
            self._require_published(state, ended.value, label)
        return self._gone(state, who)

    def _gone(self, state: State, who: int) -> State:
        """A process is gone; what it has under way may commit later."""
        actor: Actor = self.actors.values[state[who]]
        late = [actor.place] if actor.phase == UNDER_WAY and self._commits(actor.place) else []
        if actor.beside is not None and actor.beside[1] == UNDER_WAY:
            late.append(actor.beside[0])
        state = _with(state, who, self._idle)
        if late:
            state = _with(state, LATE, self.late.of(tuple(sorted([*self.late.values[state[LATE]], *late]))))
        key = ("forgotten", state[LEDGER], who)
        ledger = self._cache.get(key)
        if ledger is None:
            ledger = self._cache[key] = self._renamed(state[LEDGER], {who: 0})
        return _with(state, LEDGER, ledger)

    def _commits(self, place: int) -> bool:
        command = self.machines.commands[place]
        return type(command) in (commands.Append, commands.Overwrite, commands.Delete)

    def _renamed(self, table: int, names: Mapping[int, int]) -> int:
        rows, numbers, table_id, by = self.tables.values[table]
        values = [self.rows.values[row] for row in rows]
        renamed = (self.rows.of((kind, number, names.get(run, run), *rest)) for kind, number, run, *rest in values)
        return self.tables.of((tuple(renamed), numbers, table_id, by))

    def canonical(self, state: State) -> State:
        """Of two states that differ in which driver is which, one."""
        if not self._symmetric or (state[ONE] == self._idle and state[TWO] == self._idle):
            return state
        key = ("swapped", state[LEDGER])
        ledger = self._cache.get(key)
        if ledger is None:
            ledger = self._cache[key] = self._renamed(state[LEDGER], {ONE: TWO, TWO: ONE})
        if (state[TWO], ledger) < (state[ONE], state[LEDGER]):
            return (ledger, *state[1:ONE], state[TWO], state[ONE], *state[TRIM:])
        return state

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
                _with(state, SLOTS, _slot(state[SLOTS], command.table, command.cycle)), command.table, None, who
            )
        if type(command) is commands.Delete:
            state = self._deleted(state, command.cycle)
            return self._doomed(self._doomed(state, "a", "", who), "b", "", who)
        place = TABLES[command.table]
        self._require_allowed(state, command, label)
        key = ("appended", state[place], at, who)
        made = self._cache.get(key)
        if made is None:
            rows, numbers, table_id, by = self.tables.values[state[place]]
            added = tuple(self.rows.of(row) for row in self._rows(command, who))
            application, version = command.transaction
            if application:  # without one Delta does not know an append again
                numbers = tuple(sorted({**dict(numbers), application: version}.items()))
            ordered = (*rows, *added) if self._looks else tuple(sorted((*rows, *added)))
            made = self._cache[key] = self.tables.of((ordered, numbers, table_id, by))
        state = self._doomed(_with(state, place, made), command.table, command.transaction.application, who)
        self._require_sound(state, command, label)
        return state

    def _rows(self, command: commands.Append, who: int) -> Iterator[tuple[Any, ...]]:
        """The rows that an append has: `kind, number, run, epoch, value` of the ledger; else what tells them apart."""
        row = command.row
        if command.table == "ledger":
            yield (row[0], row[1], who, command.turn.epoch, self.machines.answers.of(row[2]))
        elif command.table == "replays":
            yield ("request", row, who)
        elif command.table in ("a", "b"):
            if len(row) == 3:
                yield (row[0], 0, 1, row[2])  # of the one record in quarantine a new attempt
            else:
                records = self.scenario.topics[row[0]]
                yield from ((row[0], offset, 0, row[3]) for offset in range(row[1], row[2]) if records[offset] == "r")
        else:
            plan, fingerprint = row
            yield from ((*one, plan.cycle, fingerprint) for one in self._results(plan, fingerprint))

    def _results(self, plan: Plan, fingerprint: str) -> list[tuple[str, int, int]]:
        """What a cycle publishes: a row a record, `topic, offset, attempt`."""
        if fingerprint in self.scenario.empty:
            return []
        found = []
        for part in plan.ranges:
            if part.partition == ATTEMPTS:
                found += [(part.topic, 0, 1)] if part.to_offset > part.from_offset else []
            else:
                records = self.scenario.topics[part.topic]
                found += [
                    (part.topic, one, 0) for one in range(part.from_offset, part.to_offset) if records[one] == "r"
                ]
        return found

    def _deleted(self, state: State, cycle: int) -> State:
        """Rows stay as marks, so that one that is ingested again is noticed."""
        plan = self._plans(state)[cycle]
        ends = {(part.topic, part.partition): part.to_offset for part in plan.ranges}
        for place, topic in ((A, "a"), (B, "b")):
            rows, numbers, table_id, by = self.tables.values[state[place]]
            values = [self.rows.values[row] for row in rows]
            gone = [
                (one[3] < ends.get((topic, ATTEMPTS), 0)) if one[2] else (one[1] < ends.get((topic, 0), 0))
                for one in values
            ]
            marked = (
                self.rows.of((*one[:3], TRIMMED if is_gone else one[3]))
                for one, is_gone in zip(values, gone, strict=True)
            )
            state = _with(state, place, self.tables.of((tuple(sorted(marked)), numbers, table_id, by)))
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
                state = _with(state, LATE, self.late.of(left))
        for who in ACTORS:
            if who == by or state[who] == self._idle:
                continue
            key = ("doomed", state[who], table, application)
            doomed = self._cache.get(key)
            if doomed is None:
                actor: Actor = self.actors.values[state[who]]
                made = actor
                if (
                    actor.phase == UNDER_WAY
                    and self._commits(actor.place)
                    and self._conflicts(actor.place, table, application)
                ):
                    made = replace(made, phase=DOOMED)
                if (
                    actor.beside is not None
                    and actor.beside[1] == UNDER_WAY
                    and self._conflicts(actor.beside[0], table, application)
                ):
                    made = replace(made, beside=(actor.beside[0], DOOMED, actor.beside[2]))
                doomed = self._cache[key] = self.actors.of(made)
            state = _with(state, who, doomed)
        return state

    def _conflicts(self, place: int, table: str, application: str | None) -> bool:
        command = self.machines.commands[place]
        if type(command) is commands.Delete:
            return table in ("a", "b")
        if command.table != table:
            return False
        if type(command) is commands.Overwrite or application is None:
            return True
        return bool(application) and bool(command.transaction.application == application)

    # --- what is read ------------------------------------------------------------------------------------------------

    def _answer(self, state: State, who: int, at: int, command: commands.Read, label: int) -> int:
        """The number of what is there."""
        what, of = command.what, command.of
        if what == "bronze":
            self._require_there(state, of[0], of[1], label)
            return self._none_told
        key = (at, who, *[state[one] for one in LOOKED_AT.get(what, (LEDGER,))])
        answer = self._cache.get(key)
        if answer is None:
            reader: Callable[[State, int, Any], Any] = getattr(self, f"_read_{what}")
            answer = self._cache[key] = self.machines.answers.of(reader(state, who, of))
        return int(answer)

    def _ledger(self, state: State, *kinds: str) -> list[tuple[Any, ...]]:
        rows = (self.rows.values[row] for row in self.tables.values[state[LEDGER]][0])
        return [(*row[:4], self.machines.answers.values[row[4]]) for row in rows if row[0] in kinds]

    def _plans(self, state: State) -> dict[int, Plan]:
        return {row[1]: row[4] for row in self._ledger(state, "plan")}

    def _read_ledger(self, state: State, who: int, of: Any) -> History:
        def newest(kind: str) -> Any:
            found = self._ledger(state, kind)
            return max(found, key=lambda row: (row[3], row[1])) if found else None

        plan, ingest, done, tip = newest("plan"), newest("ingest"), newest("done"), newest("epoch")
        epoch, stored, base = tip, newest("state"), newest("base")
        trim, trimmed, maintain = newest("trim"), newest("trimmed"), newest("maintain")
        return History(
            epoch=epoch[1] if epoch else 0,
            ingest=ingest[4] if ingest else None,
            plan=self._executed(state, plan[4]) if plan else None,
            done_cycle=decisions.done_cycle(done[1] if done else 0, plan[1] if plan else 0),
            state=stored[4] if stored else None,
            base=base[4] if base else None,
            trim=Plan(trim[1], "", (), {}, 0, 0) if trim else None,
            trimmed=Plan(trimmed[1], "", (), {}, 0, 0) if trimmed else None,
            maintenance=maintain[1] if maintain else 0,
            tables=dict(epoch[4] or ()) if epoch else {},
        )

    def _executed(self, state: State, plan: Plan) -> Plan:
        taken = [row for row in self._ledger(state, "taken") if row[1] == plan.cycle]
        if not taken:
            return plan
        last = max(taken, key=lambda row: row[3])
        return replace(plan, fingerprint=last[4], taken_over=last[3])

    def _read_claim(self, state: State, who: int, of: commands.Turn) -> int:
        last = max((row for row in self._ledger(state, of.role)), key=lambda row: row[3])
        return last[1] if last[2] == who else -last[1]

    def _read_mine(self, state: State, who: int, of: tuple[str, int]) -> bool:
        return [row[2] for row in self._ledger(state, of[0]) if row[1] == of[1]] == [who]

    def _read_ingests(self, state: State, who: int, of: int) -> tuple[Ingest, ...]:
        return tuple(row[4] for row in sorted(self._ledger(state, "ingest"), key=lambda row: row[1]) if row[1] >= of)

    def _read_plans(self, state: State, who: int, of: int) -> tuple[int, ...]:
        return tuple(sorted(one for one in self._plans(state) if one > of))

    def _read_tail(self, state: State, who: int, of: int, attempt: int = 0) -> dict[tuple[str, int], Tail]:
        found = {}
        for place, topic in ((A, "a"), (B, "b")):
            values = [self.rows.values[row] for row in self.tables.values[state[place]][0]]
            own = [one for one in values if one[3] > of and one[2] == attempt]
            if own:
                offsets = [one[1] for one in own]
                part = Range(topic, 0, min(offsets), max(offsets) + 1, len(own), stream_time_ms=0)
                found[topic, 0] = Tail(part, max(one[3] for one in own), 0)
        return found

    def _read_attempts(self, state: State, who: int, of: int) -> dict[tuple[str, int], Tail]:
        return self._read_tail(state, who, of, attempt=1)

    def _read_ends(self, state: State, who: int, of: Any) -> dict[tuple[str, int], int]:
        return {("a", 0): state[ENDS] % 8, ("b", 0): state[ENDS] // 8}

    def _read_requests(self, state: State, who: int, of: Any) -> tuple[int, ...]:
        return tuple(sorted(self.rows.values[row][1] for row in self.tables.values[state[REPLAYS]][0]))

    def _read_requested(self, state: State, who: int, of: Any) -> str:
        return "a"

    def _read_open(self, state: State, who: int, of: Any) -> bool:
        return not self.tables.values[state[REPLAYS]][0]

    def _read_landed(self, state: State, who: int, of: int) -> bool:
        return self.rows.of(("request", of, who)) in self.tables.values[state[REPLAYS]][0]

    def _read_out(self, state: State, who: int, of: int) -> bool:
        return any(self.rows.values[row][3] == of for row in self.tables.values[state[SILVER]][0])

    def _read_holds(self, state: State, who: int, of: tuple[str, int]) -> bool:
        return not of[0] or _slot_of(state[SLOTS], of[0]) == of[1]

    def _read_bronze(self, state: State, who: int, of: Any) -> None:
        return None

    def _read_tables(self, state: State, who: int, of: Mapping[str, KnownTable]) -> tuple[decisions.Look, ...]:
        found = []
        for name in ("ledger", "a", "b", "silver"):
            rows, _, table_id, by = self.tables.values[state[TABLES[name]]]
            version = len(rows) if self._looks else 0
            found.append(
                decisions.Look(
                    name, str(table_id), version, sealed_by=by, has_records=name in ("a", "b") and bool(rows)
                )
            )
        found.append(decisions.Look("epochs", "1", 0, sealed_by=_epoch(state[EPOCHS], commands.Turn("epoch", 0))))
        return tuple(found) if self._looks else ()

    # --- promises ----------------------------------------------------------------------------------------------------

    def _require_allowed(self, state: State, command: commands.Append, label: int) -> None:
        turn = command.turn
        if state[READ] & CHANGED and command.table != "replays":
            raise Broken("a run that has met tables which others have changed writes", label)
        decides = command.table == "ledger" and command.row[0] in ("epoch", "maintain")  # who is newer
        if turn.epoch and not decides and turn.epoch < _epoch(state[READ] & ~CHANGED, turn):
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
        return ""

    def _wrong_batch(self, state: State, one: Ingest) -> str:
        there = {self.rows.values[row][:3] for place in (A, B) for row in self.tables.values[state[place]][0]}
        for part in one.ranges:
            if part.partition == ATTEMPTS:
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

    def _require_there(self, state: State, since: int, cycle: int, label: int) -> None:
        """Whether bronze has what the cycles behind one took."""
        if not self.scenario.drivers[0].remembers:
            return
        key = ("there", state[LEDGER], state[A], state[B], since, cycle)
        fault = self._cache.get(key)
        if fault is None:
            there = {self.rows.values[row] for place in (A, B) for row in self.tables.values[state[place]][0]}
            left = {row[:3] for row in there if row[3] != TRIMMED}
            plans = self._plans(state)
            wanted = {one for number in range(since + 1, cycle + 1) for one in self._results(plans[number], "")}
            fault = self._cache[key] = bool(wanted - left)
        if fault:
            raise Broken(f"cycle {cycle} is evaluated from cycle {since} on, and bronze is trimmed behind that", label)

    # --- where everything ends ---------------------------------------------------------------------------------------

    def settled(self, state: State) -> None:
        """All processes are gone and nothing comes late any more: one more run must end well, with every record once."""
        for who in ACTORS:
            state = self._gone(state, who)
        state = _with(_with(state, LATE, self._none), LEFT, DIGIT["starts"])
        if state[READ] & CHANGED:
            return
        crashed = self._label(0, "every process crashes, and one more run follows")
        for _ in range(500):
            try:
                found = self.steps(state)
            except Broken as broken:
                raise Broken(broken.args[0], crashed, *broken.args[1:]) from broken
            own = [one for one in found if self.told[one[0]].startswith(NAMES[ONE])]
            if not own:
                break
            state = own[0][1]
        last = self.tables.values[state[SILVER]][0]
        published = sorted(self.rows.values[row][:3] for row in last if not self.rows.values[row][2])
        wanted = sorted(
            (topic, at, 0)
            for place, topic in enumerate(("a", "b"))
            for at in range(state[ENDS] // 8**place % 8)
            if self.scenario.topics[topic][at] == "r"
        )
        if published != wanted and not self.scenario.empty:
            raise Broken(f"one more run publishes {published}, not {wanted}", crashed)


def _with(state: State, place: int, value: int) -> State:
    return (*state[:place], value, *state[place + 1 :])


def _epoch(packed: int, turn: commands.Turn) -> int:
    return packed % 64 if turn.role == "epoch" else packed // 64 % 64


def _raised(packed: int, turn: commands.Turn) -> int:
    step = 1 if turn.role == "epoch" else 64
    return packed + step * max(0, turn.epoch - _epoch(packed, turn))


def _is_older(state: State, turn: commands.Turn) -> bool:
    return turn.epoch < _epoch(state[EPOCHS], turn)


def _is_fenced(state: State, command: commands.Append) -> bool:
    return command.fenced and _is_older(state, command.turn)


def _slot_of(slots: int, name: str) -> int:
    return slots // 8 ** CACHES.index(name) % 8


def _slot(slots: int, name: str, cycle: int) -> int:
    return slots + 8 ** CACHES.index(name) * (cycle - _slot_of(slots, name))


def _said(command: Any) -> str:
    """A command in words."""
    if isinstance(command, commands.Append):
        row = command.row
        what = (
            f"{row[0]} {row[1]}"
            if command.table == "ledger"
            else f"cycle {row[0].cycle}"
            if command.table == "silver"
            else str(row)
        )
        application, version = command.transaction
        shown = f"{version >> 32}|{version % 2**32}" if version >> 32 else version
        return f"append {what} to {command.table} as {application} {shown} under epoch {command.turn.epoch}"
    if isinstance(command, commands.Read):
        return f"read {command.what}"
    if isinstance(command, commands.Raise):
        return f"raise {command.turn.role} to {command.turn.epoch}"
    if isinstance(command, commands.Overwrite):
        return f"overwrite {command.table} as of cycle {command.cycle}"
    if isinstance(command, commands.Evaluate):
        return f"evaluate cycle {command.plan.cycle}"
    return f"{type(command).__name__.lower()} {getattr(command, 'cycle', '')}"
