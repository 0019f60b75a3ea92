"""How a pipeline changes hands: claim, raise, seal, and only then read; at last the word that a run has ended.

The engine carries out `claim` and `take_over` with Spark (`engine.takeover.claiming`), and `end` at a run's end (`engine.driver`).
"""

from __future__ import annotations

from typing import Any

from lakestreams.engine.ledger.plans import History
from lakestreams.engine.protocol import decisions
from lakestreams.engine.protocol.commands import LEDGER, Append, Raise, Read, Seal, Steps, Stop, Turn


def claim(turn: Turn, row: Any = None) -> Steps[None]:
    """Becomes the only one of a role that may write.

    The ledger decides; the table of epochs is what fences look at.
    """
    written = yield Append(
        LEDGER, (turn.role, turn.epoch, row), decisions.of_claim(turn), turn, decisions.fenced(turn.role)
    )
    existing = None if written else (yield Read("claim", turn))
    if not decisions.is_own(written=written, existing=existing, mine=turn.epoch):
        message = f"another one of this role claimed epoch {turn.epoch} at the same moment"
        raise Stop("LS503", message)
    yield Raise(turn)


def take_over(history: History, tables: tuple[Any, ...], row: Any = None) -> Steps[tuple[Turn, History]]:
    """Takes a pipeline over: whatever is read behind this, no older driver adds to it (decision 0002).

    Args:
        history: what the ledger said before.
        tables: those of `sealed`; none where the pipeline is quiet.
        row: what the claim says besides.
    """
    turn = Turn("epoch", decisions.next_epoch(history.epoch))
    yield from claim(turn, row)
    if not decisions.is_first(history):
        if tables:
            yield Seal(tables, turn)
        history = yield Read(LEDGER, turn)
    return turn, history


def end(turn: Turn) -> Steps[None]:
    """Says that the run has ended, behind all that it wrote: whoever comes next has nobody to stop."""
    yield Append(
        LEDGER, ("ended", turn.epoch, None), decisions.of_said("ended", turn.epoch), turn, decisions.fenced("ended")
    )
