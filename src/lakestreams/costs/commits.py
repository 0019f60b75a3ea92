"""Which Delta tables a round writes to, and in how many commits: counted from the topology alone, without a session.

A commit costs about the same however few rows it brings, so they are what a small cycle's time is made of, and what a
bill for storage requests counts. `tests/costs/test_commits.py` compares these numbers with the logs of real rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lakestreams.topology.expectations import FanOut, OneOutcomePerLeft
from lakestreams.topology.graph import (
    is_derived,
    is_rekeyed,
    keeps_null_keys,
    lets_out_before,
    may_delete,
    only_looks_up,
    sources_of,
    triggers_of,
)
from lakestreams.topology.joins import Join
from lakestreams.topology.old_values import quiet_filters, remembers_rows

if TYPE_CHECKING:
    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.node import Node
    from lakestreams.topology.topology import Topology

ANY: Final = "*"
"""In a table's name: what stands for each of several tables, one a frame that nodes keep, in one of two slots."""


@dataclass(frozen=True)
class Round:
    """What happens in a round. Shares (0 to 1) may stand for what happens in some rounds only.

    Attributes:
        touched: topics with news; None: every one.
        batches: how many batches ingest needs, each with news of every such topic and with a cycle of its own.
        starts: whether a driver takes the pipeline over, as in each run of a scheduled job.
        follows: whether the next round begins so soon that its plan closes this one's last cycle (`state.policy`).
        logged: the share of rounds that write the event log.
        stored: the share of cycles behind which is stored what is remembered (`state.policy`).
        refused: whether a source or step refuses some record, or has one that lies so far behind that it might.
        orphaned: whether a row that names none comes or goes, where that is listed.
    """

    touched: Collection[str] | None = None
    batches: int = 1
    starts: bool = False
    follows: bool = False
    logged: float = 1.0
    stored: float = 0.0
    refused: bool = False
    orphaned: bool = False


def of_round(topology: Topology, lake: Lake, what: Round) -> dict[str, float]:
    """Table to its commits in a round, in the order in which they are first written; no table without one.

    Args:
        lake: which names the tables.
        what: the round.
    """
    touched = [one for one in topology.sources if what.touched is None or one.topic in what.touched]
    batches = what.batches if any(one.delta is None for one in touched) else 0
    cycles = (batches or 1) if touched else 0  # Delta tables come in one batch, before Kafka's, with no cycle between
    found: dict[str, float] = {}

    def add(table: str, commits: float) -> None:
        if commits:
            found[table] = found.get(table, 0.0) + commits

    ledger = lake.control("ledger").name
    if what.starts:
        add(ledger, 2)  # the claim, and that the run has ended: so the next one has nobody to stop
        add(lake.control("epochs").name, 1)
    # a row that closes each batch: the last one's comes with its plan, the others' may
    add(ledger, max(0, batches - 1) + any(one.delta is not None for one in touched))
    for source in touched:
        add(lake.bronze(topology.name, source.topic).name, 1 if source.delta is not None else batches)
    closes = bool(cycles) and (not what.follows or bool(topology.kafka_sinks))
    add(ledger, cycles + closes)  # the plans, and that the last one is done
    names = {one.name for one in touched}
    for sink in topology.sinks:
        if names & {one.name for one in triggers_of(sink)}:
            add(lake.output(sink.name).name, cycles)
    if what.refused or quarantines_always(topology, names):
        add(lake.control("quarantine").name, cycles)
    if what.orphaned:
        add(lake.control("orphans").name, cycles)
    _stored(topology, lake, touched, what.stored * cycles, add)
    add(lake.control("events").name, what.logged if cycles else 0)
    return found


def _stored(
    topology: Topology, lake: Lake, touched: Collection[Source], times: float, add: Callable[[str, float], None]
) -> None:
    if only_looks_up(topology.nodes):
        for source in touched:
            if source.kind != "stream":
                add(lake.snapshot(topology.name, source.topic).name, times)
    elif touched:
        add(lake.state(topology.name, ANY).name, times * len(frames(topology)))
        add(lake.control("ledger").name, times)  # the row that says which slot holds from now on


def frames(topology: Topology) -> list[tuple[str, str]]:
    """Node and name of every frame that is kept of the past; none where streams only look tables up."""
    if only_looks_up(topology.nodes):
        return []
    counted = {name for name, what in topology.expectations.invariants if isinstance(what, FanOut | OneOutcomePerLeft)}
    quiet = quiet_filters(topology.nodes)
    return [
        (node.name, name)
        for node in topology.nodes
        for name in (*_kept(node, quiet), *(("outcomes",) if isinstance(node, Join) and node.name in counted else ()))
    ]


def _kept(node: Node, quiet: Collection[str]) -> tuple[str, ...]:
    """What a node keeps, by the names under which its kernel does; `quiet` are the filters that compare with the past."""
    if node.filters and not (node.name in quiet and remembers_rows(node)):
        return ()
    return node.state_names


# --- quarantine --------------------------------------------------------------------------------------------------------


def quarantines_always(topology: Topology, touched: Collection[str]) -> bool:
    """Whether every cycle asks its steps what they refused, since the counts of a plan cannot tell that it is nothing.

    Args:
        touched: names of the sources with news.
    """
    raw = not only_looks_up(topology.nodes)
    return any(
        _cannot_tell(node, topology, raw=raw)
        for node in topology.nodes
        if {one.name for one in sources_of(node)} & set(touched)
    )


def _cannot_tell(node: Node, topology: Topology, *, raw: bool) -> bool:
    """The reasons of `quarantine` that depend on more than on how many null keys and late records a plan counted."""
    if lets_out_before(node):
        return False  # what it refuses is looked up first, and written only where there is any
    if node.refuses_late and any(is_derived(parent) for parent in node.parents):
        return True  # what a join made may be of any age
    if _refuses_null_keys(node, topology, raw=raw) and is_rekeyed(node):
        return True
    return node.refuses_null_values(raw=raw) and may_delete(node)


def _refuses_null_keys(node: Node, topology: Topology, *, raw: bool) -> bool:
    if node.refuses_unused_null_keys:
        return not keeps_null_keys(node, topology.nodes)
    return node.refuses_null_keys(raw=raw)


__all__ = ["ANY", "Round", "frames", "of_round", "quarantines_always"]
