"""What a start decides of tables that others may have changed (decision 0031)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lakestreams.engine.ledger.plans import History, KnownTable
from lakestreams.engine.protocol.commands import Stop


@dataclass(frozen=True)
class Look:
    """A table as a start finds it.

    Attributes:
        name: which one.
        table_id: Delta's id of it; "": it is missing.
        version: its newest one.
        changed: whether its commits since the last claim tell that others have changed it.
        written_by: the newest epoch that it shows.
        cycle: the newest cycle that it shows.
        has_records: whether it is bronze, and not empty.
    """

    name: str
    table_id: str
    version: int
    changed: bool = False
    written_by: int = 0
    cycle: int = 0
    has_records: bool = False

    @property
    def known(self) -> KnownTable:
        """What the claim says of it."""
        return KnownTable(self.table_id, self.version)


def table_fault(
    known: KnownTable | None, table_id: str, version: int
) -> Literal["deleted", "replaced", "put back"] | None:
    """What is wrong with a table by id and version; None: nothing, and its commits are looked at.

    Args:
        known: what the newest claim says of it; None: nothing.
        table_id: Delta's; "": the table is missing.
        version: its newest one.
    """
    if known is None:
        return None
    if not table_id:
        return "deleted"
    if table_id != known.table_id:
        return "replaced"
    return "put back" if version < known.version else None


def ledger_lost(history: History, *, written_by: int, cycle: int, has_records: bool) -> bool:
    """Whether a table shows a later epoch or cycle than the ledger knows, or records of which it knows nothing.

    Args:
        history: what the ledger knows.
        written_by: the newest epoch that the table shows: one that has sealed it, or appended to it.
        cycle: the newest one that has written to the table; its plan was in the ledger before.
        has_records: whether it is bronze, and not empty.
    """
    planned = history.plan.cycle if history.plan is not None else 0
    return written_by > history.epoch or cycle > planned or (has_records and not history.epoch)


def require_unchanged(history: History, looks: Sequence[Look]) -> None:
    """Refuses tables that others have changed, before anything is written."""
    for one in looks:
        if ledger_lost(history, written_by=one.written_by, cycle=one.cycle, has_records=one.has_records):
            code, message = "LS516", f"the ledger lacks what {one.name} has"
            raise Stop(code, message)
        fault = table_fault(history.tables.get(one.name), one.table_id, one.version)
        if fault is not None or one.changed:
            code, message = "LS514", f"{one.name} is {fault or 'changed'}"
            raise Stop(code, message)
