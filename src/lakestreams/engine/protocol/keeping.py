"""What nodes keep of the past: stored where nothing valid lies, said in the ledger, and found again (decisions 0012, 0015).

Carried out by a driver (`engine.state.operator_state`) and by maintenance (`maintenance.trimming`).
"""

from __future__ import annotations

from typing import Literal

from lakestreams.engine.ledger.plans import History, StoredState
from lakestreams.engine.protocol import decisions
from lakestreams.engine.protocol.commands import LEDGER, Append, Overwrite, Read, Steps, Stop, Turn

Kept = Literal["state", "base"]


def keep(turn: Turn, kind: Kept, cycle: int, semantics: str, since: StoredState | None) -> Steps[StoredState]:
    """Stores what nodes keep as of a finished cycle where nothing valid lies, and then says so.

    Args:
        turn: who writes.
        kind: `state` of a driver, `base` of maintenance.
        cycle: as of its end.
        semantics: the fingerprint of what decides what they keep.
        since: what is valid until then, of which it is made.
    """
    stored: StoredState = yield Overwrite(free_place(kind, cycle, semantics, since), since, turn)
    yield from say(turn, kind, stored)
    return stored


def begin(turn: Turn, cycle: int, semantics: str, since: StoredState | None) -> Steps[None]:
    """Begins to store what nodes keep as of a cycle whose results are being published; `stored` says so when it is finished.

    Nobody reads the place until then, and the plan is in the ledger: after a crash the same cycle is stored again.
    """
    yield Overwrite(free_place("state", cycle, semantics, since), since, turn, pending=True)


def stored(turn: Turn, cycle: int, semantics: str, since: StoredState | None) -> Steps[StoredState]:
    """Says that a cycle is finished whose place `begin` has filled."""
    place = free_place("state", cycle, semantics, since)
    yield from say(turn, "state", place)
    return place


def free_place(kind: Kept, cycle: int, semantics: str, since: StoredState | None) -> StoredState:
    """Where nothing valid lies."""
    return StoredState(cycle, semantics, decisions.free_slot(kind, since), 0, (), marked=True)


def say(turn: Turn, kind: Kept, stored: StoredState) -> Steps[None]:
    """Says in the ledger where what nodes keep lies from now on."""
    known = decisions.of_stored(kind, turn.epoch, stored.cycle)
    yield Append(LEDGER, (kind, stored.cycle, stored), known, turn, decisions.fenced(kind))


def stand(turn: Turn, history: History, semantics: str) -> Steps[StoredState | None]:
    """What a driver builds on: what was stored last, else the base; None where nothing was ever stored.

    Maintenance at the same time trims up to what the newest `state` row has and no further. So whatever else is built on is said
    there first, and only then it is looked once more whether that still holds.
    """
    last = history.state
    if last is None and history.trim is None:
        return None
    if decisions.reaches(history.trim, last) and (yield Read("holds", last)):
        return last
    while True:
        history = yield Read(LEDGER)
        base = history.base if history.trim is not None else StoredState(0, semantics, "", 0, ())
        if history.trim is not None and not (decisions.reaches(history.trim, base) and (yield Read("holds", base))):
            message = "what nodes keep is missing, and bronze is trimmed"
            raise Stop("LS510", message)
        assert base is not None  # noqa: S101 - for mypy: it reaches, or is the beginning
        yield from say(turn, "state", base)
        after = yield Read(LEDGER)
        if decisions.holds_still(history, after):
            return base
