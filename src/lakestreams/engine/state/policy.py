"""When a driver does what it does not do in every cycle: stores what it remembers, tells the event log.

Pure: the engine asks here with what it has counted, `costs` with what is expected.
"""

from __future__ import annotations

from typing import Final

WORTH_STORING: Final = 200_000
"""Below so many records evaluated again since the last storing, storing costs more than it saves."""

EVENTS_EVERY_S: Final = 30.0
"""How far apart commits of the event log are while rounds follow each other: one costs as much as others of a cycle."""

FOLLOWS_WITHIN_S: Final = 1.0
"""Where the next round begins so soon, its plan closes the last cycle of this one: a commit less a round. If it were longer
open, more crashes would meet a cycle that is out and not closed, which no other configuration may go on from."""

_WORTH_FOLDING: Final = 10_000


def follows(again_in_s: float | None) -> bool:
    """Whether the next round begins so soon that its plan may close the last cycle of this one; None: nobody knows of a next."""
    return again_in_s is not None and again_in_s <= FOLLOWS_WITHIN_S


def nodes_due(cycles: int, again: float, records: float, stored_rows: float, every: int) -> bool:
    """Whether what the nodes keep is to be stored behind a cycle: evaluating those since cost about as much as storing.

    Args:
        cycles: how many lie behind what is stored, this one among them.
        again: records of earlier ones that were evaluated once more since.
        records: of this one.
        stored_rows: how many rows are stored.
        every: the most cycles.
    """
    return cycles >= every or again + records >= max(stored_rows, WORTH_STORING)


def source_due(cycles: int, changes: float, snapshot_rows: float, every: int) -> bool:
    """Whether a table source's changes behind its snapshot are worth folding in.

    Args:
        cycles: how many have brought changes since.
        changes: how many that are.
        snapshot_rows: how many rows the snapshot has.
        every: the most cycles.
    """
    return cycles >= every or changes > max(_WORTH_FOLDING, snapshot_rows // 4)


def nodes_stored_every(records: float, stored_rows: float, every: int) -> int:
    """In which cycle after a storing the next one is due, if each brings so many records."""
    again = 0.0
    for cycles in range(1, every + 1):
        again += (cycles - 1) * records
        if nodes_due(cycles, again, records, stored_rows, every):
            return cycles
    return max(1, every)


def source_stored_every(changes: float, snapshot_rows: float, every: int) -> int:
    """In which cycle after a folding the next one is due, if each brings so many changes."""
    for cycles in range(1, every + 1):
        if source_due(cycles, cycles * changes, snapshot_rows, every):
            return cycles
    return max(1, every)


__all__ = [
    "EVENTS_EVERY_S", "FOLLOWS_WITHIN_S", "WORTH_STORING", "follows", "nodes_due", "nodes_stored_every", "source_due",
    "source_stored_every",
]  # fmt: skip
