"""What a cycle costs: commits and files, counted; seconds, predicted from cycles that were measured elsewhere.

    seconds = a * new + b * retained + c * commits (+ d, if a cycle has more than a few rows and its plans are compiled)

`python -m bench.cost` measures cycles, fits a to d for each way of remembering, checks them on sizes that it did not fit,
and writes what it found beside this module. Without that file only what is counted is told. Pure: it
needs no session.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from lakestreams.costs import commits
from lakestreams.engine import pace
from lakestreams.engine.tuning import FEW
from lakestreams.topology.graph import only_looks_up, sources_of, spans_of
from lakestreams.topology.nodes import Aggregate, Source, WindowedJoin

if TYPE_CHECKING:
    from lakestreams.engine.lake import Lake
    from lakestreams.topology.builder import Topology
    from lakestreams.topology.nodes import Node

Remembers = Literal["lookups", "windows", "tables"]
"""How a pipeline remembers: rows of tables that streams look up, records in windows, tables made of tables or streams."""

FILE: Final = "reference.json"
_DAY_MS: Final = 86_400_000
_MILLION: Final = 1_000_000
_ROUNDS_OF_SEARCH: Final = 200


def remembers(topology: Topology) -> Remembers:
    """The way in which a pipeline remembers that decides what its cycles cost; windows where there are several."""
    if only_looks_up(topology.nodes):
        return "lookups"
    return "windows" if any(isinstance(node, WindowedJoin) for node in topology.nodes) else "tables"


# --- the model -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """What seconds are spent on in a round.

    Attributes:
        new: records that its cycles take.
        retained: rows of the past that they look at.
        commits: of all Delta tables.
        compiled: cycles among them whose rows are more than a few (decision 0022).
    """

    new: float
    retained: float
    commits: float
    compiled: float


@dataclass(frozen=True)
class Point:
    """A round that was measured."""

    remembers: Remembers
    work: Work
    seconds: float


@dataclass(frozen=True)
class Coefficients:
    """What each kind of work costs, in seconds."""

    per_million_new: float
    per_million_retained: float
    per_commit: float
    per_compiled: float = 0.0

    def seconds(self, work: Work) -> float:
        """What a round of this work takes."""
        return math.fsum(each * many for each, many in zip(_fields(self), _amounts(work), strict=True))


def _fields(one: Coefficients) -> tuple[float, ...]:
    return one.per_million_new, one.per_million_retained, one.per_commit, one.per_compiled


def _amounts(work: Work) -> tuple[float, ...]:
    return work.new / _MILLION, work.retained / _MILLION, work.commits, work.compiled


_NEW = 0
"""Its place among the amounts."""


def fit(points: Sequence[Point]) -> Coefficients:
    """The coefficients, none of them negative, whose relative errors have the least squares over the points.

    The best of all choices of coefficients that are not 0: with four of them every choice can be tried. New records are
    in each: where windows hold as many batches at every size, least squares may put all of their cost to what is kept, and
    a round of many records and a short window would cost nothing.

    Raises:
        ValueError: fewer points than two, or one that took no time.
    """
    if len(points) < 2 or any(one.seconds <= 0 for one in points):
        msg = f"{len(points)} points, {sum(one.seconds <= 0 for one in points)} without time, fit nothing"
        raise ValueError(msg)
    rows = [[each / one.seconds for each in _amounts(one.work)] for one in points]  # each ought to give 1
    used = [column for column in range(len(rows[0])) if any(row[column] for row in rows)]
    best, least = (0.0,) * len(rows[0]), math.inf
    for count in range(1, len(used) + 1):
        for chosen in itertools.combinations(used, count):
            if _NEW in used and _NEW not in chosen:
                continue
            found = _least_squares([[row[column] for column in chosen] for row in rows])
            if found is None or min(found) < 0:
                continue
            error = sum((1 - math.fsum(row[c] * x for c, x in zip(chosen, found, strict=True))) ** 2 for row in rows)
            if error < least - 1e-12:
                least = error
                best = tuple(dict(zip(chosen, found, strict=True)).get(column, 0.0) for column in range(len(rows[0])))
    return Coefficients(*best)


def _least_squares(rows: Sequence[Sequence[float]]) -> list[float] | None:
    """Numbers x with the least |rows * x - 1|, by the normal equations of scaled columns; None: not unique."""
    width = len(rows[0])
    scales = [math.sqrt(math.fsum(row[i] ** 2 for row in rows)) for i in range(width)]
    matrix = [
        [math.fsum(row[i] * row[j] for row in rows) / (scales[i] * scales[j]) for j in range(width)]
        + [math.fsum(row[i] for row in rows) / scales[i]]
        for i in range(width)
    ]
    for i in range(width):
        pivot = max(range(i, width), key=lambda place: abs(matrix[place][i]))
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        if abs(matrix[i][i]) < 1e-9:
            return None
        for other in range(width):
            if other != i:
                times = matrix[other][i] / matrix[i][i]
                matrix[other] = [a - times * b for a, b in zip(matrix[other], matrix[i], strict=True)]
    return [matrix[i][width] / matrix[i][i] / scales[i] for i in range(width)]


# --- where it was measured -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reference:
    """Coefficients, where they were measured, and how well they hold.

    Attributes:
        machine: cores, memory, versions.
        date, commit: when, and of what.
        coefficients: by the way of remembering.
        fitted, held_out: how many rounds they were fitted on, and how many of other sizes they were checked on.
        median_error, worst_error: relative, of the latter's sizes.
    """

    machine: str
    date: str
    commit: str
    coefficients: Mapping[Remembers, Coefficients]
    fitted: int
    held_out: int
    median_error: float
    worst_error: float

    def as_json(self) -> str:
        """The file's text."""
        return json.dumps(asdict(self), indent=2) + "\n"


def from_json(text: str) -> Reference:
    """Reads what `Reference.as_json` wrote.

    Raises:
        ValueError: it has other fields.
    """
    try:
        told = json.loads(text)
        known = {kind: Coefficients(**told["coefficients"][kind]) for kind in told["coefficients"]}
        if not known.keys() <= set(get_args(Remembers)):
            msg = f"coefficients of {sorted(known)}"
            raise ValueError(msg)
        return Reference(**{**told, "coefficients": known})
    except (KeyError, TypeError, AttributeError) as error:
        msg = f"no coefficients as bench.cost writes them: {error}"
        raise ValueError(msg) from error


def reference() -> Reference | None:
    """The coefficients that came with this release; None: it came without."""
    file = resources.files("lakestreams.costs").joinpath(FILE)
    return from_json(file.read_text(encoding="utf-8")) if file.is_file() else None


# --- prediction ------------------------------------------------------------------------------------------------------------


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
class Prediction:
    """What a load costs a pipeline, as long as every topic that is to have news has some in each round.

    Attributes:
        remembers: the way that decides which coefficients count.
        new: records a round.
        retained: rows of the past that a cycle looks at, on average.
        commits: table to its commits a round, on average.
        rounds_per_day: how many there are; where seconds are not known and rounds wait for each other, at most.
        cycle_seconds: what a cycle takes by the coefficients; None: there are none, or it never catches up.
        keeps_up: whether rounds end before the next is due, on that machine; None: there are no coefficients.
    """

    remembers: Remembers
    new: float
    retained: float
    commits: Mapping[str, float]
    rounds_per_day: float
    cycle_seconds: float | None = None
    keeps_up: bool | None = None

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
        told = (each for table, each in self.commits.items() if not table.endswith(".quarantine"))
        return math.fsum(told) * self.rounds_per_day


def predict(topology: Topology, lake: Lake, load: Load, coefficients: Coefficients | None = None) -> Prediction:
    """What a load costs.

    Args:
        topology: the pipeline.
        lake: which names its tables.
        load: what it is to do.
        coefficients: of its way of remembering; None: seconds are not told.
    """
    kind = remembers(topology)
    if coefficients is None:
        one = _round(topology, lake, load, load.every_ms)
        return Prediction(kind, one.new, one.retained, one.commits, _DAY_MS / load.every_ms if load.every_ms else 0.0)
    period, one, seconds = _settled(topology, lake, load, coefficients)
    cycles = max(1, math.ceil(one.new / load.batch))
    keeps_up = seconds * 1_000 <= load.every_ms if load.scheduled else period < _DAY_MS
    known = load.scheduled or keeps_up
    return Prediction(
        kind, one.new, one.retained, one.commits, _DAY_MS / period, seconds / cycles if known else None, keeps_up
    )


@dataclass(frozen=True)
class _Round:
    new: float
    retained: float
    commits: dict[str, float]
    work: Work


def _settled(topology: Topology, lake: Lake, load: Load, coefficients: Coefficients) -> tuple[float, _Round, float]:
    """How far apart rounds come to be in ms, such a round, and its seconds.

    Between rounds that wait for each other more comes in the longer each takes: the search ends where that is steady, or
    at a day, which says that it never is.
    """
    period = float(max(1, load.every_ms))
    for _ in range(_ROUNDS_OF_SEARCH):
        one = _round(topology, lake, load, period)
        seconds = coefficients.seconds(one.work)
        after = max(load.every_ms, seconds * 1_000) if load.scheduled else load.every_ms + seconds * 1_000
        if load.scheduled or abs(after - period) < 1 or after >= _DAY_MS:
            break
        period = after
    return (max(period, 1.0) if load.scheduled else min(after, float(_DAY_MS))), one, seconds


def _round(topology: Topology, lake: Lake, load: Load, period_ms: float) -> _Round:
    per_ms = {topic: share * load.records_per_second / 1_000 for topic, share in _shares(topology, load).items()}
    new = {topic: rate * period_ms for topic, rate in per_ms.items()}
    total = math.fsum(new.values())
    batches = max(1, math.ceil(total / load.batch))
    each = {topic: count / batches for topic, count in new.items()}
    stored_every, retained = _remembered(topology, load, each, per_ms)
    told = 1.0 if load.scheduled else 1 / math.ceil(pace.EVENTS_EVERY_S * 1_000 / max(1.0, period_ms))
    what = commits.Round(
        touched={topic for topic, count in new.items() if count > 0},
        batches=batches,
        starts=load.scheduled,
        follows=not load.scheduled and pace.follows(load.every_ms / 1_000),
        told=told,
        stored=1 / stored_every if stored_every else 0.0,
    )
    found = commits.of_round(topology, lake, what)
    many = total / batches + retained > FEW
    cycles = batches if total else 0  # a round without news looks at nothing
    work = Work(total, retained * cycles, math.fsum(found.values()), float(cycles) if many else 0.0)
    return _Round(total, retained, found, work)


def _shares(topology: Topology, load: Load) -> dict[str, float]:
    topics = [one.topic for one in topology.sources]
    given = load.shares if load.shares is not None else dict.fromkeys(topics, 1.0)
    whole = math.fsum(given.get(topic, 0.0) for topic in topics) or 1.0
    return {topic: given.get(topic, 0.0) / whole for topic in topics}


def _remembered(
    topology: Topology, load: Load, new: Mapping[str, float], per_ms: Mapping[str, float]
) -> tuple[int, float]:
    """In which cycle what is remembered is stored anew (0: never), and how many rows a cycle looks at on average.

    Args:
        topology: the pipeline.
        load: what it is to do.
        new: topic to records a cycle.
        per_ms: topic to records a millisecond.
    """
    every = load.snapshot_every
    if only_looks_up(topology.nodes):
        tables = [one for one in topology.sources if one.kind != "stream"]
        changing = {one.topic: new[one.topic] for one in tables if new[one.topic] > 0}
        due = [pace.source_stored_every(count, _rows_of(load, topic), every) for topic, count in changing.items()]
        behind = math.fsum(count * (after - 1) / 2 for count, after in zip(changing.values(), due, strict=True))
        return min(due, default=0), math.fsum(_rows_of(load, one.topic) for one in tables) + behind
    stored = math.fsum(_held(topology, load, per_ms).values())
    total = math.fsum(new.values())
    after = pace.nodes_stored_every(total, stored, every)
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
            rows = _table_rows(node if isinstance(node, Aggregate) and frame == "groups" else parent, load)
        found[name, frame] = rows
    return found


def _table_rows(node: Node, load: Load) -> float:
    if isinstance(node, Source):
        return float(_rows_of(load, node.topic))
    known = [_table_rows(parent, load) for parent in node.parents if parent.is_table]
    return max(known, default=float(load.table_rows))


def _rows_of(load: Load, topic: str) -> int:
    return load.rows.get(topic, load.table_rows)


def as_dict(one: Prediction) -> dict[str, Any]:
    """For `--json`: numbers only, without what is not known."""
    return {
        "remembers": one.remembers,
        "new_records": round(one.new),
        "retained_records": round(one.retained),
        "commits_by_table": {table: round(each, 3) for table, each in one.commits.items()},
        "commits_per_round": round(one.commits_per_round, 3),
        "rounds_per_day": round(one.rounds_per_day, 1),
        "commits_per_day": round(one.commits_per_day),
        "files_per_day_at_least": round(one.files_per_day),
        "cycle_seconds": None if one.cycle_seconds is None else round(one.cycle_seconds, 2),
        "keeps_up": one.keeps_up,
    }


__all__ = [
    "FILE", "Coefficients", "Load", "Point", "Prediction", "Reference", "Remembers", "Work", "as_dict", "fit",
    "from_json", "predict", "reference", "remembers",
]  # fmt: skip
