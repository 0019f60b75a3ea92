"""A state of the world: a tuple of small numbers, by place, and what is there at first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tests.protocol.machines import IDLE

from lakestreams.engine.protocol import commands, decisions, machines

# Places in a state.
LEDGER, A, B, SILVER, REPLAYS, SLOTS, EPOCHS, READ, ENDS, LATE, LEFT, ONE, TWO, TRIM, ASK = range(15)
ACTORS = (ONE, TWO, TRIM, ASK)
TABLES = {"ledger": LEDGER, "a": A, "b": B, "silver": SILVER, "replays": REPLAYS}
CACHES = (*decisions.SLOTS["state"], *decisions.SLOTS["base"])
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
# How far an actor's statement has come. What is held was never begun, so it may go into the commit of another row.
NEW, UNDER_WAY, DOOMED, HELD = range(4)
TRIMMED = -1
CHANGED = 1 << 20  # in READ: somebody has changed a table, and whoever begins may write nothing

State = tuple[int, ...]
Table = tuple[tuple[int, ...], tuple[tuple[str, int], ...], int, int]  # rows, transactions, id, sealed by
Step = tuple[int, State]  # what happened (see `World.told`), and what is then


class Broken(AssertionError):
    """A promise does not hold."""


class Other(NamedTuple):
    """An append that goes on beside what a process does.

    Attributes:
        place: of its command.
        phase: how far it has come.
        joined: whether the process waits for it before it does anything else; else `Wait` does.
    """

    place: int
    phase: int
    joined: bool


@dataclass(frozen=True)
class Actor:
    """A process: its machine's place, and its statements.

    Attributes:
        phase: of the statement of its place's command; of a seal how many tables are sealed.
        again: whether the statement was begun before, so that its answer is not sure.
        others: appends that are not there yet, beside what it does or side by side.
        failed: whether one of them has turned out not to be its own.
    """

    place: int = IDLE
    phase: int = NEW
    again: bool = False
    others: tuple[Other, ...] = ()
    failed: bool = False


class Thread(NamedTuple):
    """Where another thread of a process stands; `others` are those that it waits for itself."""

    place: int
    phase: int = NEW
    again: bool = False
    others: tuple[Other, ...] = ()


@dataclass(frozen=True)
class Twofold(Actor):
    """A process with a second thread: a driver that has begun a query.

    Attributes:
        beside: the other thread; None: the query has ended.
        turned: whether that is the driver's own, as it is while a step of the query is tried.
        handed: numbers of the batches that the query has handed over, and nobody has taken.
        query_failed: whether it has ended with an error.
    """

    beside: Thread | None = None
    turned: bool = False
    handed: tuple[int, ...] = ()
    query_failed: bool = False

    def turn(self) -> Twofold:
        """The same process, with the other thread in front; what goes on beside both stays there."""
        assert self.beside is not None
        own, shared = ([one for one in self.others if one.joined is joined] for joined in (True, False))
        place, phase, again, others = self.beside
        return replace(
            self,
            place=place,
            phase=phase,
            again=again,
            others=tuple(sorted([*others, *shared])),
            beside=Thread(self.place, self.phase, self.again, tuple(own)),
            turned=not self.turned,
        )


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


def put(state: State, place: int, value: int) -> State:
    return (*state[:place], value, *state[place + 1 :])


def epoch_of(packed: int, turn: commands.Turn) -> int:
    return packed % 64 if turn.role == "epoch" else packed // 64 % 64


def raised(packed: int, turn: commands.Turn) -> int:
    step = 1 if turn.role == "epoch" else 64
    return packed + step * max(0, turn.epoch - epoch_of(packed, turn))


def is_older(state: State, turn: commands.Turn) -> bool:
    return turn.epoch < epoch_of(state[EPOCHS], turn)


def is_fenced(state: State, command: commands.Append) -> bool:
    return command.fenced and is_older(state, command.turn)


def slot_of(slots: int, name: str) -> int:
    return slots // 8 ** CACHES.index(name) % 8


def slot_to(slots: int, name: str, cycle: int) -> int:
    return slots + 8 ** CACHES.index(name) * (cycle - slot_of(slots, name))
