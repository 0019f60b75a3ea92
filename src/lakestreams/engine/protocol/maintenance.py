"""The protocol of who works at the same time as drivers: maintenance is `trim`, a replay is `request`.

`maintenance.trimming` carries out `trim`, and `engine.replay.deciding` carries out `request`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakestreams.engine.ledger.plans import History, StoredState
from lakestreams.engine.protocol import claims, decisions, keeping, machines
from lakestreams.engine.protocol.commands import LEDGER, REPLAYS, Append, Delete, Overwrite, Read, Seal, Steps, Turn


def maintain(history: History, tables: tuple[Any, ...]) -> Steps[tuple[Turn, History]]:
    """Becomes the only maintenance that may write, whichever driver runs.

    Args:
        history: what the ledger said before.
        tables: those of `sealed`: the ledger alone, in which all that counts of a maintenance stands.
    """
    turn = Turn("maintain", decisions.next_epoch(history.maintenance))
    yield from claims.claim(turn)
    yield Seal(tables, turn)
    return turn, (yield Read(LEDGER, turn))


def trim(own: machines.Pipeline, ledger: Any = LEDGER) -> Steps[None]:
    """Trims bronze while a driver runs: base, `trim` row, deletes, `trimmed` row; a crash is finished by the next one.

    Args:
        own: what is trimmed.
        ledger: the table of the ledger, as it is sealed.
    """
    history = yield Read(LEDGER)
    if not (yield from target_of(own, history)) and not decisions.unfinished(history):
        return
    turn, history = yield from maintain(history, decisions.sealed(ledger, (), ()))
    target = yield from target_of(own, history)
    if target:
        if not own.remembers or (yield from based(own, turn, history, target)):
            yield Append(
                LEDGER, ("trim", target, target), decisions.of_row("trim", target), turn, decisions.fenced("trim")
            )
        history = yield Read(LEDGER)
    target = decisions.unfinished(history)
    if (
        target
        and (not own.remembers or decisions.may_delete(target, decisions.cycle_of(history.state)))
        and (yield Delete(target))
    ):
        yield Append(
            LEDGER, ("trimmed", target, target), decisions.of_row("trimmed", target), turn, decisions.fenced("trimmed")
        )


def target_of(own: machines.Pipeline, history: History) -> Steps[int]:
    """Up to which cycle may be trimmed what is not yet; 0: nothing."""
    plans = yield Read("plans", decisions.cycle_of(history.trim))
    stored = decisions.cycle_of(history.state) if own.remembers else history.done_cycle
    return decisions.trim_target(plans, history.done_cycle, stored)


def based(own: machines.Pipeline, turn: Turn, history: History, target: int) -> Steps[bool]:
    """Stores what nodes keep as of the target, before anything is deleted that it is made of; whether that was done.

    From the last base on, which stays valid until the next one is complete.
    """
    base = history.base
    if base is not None and not (yield Read("holds", base)):
        base = None
    if base is None and history.trim is not None:
        base = yield from saved(turn, history)
        if base is None:
            return False
    for cycle in (yield Read("bronze", (decisions.cycle_of(base), target))):
        base = yield from keeping.keep(turn, "base", cycle, own.semantics, base)
        after = yield Read(LEDGER)  # a driver may have begun to build on the base before
        if not decisions.may_delete(cycle, decisions.cycle_of(after.state)):
            return False
    return decisions.cycle_of(base) >= target


def saved(turn: Turn, history: History) -> Steps[StoredState | None]:
    """A base in the place of one that is missing: what the driver has stored, copied while it is valid."""
    last = history.state
    if last is None or not (yield Read("holds", last)):
        return None
    copy = replace(last, slot=decisions.free_slot("base", history.base), marked=True)
    written: StoredState = yield Overwrite(copy, last, turn)
    after = yield Read(LEDGER)
    if after.state != last:
        return None  # its slot may have been overwritten while it was read
    yield from keeping.say(turn, "base", written)
    return written


def request() -> Steps[bool]:
    """Asks for a new attempt at what is open in quarantine; whether it was this one that did."""
    number = 0
    while True:
        newest = max((yield Read("requests")), default=0)
        number = max(number, newest) + 1
        if not (yield Read("open")):
            return False
        yield Append(REPLAYS, number, decisions.of_request(number), Turn("epoch", 0), fenced=False)
        if (yield Read("landed", number)):
            return True
