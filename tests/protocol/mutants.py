"""The protocol with one guard removed: one function of `engine/protocol` in the place of another.

The checker and the engine call the same functions, so the same replacement is made under both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest.mock import patch

from tests.protocol import scenarios
from tests.protocol.search import Found, search
from tests.protocol.state import Scenario

from lakestreams.engine.ledger.plans import History, Ingest, StoredState
from lakestreams.engine.protocol import claims, decisions, keeping, machines, unchanged
from lakestreams.engine.protocol.commands import (
    LEDGER,
    Append,
    Overwrite,
    Raise,
    Read,
    Seal,
    Steps,
    Stop,
    Transaction,
    Turn,
    Wait,
)


@dataclass(frozen=True)
class Mutant:
    """Guards that are removed, and the scenario that shows it.

    Attributes:
        guards: function of the protocol to what takes its place.
        scenario: where it is found.
        settle_every: it takes one more run to see what is wrong, which is tried behind one state in so many; 0: it does not.
        most: how many states are tried.
    """

    guards: dict[str, Any]
    scenario: Scenario
    settle_every: int = 0
    most: int = 200_000

    def search(self) -> Found:
        """What the checker finds without the guards."""
        with self.removed():
            return search(self.scenario, most=self.most, settle_every=self.settle_every)

    @contextmanager
    def removed(self) -> Iterator[None]:
        """While this is open, the guards are not there, neither for the checker nor for the engine."""
        with ExitStack() as patched:
            for name, other in self.guards.items():
                owners: tuple[Any, ...] = (decisions, unchanged, claims, keeping, machines)
                if name.startswith("History."):
                    owners = (History,)
                owner = next(one for one in owners if hasattr(one, name.rpartition(".")[2]))
                patched.enter_context(patch.object(owner, name.rpartition(".")[2], other))
            yield


def _unnumbered(*_: Any) -> Transaction:
    """Delta does not know the append again."""
    return Transaction("", 0)


def _unfenced(*kinds: str) -> dict[str, Callable[..., Any]]:
    fenced = decisions.fenced
    return {"fenced": lambda kind: kind not in kinds and fenced(kind)}


def _seals(*without: str) -> dict[str, Callable[..., Any]]:
    sealed = decisions.sealed
    return {"sealed": lambda *given: tuple(one for one in sealed(*given) if one not in without)}


def _sealed_before_raised(history: History, tables: tuple[str, ...], row: Any = None) -> Steps[tuple[Turn, History]]:
    turn = Turn("epoch", history.epoch + 1)
    written = yield Append(LEDGER, ("epoch", turn.epoch, row), decisions.of_claim(turn), turn, fenced=False)
    if not written and (yield Read("claim", turn)) != turn.epoch:
        raise Stop("LS503", "")
    if history.epoch:
        yield Seal(tables, turn)
    yield Raise(turn)
    return turn, ((yield Read(LEDGER, turn)) if history.epoch else history)


def _ended_at_once(own: machines.Pipeline, rounds: int) -> Steps[machines.At]:
    turn, history = yield from machines.start(own)
    yield from claims.end(turn)
    at = yield from machines.resume(own, turn, history)
    for _ in range(rounds):
        at = yield from machines.one_round(own, turn, at)
    return (yield from machines.finish(own, turn, at))


def _read_before_sealed(history: History, tables: tuple[str, ...], row: Any = None) -> Steps[tuple[Turn, History]]:
    turn = Turn("epoch", history.epoch + 1)
    yield from claims.claim(turn, row)
    if history.epoch:
        history = yield Read(LEDGER, turn)
        yield Seal(tables, turn)
    return turn, history


def _not_raised(turn: Turn, row: Any = None) -> Steps[None]:
    yield Append(LEDGER, (turn.role, turn.epoch, row), decisions.of_claim(turn), turn, fenced=False)


def _without_waiting(name: str) -> dict[str, Callable[..., Steps[Any]]]:
    """A machine that goes on where it is to wait."""
    machine = getattr(machines, name)

    def goes_on(*given: Any) -> Steps[Any]:
        steps, answer = machine(*given), None
        while True:
            try:
                command = steps.send(answer)
            except StopIteration as ended:
                return ended.value
            answer = True if isinstance(command, Wait) else (yield command)

    return {name: goes_on}


def _closed_without_request(before: Any, found: Any, ends: Any) -> Any:
    return Ingest(before.seq + 1, before.seq + 1, decisions.ranges_of(before, found, ends))


def _by_batch_alone(topic: str, _: int, seq: int) -> Transaction:
    return Transaction(f"bronze/{topic}", seq)


def _a1(topic: str, _: int, seq: int) -> Transaction:
    """As it was when fault A1 was found: a topic's first append of a driver that knew no batch has the number 1."""
    return Transaction(f"bronze/{topic}", 1 if topic == "b" else seq)


def _said_at_once(turn: Turn, cycle: int, semantics: str, since: StoredState | None) -> Steps[None]:
    yield Overwrite(keeping.free_place("state", cycle, semantics, since), since, turn)
    yield from keeping.stored(turn, cycle, semantics, since)


DUEL, LOST, CRASH, ROUNDS = (
    scenarios.DUEL, scenarios.LOST, scenarios.CRASH, scenarios.ROUNDS,
)  # fmt: skip
REPLAYS, DAMAGES, FORGOTTEN = scenarios.REPLAYS, scenarios.DAMAGES, scenarios.FORGOTTEN

MUTANTS: Final[dict[str, Mutant]] = {
    "fault A1": Mutant({"of_batch": _a1, "sealed": lambda *_: ()}, ROUNDS),
    "bronze is not numbered by epoch": Mutant({"of_batch": _by_batch_alone}, scenarios.MARKED),
    "bronze is not numbered": Mutant({"of_batch": _unnumbered}, LOST),
    "outputs are not numbered": Mutant({"of_output": _unnumbered}, LOST),
    "ledger rows are not numbered": Mutant({"of_row": _unnumbered}, LOST),
    "claims are not numbered": Mutant({"of_claim": _unnumbered}, LOST),
    "requests are not numbered": Mutant({"of_request": _unnumbered}, REPLAYS),
    "nothing is sealed": Mutant({"sealed": lambda *_: ()}, DUEL),
    "bronze is not sealed": Mutant(_seals("a", "b"), DUEL),
    "the ledger is not sealed": Mutant(_seals("ledger"), DUEL),
    "outputs are not sealed": Mutant(_seals("silver"), DUEL),
    "bronze is not fenced": Mutant(_unfenced("bronze"), DUEL),
    "batches are not fenced": Mutant(_unfenced("ingest"), DUEL),
    "plans are not fenced": Mutant(_unfenced("plan"), DUEL),
    "outputs are not fenced": Mutant(_unfenced("output"), DUEL),
    "done rows are not fenced": Mutant(_unfenced("done"), DUEL),
    "maintenance does not seal the ledger": Mutant(
        {"sealed": lambda ledger, topics, outputs: (ledger, *topics, *outputs) if outputs else ()}, scenarios.TRIMS
    ),
    "the epoch is not raised": Mutant({"claim": _not_raised}, DUEL),
    "sealed before it is raised": Mutant({"take_over": _sealed_before_raised}, DUEL),
    "read before it is sealed": Mutant({"take_over": _read_before_sealed}, DUEL),
    "who has not ended is not stopped": Mutant({"is_quiet": lambda history, _: history.epoch > 0}, DUEL),
    "a run says first that it has ended": Mutant({"drive": _ended_at_once}, DUEL),
    "what Delta skipped counts as written": Mutant({"is_own": lambda **_: True}, scenarios.GROWS),
    "the epoch is claimed again": Mutant({"next_epoch": lambda newest: max(1, newest)}, DUEL, settle_every=32),
    "nothing is recovered": Mutant({"recovered": lambda *_: None}, CRASH),
    "no replay is recovered": Mutant({"recovered_request": lambda *_: None}, scenarios.ASKED_AGAIN),
    "a batch forgets the last request": Mutant({"closed": _closed_without_request}, scenarios.ASKED),
    "a batch begins where its query began": Mutant(
        {"begins": lambda first, _: first}, scenarios.BESIDE, settle_every=32
    ),
    "the next batch of a query does not wait": Mutant(_without_waiting("batch"), scenarios.BESIDE, settle_every=32),
    "a cycle is published before its plan is there": Mutant(_without_waiting("execute"), DUEL),
    "the newest batch is not read": Mutant({"oldest_batch": lambda _, newest: newest.seq + 1 if newest else 0}, CRASH),
    "a plan counts as done": Mutant({"done_cycle": max}, CRASH),
    "an open plan is not repeated": Mutant({"History.open_plan": property(lambda _: None)}, CRASH),
    "a cycle that was not executed is closed": Mutant({"may_become": lambda *_: True}, scenarios.FAILS),
    "another configuration repeats a plan": Mutant({"is_taken_over": lambda *_, **__: False}, scenarios.OTHERS),
    "a published cycle is taken over": Mutant({"may_take_over": lambda **_: True}, scenarios.OTHERS),
    "a cycle is taken over under its old name": Mutant(
        {"of_output": lambda name, plan: Transaction(name, plan.cycle)}, scenarios.OTHERS
    ),
    "maintenance does not look again before it deletes": Mutant({"may_delete": lambda *_: True}, FORGOTTEN),
    "a driver builds on what is trimmed": Mutant({"reaches": lambda *_: True}, FORGOTTEN, settle_every=32),
    "what is valid is overwritten": Mutant(
        {"free_slot": lambda kind, _: decisions.SLOTS[kind][0]},
        scenarios.FORGOTTEN_LATE,
        settle_every=1,
        most=2_500_000,
    ),
    "what is stored beside a cycle is valid at once": Mutant({"begin": _said_at_once}, scenarios.STORED),
    "a driver does not look again behind its state row": Mutant({"holds_still": lambda *_: True}, FORGOTTEN),
    "tables are not compared with the ledger": Mutant({"table_fault": lambda *_: None}, DAMAGES),
    "a lost ledger is not noticed": Mutant({"ledger_lost": lambda *_, **__: False}, DAMAGES),
}

__all__ = ["MUTANTS", "Mutant"]
