"""The threads of a process: what two of them share, and what is left of them when they end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.protocol.commits import Commits
from tests.protocol.machines import Ended
from tests.protocol.state import LATE, LEDGER, NEW, UNDER_WAY, Actor, Other, State, Thread, Twofold, put

from lakestreams.engine.protocol import commands


class Threads(Commits):
    """How processes end, and how a driver and its query know of each other."""

    def _taken(self, actor: Twofold) -> int:
        """What is answered to `Take`."""
        how = "goes on" if actor.beside is not None else "has failed" if actor.query_failed else "has ended"
        batches = tuple(self.machines.answers.values[one] for one in actor.handed)
        return self.machines.answers.of(commands.Taken(batches, how))

    def _threads(self, after: Actor, answered: Any) -> Actor:
        """What becomes of a process's threads behind a command."""
        if type(answered) is commands.Begin:
            begun = self.machines.begin(answered)
            is_there = type(self.machines.commands[begun]) is not Ended  # else there is nothing to read
            others = tuple(Other(part, NEW, joined=True) for part in self.machines.parts.get(begun, ()))
            return Twofold(**vars(after), beside=Thread(begun, others=others) if is_there else None)
        if type(answered) is commands.Hand and isinstance(after, Twofold):
            return replace(after, handed=(*after.handed, self.machines.answers.of(answered.batch)))
        if type(answered) is commands.Take and isinstance(after, Twofold):
            one = Actor(after.place, after.phase, after.again, after.others, after.failed)
            return one if after.beside is None else replace(after, handed=())
        return after

    def _waited_for(self, actor: Actor) -> list[Other]:
        """What `Wait` waits for: a query does not wait for what its driver stores."""
        is_query = isinstance(actor, Twofold) and actor.turned
        kinds = (commands.Append,) if is_query else (commands.Append, commands.Overwrite)
        return [one for one in actor.others if isinstance(self.machines.commands[one.place], kinds)]

    def _gone(self, state: State, who: int, *, failed: bool = True) -> State:
        """A process, or the query beside it, is gone; what it has under way may commit later."""
        actor: Actor = self.actors.values[state[who]]
        threads: list[Actor | Thread] = [actor]
        if isinstance(actor, Twofold) and actor.turned:
            return put(state, who, self.actors.of(replace(actor.turn(), beside=None, query_failed=failed)))
        if isinstance(actor, Twofold) and actor.beside is not None:
            threads.append(actor.beside)
        late = [one.place for one in threads if one.phase == UNDER_WAY and self._commits(one.place)]
        late += [other.place for one in threads for other in one.others if other.phase == UNDER_WAY]
        state = put(state, who, self._idle)
        if late:
            state = put(state, LATE, self.late.of(tuple(sorted([*self.late.values[state[LATE]], *late]))))
        key = ("forgotten", state[LEDGER], who)
        ledger = self._cache.get(key)
        if ledger is None:
            ledger = self._cache[key] = self._renamed(state[LEDGER], {who: 0})
        return put(state, LEDGER, ledger)
