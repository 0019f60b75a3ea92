"""What a load costs a pipeline: Delta commits and data files, counted from its topology. Pure: it needs no session.

Seconds are not predicted: what a pipeline's cycles took is in its event log (decision 0036).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from lakestreams.costs import commits
from lakestreams.engine.state import policy
from lakestreams.topology.endpoints import Source
from lakestreams.topology.graph import only_looks_up, sources_of, spans_of

if TYPE_CHECKING:
    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.topology.node import Node
    from lakestreams.topology.topology import Topology

_DAY_MS: Final = 86_400_000


@dataclass(frozen=True)
class Load:
    """What a pipeline is to do.

    Attributes:
        records_per_second: of all its topics together.
        table_rows: live keys of each table source.
        every_ms: how far apart the starts of two runs are, or how long a driver waits between two rounds.
        scheduled: whether each round is a run of its own, which takes the pipeline over.
        shares: topic to its share of the records, 0 for one without news; by default all the same.
        rows: table source's topic to its live keys, where they are others than `table_rows`.
        batch: the setting `max_offsets_per_trigger`.
        snapshot_every: the setting of this name.
    """

    records_per_second: float = 1_000.0
    table_rows: int = 100_000
    every_ms: int = 300_000
    scheduled: bool = True
    shares: Mapping[str, float] | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    batch: int = 1_000_000
    snapshot_every: int = 16


@dataclass(frozen=True)
class Counts:
    """What a load costs a pipeline, as long as every topic that is to have news has some in each round.

    Attributes:
        new: records a round.
        retained: rows of the past that a cycle looks at, on average.
        commits: table to its commits a round, on average.
        rounds_per_day: how many there are; where rounds wait for each other, at most.
    """

    new: float
    retained: float
    commits: Mapping[str, float]
    rounds_per_day: float

    @property
    def commits_per_round(self) -> float:
        """Of all tables."""
        return math.fsum(self.commits.values())

    @property
    def commits_per_day(self) -> float:
        """Of all tables."""
        return self.commits_per_round * self.rounds_per_day

    @property
    def files_per_day(self) -> float:
        """Data files that are written, at least: one a commit, while a stage is one task; quarantine may bring no row."""
        written = (each for table, each in self.commits.items() if not table.endswith(".quarantine"))
        return math.fsum(written) * self.rounds_per_day


def count(topology: Topology, lake: Lake, load: Load) -> Counts:
    """Counts what a load costs.

    Args:
        lake: which names its tables.
    """
    period_ms = float(load.every_ms)
    per_ms = {topic: share * load.records_per_second / 1_000 for topic, share in _shares(topology, load).items()}
    new = {topic: rate * period_ms for topic, rate in per_ms.items()}
    total = math.fsum(new.values())
    batches = max(1, math.ceil(total / load.batch))
    each = {topic: records / batches for topic, records in new.items()}
    stored_every, retained = _remembered(topology, load, each, per_ms)
    what = commits.Round(
        touched={topic for topic, records in new.items() if records > 0},
        batches=batches,
        starts=load.scheduled,
        follows=not load.scheduled and policy.follows(load.every_ms / 1_000),
        logged=1.0 if load.scheduled else 1 / math.ceil(policy.EVENTS_EVERY_S * 1_000 / max(1.0, period_ms)),
        stored=1 / stored_every if stored_every else 0.0,
    )
    rounds = _DAY_MS / load.every_ms if load.every_ms else 0.0
    return Counts(total, retained, commits.of_round(topology, lake, what), rounds)


def _shares(topology: Topology, load: Load) -> dict[str, float]:
    topics = [one.topic for one in topology.sources]
    given = load.shares if load.shares is not None else dict.fromkeys(topics, 1.0)
    whole = math.fsum(given.get(topic, 0.0) for topic in topics) or 1.0
    return {topic: given.get(topic, 0.0) / whole for topic in topics}


def _remembered(
    topology: Topology, load: Load, new: Mapping[str, float], per_ms: Mapping[str, float]
) -> tuple[int, float]:
    """In which cycle what is remembered is stored again (0: never), and how many rows a cycle looks at on average.

    Args:
        new: topic to records a cycle.
        per_ms: topic to records a millisecond.
    """
    every = load.snapshot_every
    if only_looks_up(topology.nodes):
        tables = [one for one in topology.sources if one.kind != "stream"]
        changing = {one.topic: new[one.topic] for one in tables if new[one.topic] > 0}
        due = [policy.source_stored_every(count, _rows_of(load, topic), every) for topic, count in changing.items()]
        behind = math.fsum(count * (after - 1) / 2 for count, after in zip(changing.values(), due, strict=True))
        return min(due, default=0), math.fsum(_rows_of(load, one.topic) for one in tables) + behind
    stored = math.fsum(_held(topology, load, per_ms).values())
    total = math.fsum(new.values())
    after = policy.nodes_stored_every(total, stored, every)
    return after, stored + total * (after - 1) / 2


def _held(topology: Topology, load: Load, per_ms: Mapping[str, float]) -> dict[tuple[str, str], float]:
    """Rows of each frame that nodes keep, at most: what lies in windows, a row a key of tables."""
    spans = {node.name: span for node, _, span in spans_of(topology.nodes)}
    nodes = {node.name: node for node in topology.nodes}
    found = {}
    for name, frame in commits.frames(topology):
        node, span = nodes[name], spans.get(name)
        parent = node.parents[-1] if frame in ("right", "table", "versions") else node.parents[0]
        if frame in ("clocks", "outcomes"):
            rows = 0.0  # a row a task; a row a record that lies in another frame
        elif span is not None:
            rows = span * math.fsum(per_ms[one.topic] for one in sources_of(parent))
        elif frame == "points":
            rows = 0.0  # those that wait: as many as find no row
        else:
            rows = _table_rows(node if frame == "groups" else parent, load)
        found[name, frame] = rows
    return found


def _table_rows(node: Node, load: Load) -> float:
    if isinstance(node, Source):
        return float(_rows_of(load, node.topic))
    known = [_table_rows(parent, load) for parent in node.parents if parent.is_table]
    return max(known, default=float(load.table_rows))


def _rows_of(load: Load, topic: str) -> int:
    return load.rows.get(topic, load.table_rows)


def as_dict(one: Counts) -> dict[str, Any]:
    """For `--json`: numbers only."""
    return {
        "new_records": round(one.new),
        "retained_records": round(one.retained),
        "commits_by_table": {table: round(each, 3) for table, each in one.commits.items()},
        "commits_per_round": round(one.commits_per_round, 3),
        "rounds_per_day": round(one.rounds_per_day, 1),
        "commits_per_day": round(one.commits_per_day),
        "files_per_day_at_least": round(one.files_per_day),
    }


__all__ = ["Counts", "Load", "as_dict", "count"]
