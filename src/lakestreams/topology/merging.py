"""Which streams can be written by record: one row for each record of the source, replaced by later results of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakestreams.topology.node import Node


def merge_fault(written: Node) -> str | None:
    """Why a stream cannot be merged by record; None if it can.

    Each row is its record's last result: that takes a join that amends, and order behind it. Where a record has several
    rows, or its results can overtake each other, the last one is not the one that holds.
    """
    way: list[Node] = []
    node = written
    while node.at_most_one:
        way.append(node)
        node = node.parents[0]
    amending = [one for one in way if one.amends]
    if node.parents:
        return f"a record may have several rows in {written.name}, since {node.name} is a {node.word}"
    if not amending:
        return f"no later result replaces a row of {written.name}: no join before it amends"
    if len(amending) > 1:
        names = " and ".join(one.name for one in reversed(amending))
        return f"{names} both amend: the last result of a record need not be the one that knows most"
    waits = [one.name for one in way[: way.index(amending[0])] if one.waits]
    if waits:
        return f"{waits[0]} waits behind {amending[0].name}: a record's results may come out in another order"
    return None
