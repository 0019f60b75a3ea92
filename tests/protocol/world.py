"""A lake in memory, and everything that can happen in it next.

A state is a tuple of small numbers; what each stands for is kept once (`Numbers`). Tables behave as Delta's do:
- an append is skipped if its application has that version or a later one, before its fence is looked at;
- a fence is evaluated when the statement begins, and the statement commits in a later step;
- it does not commit if the table's metadata has changed since, or the same application has committed; overwrites and deletes
  also not beside any other commit. Appends and overwrites are then tried again from their beginning;
- what a process has begun may commit after the process is gone.

`Broken` is raised where a promise of the protocol does not hold any more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.protocol.machines import Ended
from tests.protocol.state import (
    ACTORS,
    ASK,
    CHANGED,
    DIGIT,
    DOOMED,
    ENDS,
    EPOCHS,
    HELD,
    LATE,
    LEDGER,
    LEFT,
    NAMES,
    NEW,
    ONE,
    READ,
    SILVER,
    SLOTS,
    TABLES,
    TRIM,
    TWO,
    UNDER_WAY,
    Actor,
    Broken,
    Other,
    Scenario,
    State,
    Step,
    Table,
    Twofold,
    epoch_of,
    is_fenced,
    is_older,
    put,
    raised,
)
from tests.protocol.threads import Threads
from tests.protocol.words import said

from lakestreams.engine.protocol import commands, decisions, machines


class World(Threads):
    """Every state of a scenario, and what can happen next."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        self.begun = {
            ONE: self.machines.begun["one"],
            TWO: self.machines.begun["one" if scenario.symmetric else "two"],
            TRIM: self.machines.begun["trim"],
            ASK: self.machines.begun["ask"],
        }
        self._labels: dict[tuple[int, str, int], int] = {}
        self._after: dict[tuple[int, int], tuple[int, Ended | None]] = {}
        self._symmetric = scenario.symmetric
        self._settling = False
        self.told: list[str] = []
        empty = self.tables.of(((), (), 1, 0))
        idle, none = self._idle, self.late.of(())
        left = sum(count * DIGIT[kind] for kind, count in scenario.left.items())
        ends = scenario.ends[0] + 8 * scenario.ends[1]
        self.first: State = (empty, empty, empty, empty, empty, 0, 0, 0, ends, none, left, idle, idle, idle, idle)
        self._lengths = [len(scenario.topics.get(topic, "")) for topic in ("a", "b")]
        self._begun = {who: self.actors.of(Actor(place)) for who, place in self.begun.items()}
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
                before = len(found)
                self._act(state, who, found)
                self._act_beside(state, who, found)
                if len(found) == before:
                    raise Broken("a process can do nothing any more")
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
            words = said(self.machines.commands[place]) if place else ""
            self.told.append(" ".join(one for one in (f"{NAMES[who]}:" if who else "", what, words) if one))
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
            found.append((self._label(who, "begins"), self._spent(put(state, who, begun), kind)))

    def _produce(self, state: State, found: list[Step]) -> None:
        for place, topic in enumerate(("a", "b")):
            if state[ENDS] // 8**place % 8 < self._lengths[place]:
                found.append((self._label(0, f"a record comes to {topic}"), put(state, ENDS, state[ENDS] + 8**place)))

    def _damage(self, state: State, found: list[Step]) -> None:
        if state[LATE] != self._none or any(state[who] != self._idle for who in (ONE, TWO)):
            return  # what happens while somebody runs is seen by the next start: decision 0031
        if ("delete", "caches") in self.scenario.damages and state[SLOTS] % 64:
            kept = put(state, SLOTS, state[SLOTS] - state[SLOTS] % 64)  # the base is no cache: decision 0015
            found.append((self._label(0, "somebody: delete caches"), self._spent(kept, "damages")))
        known = self._read_ledger(state, 0, None).tables
        for what, name in self.scenario.damages if self._looks else ():
            rows, numbers, table_id, by = self.tables.values[state[TABLES[name]]]
            least = known[name].version if name in known else 0
            if what == "delete" and rows and epoch_of(state[EPOCHS], commands.Turn("epoch", 0)):
                made: Table = ((), (), table_id + 1, 0)
            elif what == "put back" and least:  # what has come since the last start is not seen: decision 0031
                made = (rows[: least - 1], numbers, table_id, by)
            else:
                continue
            spent = self._spent(put(state, TABLES[name], self.tables.of(made)), "damages")
            # from here on nobody may write
            found.append((self._label(0, f"somebody: {what} {name}"), put(spent, READ, spent[READ] | CHANGED)))

    def _land_late(self, state: State, found: list[Step]) -> None:
        for one in self.late.values[state[LATE]]:
            rest = list(self.late.values[state[LATE]])
            rest.remove(one)
            without = put(state, LATE, self.late.of(tuple(rest)))
            label = self._label(0, "commits late:", one)
            found.append((label, self._committed(without, one, 0, label)))

    def _act_beside(self, state: State, who: int, found: list[Step]) -> None:
        """What the second thread of a process can do: the same, while it is in front."""
        actor: Actor = self.actors.values[state[who]]
        if not isinstance(actor, Twofold) or actor.beside is None:
            return
        own: list[Step] = []
        self._act(put(state, who, self.actors.of(actor.turn())), who, own)
        for label, after in own:
            front = self.actors.values[after[who]]
            is_turned = isinstance(front, Twofold) and front.turned
            found.append((label, put(after, who, self.actors.of(front.turn())) if is_turned else after))

    def _act(self, state: State, who: int, found: list[Step]) -> None:
        actor: Actor = self.actors.values[state[who]]
        command = self.machines.commands[actor.place]
        turned = isinstance(actor, Twofold) and actor.turned
        for one in actor.others:
            if one.joined or not turned:  # what goes on beside both threads is a step of the process, once
                self._append_beside(state, who, actor, one, found)
        kind = type(command)
        if kind in (commands.Append, commands.Overwrite) and command.pending:
            label = self._label(who, "goes on beside:", actor.place)
            pending = self.actors.of(replace(actor, others=(*actor.others, Other(actor.place, HELD, joined=False))))
            found.append((label, self._answered(state, who, pending, self._none_told, label)))
            self._go_together(state, who, actor, found)
        elif kind is commands.Append:
            self._append(state, who, actor, command, found)
        elif kind is commands.Read:
            label = self._label(who, "", actor.place)
            answered = self._answered(
                state, who, state[who], self._answer(state, who, actor.place, command, label), label
            )
            if command.what == commands.LEDGER and command.of is not None:  # the first look behind a takeover
                answered = put(answered, READ, raised(answered[READ], command.of))
            found.append((label, answered))
        elif kind is commands.Raise:
            label = self._label(who, "", actor.place)
            newer = put(state, EPOCHS, raised(state[EPOCHS], command.turn))
            found.append((label, self._answered(newer, who, state[who], self._none_told, label)))
        elif kind is commands.Seal:
            self._seal(state, who, actor, command, found)
        elif kind is commands.Evaluate:
            label = self._label(who, "", actor.place)
            if not is_older(state, command.turn):  # what an older driver computes is published nowhere
                self._require_kept(state, decisions.cycle_of(command.since), command.plan.cycle, label, command.plan)
            found.append((label, self._answered(state, who, state[who], self._yes, label)))
            if state[LEFT] // DIGIT["failures"] % 8:
                label = self._label(who, "finds that a rule fails:", actor.place)
                found.append((label, self._spent(self._answered(state, who, state[who], self._no, label), "failures")))
        elif kind is commands.Wait:
            if not self._waited_for(actor):
                label = self._label(who, "", actor.place)
                answer = self._no if actor.failed else self._yes
                found.append((label, self._answered(state, who, state[who], answer, label)))
        elif kind is commands.Begin or kind is commands.Hand:
            label = self._label(who, "", actor.place)
            found.append((label, self._answered(state, who, state[who], self._none_told, label)))
        elif kind is commands.Take:
            if actor.handed or actor.beside is None:
                label = self._label(who, "", actor.place)
                found.append((label, self._answered(state, who, state[who], self._taken(actor), label)))
        elif kind is not commands.Together:
            self._replace(state, who, actor, command, found)

    def _append(self, state: State, who: int, actor: Actor, command: commands.Append, found: list[Step]) -> None:
        if actor.phase == NEW:
            label = self._label(who, "begins:", actor.place)
            if self._is_skipped(state, command):
                found.append((label, self._answered(state, who, state[who], self._no, label)))
            elif is_fenced(state, command):
                found.append((label, self._gone(state, who)))
            else:
                found.append((label, put(state, who, self.actors.of(replace(actor, phase=UNDER_WAY)))))
        elif actor.phase == DOOMED:
            label = self._label(who, "is in conflict:", actor.place)
            found.append((label, put(state, who, self.actors.of(replace(actor, phase=NEW, again=True)))))
        else:
            label = self._label(who, "commits:", actor.place)
            done = self._committed(state, actor.place, who, label)
            found.append((label, self._answered(done, who, done[who], self._no if actor.again else self._yes, label)))
            if state[LEFT] // DIGIT["lost"] % 8:
                label = self._label(who, "commits, and the answer is lost:", actor.place)
                again = self.actors.of(replace(actor, phase=NEW, again=True))
                found.append((label, self._spent(put(done, who, again), "lost")))

    def _go_together(self, state: State, who: int, actor: Actor, found: list[Step]) -> None:
        """A row of the ledger that nobody has begun to append goes into the commit of the next one."""
        for one in actor.others:
            before = self.machines.commands[one.place]
            last = self.machines.commands[actor.place]
            if one.phase != HELD or not isinstance(before, commands.Append) or before.table != last.table:
                continue
            label = self._label(who, "goes on beside, in one commit with the row before:", actor.place)
            both = one._replace(place=self.machines.together(one.place, actor.place))
            others = (*(other for other in actor.others if other != one), both)
            pending = self.actors.of(replace(actor, others=others))
            found.append((label, self._answered(state, who, pending, self._none_told, label)))

    def _append_beside(self, state: State, who: int, actor: Actor, one: Other, found: list[Step]) -> None:
        """What a statement does next that is under way beside its machine."""
        command: commands.Append | commands.Overwrite = self.machines.commands[one.place]
        overwrites = isinstance(command, commands.Overwrite)
        rest = tuple(other for other in actor.others if other != one)

        def gone_on(state: State, label: int, phase: int | None, *, failed: bool = False) -> State:
            others = rest if phase is None else tuple(sorted((*rest, one._replace(phase=phase))))
            after = self.actors.of(replace(actor, others=others, failed=actor.failed or failed))
            if not one.joined or any(other.joined for other in others):
                return put(state, who, after)
            if failed or actor.failed:
                return self._gone(put(state, who, after), who)
            # all of them are there; whether one was skipped is seen when they are read back
            return self._answered(state, who, after, self._none_told, label)

        if one.phase in (NEW, HELD):
            label = self._label(who, "begins beside:", one.place)
            if overwrites:
                older = is_older(state, command.turn)
                if not older:
                    self._require_source(state, command, label)
                found.append((label, gone_on(state, label, None if older else UNDER_WAY, failed=older)))
            elif self._is_skipped(state, command):
                there = one.joined or self._read_mine(state, who, command.row[:2])
                own = one.joined or decisions.is_own(written=False, existing=there, mine=True)
                found.append((label, gone_on(state, label, None, failed=not own)))
            elif is_fenced(state, command):
                found.append((label, gone_on(state, label, None, failed=True)))
            else:
                found.append((label, gone_on(state, label, UNDER_WAY)))
        elif one.phase == DOOMED:
            label = self._label(who, "is in conflict beside:", one.place)
            found.append((label, gone_on(state, label, NEW)))
        else:
            label = self._label(who, "commits beside:", one.place)
            done = self._committed(state, one.place, who, label)
            found.append((label, gone_on(done, label, None)))
            if state[LEFT] // DIGIT["lost"] % 8:
                label = self._label(who, "commits beside, and the answer is lost:", one.place)
                found.append((label, self._spent(gone_on(done, label, NEW), "lost")))

    def _seal(self, state: State, who: int, actor: Actor, command: commands.Seal, found: list[Step]) -> None:
        if actor.phase == len(command.tables):
            label = self._label(who, "has sealed")
            found.append((label, self._answered(state, who, state[who], self._none_told, label)))
            return
        name = command.tables[actor.phase]
        label = self._label(who, f"seals {name}")
        rows, numbers, table_id, by = self.tables.values[state[TABLES[name]]]
        by = max(by, command.turn.epoch) if command.turn.role == "epoch" else by
        done = self._doomed(put(state, TABLES[name], self.tables.of((rows, numbers, table_id, by))), name, None, who)
        found.append((label, put(done, who, self.actors.of(replace(actor, phase=actor.phase + 1)))))

    def _replace(self, state: State, who: int, actor: Actor, command: Any, found: list[Step]) -> None:
        """An overwrite of a cache, or a delete in bronze."""
        if actor.phase == NEW:
            label = self._label(who, "begins:", actor.place)
            if type(command) is commands.Overwrite and is_older(state, command.turn):
                found.append((label, self._gone(state, who)))
            else:
                if type(command) is commands.Overwrite and command.turn.role == "epoch":
                    self._require_source(state, command, label)
                found.append((label, put(state, who, self.actors.of(replace(actor, phase=UNDER_WAY)))))
        elif actor.phase == DOOMED:
            label = self._label(who, "is in conflict:", actor.place)
            if type(command) is commands.Delete:  # left to the next maintenance
                found.append((label, self._answered(state, who, state[who], self._no, label)))
            else:
                found.append((label, put(state, who, self.actors.of(replace(actor, phase=NEW)))))
        else:
            label = self._label(who, "commits:", actor.place)
            done = self._committed(state, actor.place, who, label)
            stored = type(command) is commands.Overwrite
            answer = self.machines.answers.of(command.stored) if stored else self._yes
            found.append((label, self._answered(done, who, done[who], answer, label)))
            if stored and state[LEFT] // DIGIT["lost"] % 8:
                label = self._label(who, "commits, and the answer is lost:", actor.place)
                again = self.actors.of(replace(actor, phase=NEW))
                found.append((label, self._spent(put(done, who, again), "lost")))

    def _answered(self, state: State, who: int, actor: int, answer: int, label: int) -> State:
        """The machine goes on behind its command."""
        found = self._after.get((actor, answer))
        if found is None:
            before: Actor = self.actors.values[actor]
            place = self.machines.after(before.place, answer)
            command = self.machines.commands[place]
            parts = self.machines.parts.get(place, ())
            others = (*before.others, *(Other(part, NEW, joined=True) for part in parts))
            twofold = isinstance(before, Twofold)  # then both threads are to learn it
            failed = before.failed and (twofold or type(command) is not Ended)
            after = replace(before, place=place, phase=NEW, again=False, others=others, failed=failed)
            answered = self.machines.commands[before.place]
            if type(answered) is commands.Wait and not twofold:
                after = replace(after, failed=False)
            after = self._threads(after, answered)
            found = self._after[actor, answer] = (self.actors.of(after), command if type(command) is Ended else None)
        following, ended = found
        state = put(state, who, following)
        if ended is None:
            return state
        if ended.how == "broken":
            raise Broken(ended.value, label)
        if ended.how == "ok" and isinstance(ended.value, machines.At):
            self._require_published(state, ended.value, label)
        if ended.how != "ok" and self._settling and not self.scenario.empty:
            raise Broken(f"one more run ends with {ended.how}: {ended.value}", label)
        return self._gone(state, who, failed=ended.how != "ok")

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

    def settled(self, state: State) -> None:
        """All processes are gone and nothing comes late any more: one more run must end well, with every record once."""
        for who in ACTORS:
            state = self._gone(state, who)
        state = put(put(state, LATE, self._none), LEFT, DIGIT["starts"])
        if state[READ] & CHANGED:
            return
        self._settling = True
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
        self._settling = False
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
