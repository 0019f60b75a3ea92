"""What a cycle costs: rounds of three works at many sizes, the model fitted on some and checked on the others.

`python -m bench.cost --help`. A real broker; one driver a work, whose rounds are measured one by one while what it
remembers grows. Whole sizes are held out: a round counts as one of them if its records or its state have a size that no
fitted round has. `--write` puts the coefficients into the package, table and plot into a page; `--again FILE` fits what
an earlier command kept, without measuring.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import typer
from rich.console import Console
from rich.table import Table

from bench.data import START_MS, WINDOW_MS, profiles, views
from bench.results import replace_between
from bench.versus import machine
from bench.works import WORKS
from lakestreams.costs import cost
from lakestreams.costs.cost import Coefficients, Load, Point, Reference, Remembers, Work
from lakestreams.engine.driver import Driver
from lakestreams.engine.lake import Lake
from lakestreams.engine.pace import EVENTS_EVERY_S
from lakestreams.engine.settings import RunSettings
from lakestreams.engine.tuning import FEW
from lakestreams.local.broker import Broker
from lakestreams.local.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams import Topology
    from lakestreams.engine.progress import Event

BEGIN, END = "<!-- what a cycle costs: begin -->", "<!-- what a cycle costs: end -->"
PLOT: Final = "cost.png"
NAMES: Final[dict[Remembers, str]] = {"lookups": "enrichment", "windows": "correlation", "tables": "foreign_key"}
STATE: Final[dict[Remembers, str]] = {
    "lookups": "keys",
    "windows": "batches a window",
    "tables": "keys",
}
SPAN_MS: Final = 2 * WINDOW_MS
"""How far back and ahead a windowed join looks, both together: so long a record matters."""
CUSTOMERS: Final = 10_000
PARTITIONS: Final = 4
GOOD: Final = 0.25
_EVERY_MS: Final = 300_000  # of works whose time has no meaning for what they remember
_ANY_SIZE: Final = 1 << 40  # of a batch: a round is one cycle
_COMMIT: Final = re.compile(r"\d{20}\.json")
console = Console()


@dataclass(frozen=True)
class Measured:
    """A round that was measured.

    Attributes:
        point: the work, counted, and its seconds.
        records: how many new records it was to bring; 0 where it filled the state.
        state: keys, or how many such batches a window holds.
        held_out: whether it is left out of the fit.
        counted: whether it counts at all: first rounds warm the JVM up.
        stages: seconds by stage.
    """

    point: Point
    records: int
    state: int
    held_out: bool
    counted: bool
    stages: dict[str, float]


# --- what is loaded ------------------------------------------------------------------------------------------------------


class Clock:
    """Event time of what is produced, which only goes on."""

    def __init__(self) -> None:
        self.ms = START_MS
        self.number = 0

    def pairs(self, count: int, span_ms: int) -> tuple[Iterator[tuple[Any, ...]], Iterator[tuple[Any, ...]]]:
        """Half of so many orders evenly over the next time, and payments of orders that came half a window before.

        So most orders are paid within their window; one in twenty never is.
        """
        half, first, begin = max(1, count // 2), self.number, self.ms
        lag = half * (WINDOW_MS // 2) // span_ms
        self.number, self.ms = first + half, begin + span_ms

        def orders() -> Iterator[tuple[Any, ...]]:
            for number in range(half):
                at = begin + number * span_ms // half
                yield f"order{first + number:010d}", json.dumps({"amount": number % 5_000, "ms": at}), at

        def payments() -> Iterator[tuple[Any, ...]]:
            for number in range(half):
                of, at = first + number - lag, begin + number * span_ms // half
                key = f"order{of:010d}" if of >= 0 and of % 20 else f"nobody{first + number:010d}"
                yield key, json.dumps({"method": "card", "ms": at}), at

        return orders(), payments()

    def placed(self, count: int, keys: int, *, first: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Versions of orders by foreign key: of new keys from `first` on, else of any of the keys that are there."""
        begin = self.ms
        self.ms += max(1, count // 100)
        for number in range(count):
            key = first + number if first is not None else (self.number + number) * 7_919 % keys
            body = {"customer": f"customer{(key * 31 + self.number) % CUSTOMERS:06d}", "amount": number % 5_000}
            yield f"order{key:010d}", json.dumps(body), begin + number // 100
        self.number += count

    def named(self, numbers: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        """Customers, with a name that says when."""
        for number in numbers:
            body = {"name": f"Customer {number} {self.ms}", "tier": "basic"}
            yield f"customer{number:06d}", json.dumps(body), self.ms


class Series:
    """One work whose driver stays, while what it remembers grows.

    Args:
        kind: how it remembers, which names the work.
        broker: its topics are there.
    """

    def __init__(self, kind: Remembers, broker: Broker) -> None:
        self.kind = kind
        self._broker = broker
        self._clock = Clock()
        self._keys = 0
        self._span_ms = SPAN_MS

    def fill(self, state: int, records: int) -> bool:
        """Produces what brings the state to a size; False if it has that size already."""
        if self.kind == "windows":
            self._span_ms = max(1, SPAN_MS // state)
            self._pairs(state * records, SPAN_MS)
            return True
        if self._keys >= state:
            return False
        more, self._keys = state - self._keys, state
        if self.kind == "lookups":
            self._broker.produce("profiles", _behind(profiles(state), state - more))
        else:
            if more == state:
                self._broker.produce("customers", self._clock.named(range(CUSTOMERS)))
            self._broker.produce("fk_orders", self._clock.placed(more, state, first=state - more))
        return True

    def bring(self, records: int) -> None:
        """Produces what a round is to take."""
        if self.kind == "windows":
            self._pairs(records, self._span_ms)
        elif self.kind == "lookups":
            self._broker.produce("views", views(records, self._keys))
        else:
            self._broker.produce(
                "customers", self._clock.named(range(0, CUSTOMERS, max(1, CUSTOMERS * 100 // records)))
            )
            self._broker.produce("fk_orders", self._clock.placed(records, self._keys))

    def _pairs(self, records: int, span_ms: int) -> None:
        orders, payments = self._clock.pairs(records, span_ms)
        self._broker.produce("orders", orders)
        self._broker.produce("payments", payments)

    @staticmethod
    def load(kind: Remembers, records: int, state: int) -> Load:
        """What `check --explain` is told of such rounds."""
        every = SPAN_MS // state if kind == "windows" else _EVERY_MS
        shares = {
            "lookups": {"views": 1.0}, "windows": {"orders": 1.0, "payments": 1.0},
            "tables": {"fk_orders": 0.99, "customers": 0.01},
        }[kind]  # fmt: skip
        rows = {"customers": CUSTOMERS}
        return Load(records * 1_000 / every, state, every, shares=shares, rows=rows, batch=_ANY_SIZE)


def _behind(rows: Iterator[tuple[Any, ...]], first: int) -> Iterator[tuple[Any, ...]]:
    return (row for number, row in enumerate(rows) if number >= first)


# --- measuring -----------------------------------------------------------------------------------------------------------


class Watched:
    """A driver whose rounds tell what they did."""

    def __init__(self, spark: SparkSession, topology: Topology, root: Path, servers: str) -> None:
        self._root = root
        self._work: list[tuple[int, int]] = []  # of each cycle: new records, rows of the past
        settings = RunSettings(
            kafka={"kafka.bootstrap.servers": servers, "kafka.isolation.level": "read_committed"},
            max_offsets_per_trigger=_ANY_SIZE,
        )
        self.driver = Driver(spark, topology, Lake(str(root)), settings, self._listen)
        self.driver.start()

    def _listen(self, event: Event) -> None:
        if event.kind == "planned":
            self._work.append((int(event.facts["records"]), self.driver._past.rows))  # noqa: SLF001 - what a cycle reads

    def filled(self, kind: Remembers) -> tuple[Point, dict[str, float]]:
        """A round behind which what is remembered is stored, so that every size begins with nothing to evaluate again."""
        past: Any = self.driver._past  # noqa: SLF001 - no setting changes while a driver runs
        every, past.every = past.every, 1
        try:
            return self.round(kind)
        finally:
            past.every = every

    def round(self, kind: Remembers) -> tuple[Point, dict[str, float]]:
        """Runs one round."""
        self._work.clear()
        before, stages = _commits(self._root), dict(self.driver._summary.seconds)  # noqa: SLF001
        began = time.perf_counter()
        self.driver.round()
        seconds = time.perf_counter() - began
        work = Work(
            sum(new for new, _ in self._work),
            sum(retained for _, retained in self._work),
            _commits(self._root) - before,
            sum(new + retained > FEW for new, retained in self._work),
        )
        spent = {stage: s - stages.get(stage, 0.0) for stage, s in self.driver._summary.seconds.items()}  # noqa: SLF001
        return Point(kind, work, seconds), {stage: round(s, 3) for stage, s in spent.items() if s > 0}


def _commits(root: Path) -> int:
    return sum(bool(_COMMIT.fullmatch(file.name)) for file in root.rglob("_delta_log/*.json"))


def measure(
    spark: SparkSession,
    kind: Remembers,
    records: Sequence[int],
    states: Sequence[int],
    cycles: int,
    warm: int,
    most: int,
) -> Iterator[Measured]:
    """Rounds of one work, state by state, each size up and down again, since the JVM gets faster all the while."""
    work = WORKS[NAMES[kind]]
    held = (held_out(records), held_out(states))
    with Broker(heap_mb=1024) as broker, tempfile.TemporaryDirectory(prefix="lakestreams-bench-") as folder:
        for topic in work.topics:
            broker.create_topic(topic, PARTITIONS)
        series = Series(kind, broker)
        watched = Watched(spark, work.topology(True), Path(folder, "lake"), broker.bootstrap_servers)

        def one(size: int, state: int, *, counted: bool = True) -> Measured:
            if size:
                series.bring(size)
            point, stages = watched.round(kind) if size else watched.filled(kind)
            out = size in held[0] or state in held[1]
            return Measured(point, size, state, out, counted and size > 0, stages)

        series.fill(states[0], records[0])
        yield one(0, states[0])
        for _ in range(warm):
            yield one(records[0], states[0], counted=False)
        for state in states:
            sizes = [size for size in records if kind != "windows" or size * state <= most]
            if kind == "windows":  # how much a window holds depends on the batch
                for size in sizes:
                    series.fill(state, size)
                    yield one(0, state)
                    for _ in range(cycles):
                        yield one(size, state)
                continue
            if series.fill(state, 0):
                yield one(0, state)
            for turn in range(cycles):
                for size in sizes if turn % 2 == 0 else reversed(sizes):
                    yield one(size, state)


def held_out(sizes: Sequence[int]) -> set[int]:
    """Every second size that is neither the least nor the greatest."""
    return set(sorted(sizes)[1:-1:2])


# --- fitting, and how well it holds ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """Rounds of one size beside a state of one size: medians, and by how much the model is off.

    Attributes:
        explained: what `check --explain` says of such rounds, which counts commits and rows by itself.
    """

    kind: Remembers
    records: int
    state: int
    held_out: bool
    rounds: int
    retained: float
    commits: float
    seconds: float
    predicted: float
    explained: float

    @property
    def error(self) -> float:
        return self.predicted / self.seconds - 1

    @property
    def error_explained(self) -> float:
        return self.explained / self.seconds - 1


def fitted(found: Sequence[Measured]) -> dict[Remembers, Coefficients]:
    """Coefficients of each way of remembering that has rounds, from those that are not held out."""
    made: dict[Remembers, Coefficients] = {}
    for kind in get_args(Remembers):
        points = [one.point for one in found if one.point.remembers == kind and one.counted and not one.held_out]
        if len(points) > 1:
            made[kind] = cost.fit(points)
    return made


def cells(found: Sequence[Measured], coefficients: dict[Remembers, Coefficients]) -> list[Cell]:
    """Every size that counts, in the order in which they were measured."""
    by_size: dict[tuple[Remembers, int, int], list[Measured]] = {}
    for one in found:
        if one.counted and one.point.remembers in coefficients:
            by_size.setdefault((one.point.remembers, one.records, one.state), []).append(one)
    told = []
    for (kind, records, state), rounds in by_size.items():
        known = coefficients[kind]
        works = [one.point.work for one in rounds]
        topology = WORKS[NAMES[kind]].topology(True)
        seconds = statistics.median(one.point.seconds for one in rounds)
        explained = explained_seconds(topology, Series.load(kind, records, state), known, seconds)
        told.append(
            Cell(
                kind, records, state, rounds[0].held_out, len(rounds),
                statistics.median(one.retained for one in works),
                statistics.mean(one.commits for one in works),
                seconds,
                statistics.median(known.seconds(one) for one in works),
                explained,
            )
        )  # fmt: skip
    return told


def explained_seconds(topology: Topology, load: Load, known: Coefficients, seconds: float) -> float:
    """What `check --explain` says of a run that brings as much, without two commits that a run has and a round has not.

    A driver that stays has claimed its epoch before, and writes the event log in some of its rounds only, by what they
    take.
    """
    found = cost.predict(topology, Lake("lake"), load, known).cycle_seconds or 0.0
    untold = 1 - min(1.0, seconds / EVENTS_EVERY_S)
    return found - known.per_commit * (1 + untold)


def reference(
    found: Sequence[Measured], coefficients: dict[Remembers, Coefficients], told: Sequence[Cell]
) -> Reference:
    """What is written beside the model."""
    errors = sorted(abs(one.error) for one in told if one.held_out)
    if not errors:
        msg = "no size is held out: give at least three sizes of records or of state"
        raise ValueError(msg)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    counted = [one for one in found if one.counted]
    return Reference(
        machine().split(", commit ")[0],
        time.strftime("%Y-%m-%d"),
        commit.stdout.strip() or "unknown",
        coefficients,
        sum(not one.held_out for one in counted),
        sum(one.held_out for one in counted),
        round(statistics.median(errors), 4),
        round(errors[-1], 4),
    )


# --- showing ---------------------------------------------------------------------------------------------------------------

HEADINGS: Final = (
    "remembers", "new", "state", "rows of the past", "commits", "measured, s", "model, s", "error", "`check`, s", "error",
)  # fmt: skip


def line(one: Cell) -> tuple[str, ...]:
    """A cell's row."""
    return (
        one.kind, f"{one.records:,}", f"{one.state:,} {STATE[one.kind]}", f"{one.retained:,.0f}", f"{one.commits:.1f}",
        f"{one.seconds:.2f}", f"{one.predicted:.2f}", f"{one.error:+.0%}", f"{one.explained:.2f}",
        f"{one.error_explained:+.0%}",
    )  # fmt: skip


def show(told: Sequence[Cell], coefficients: dict[Remembers, Coefficients]) -> None:
    """Coefficients, and the sizes that were held out."""
    shown = Table(title="sizes that were held out")
    for heading in HEADINGS:
        shown.add_column(heading.replace("`", ""), justify="left" if heading == HEADINGS[0] else "right")
    for one in told:
        if one.held_out:
            shown.add_row(*line(one))
    console.print(shown)
    for kind, known in coefficients.items():
        console.print(f"{kind}: {known}")
    console.print(summary(told))


def summary(told: Sequence[Cell]) -> str:
    """How many of the held-out sizes lie within a quarter."""
    out = [one for one in told if one.held_out]
    model, check = (sum(abs(error) <= GOOD for error in errors) for errors in (
        [one.error for one in out], [one.error_explained for one in out]
    ))  # fmt: skip
    return (
        f"Of {len(out)} sizes that were held out, the model is within {GOOD:.0%} at {model} with rows and commits as they "
        f"were counted, and at {check} with those that `check --explain` counts by itself."
    )


def write(page: Path, told: Sequence[Cell], known: Reference) -> None:
    """Puts the results between the page's marks, and the plot into `images` beside it.

    Raises:
        ValueError: the page has no marks.
    """
    where = f"{known.machine}, commit `{known.commit}`, {known.date}"
    units = ("remembers", "s a million new", "s a million rows of the past", "s a commit", "s a compiled cycle")
    parts = ["", f"{where}; {known.fitted} rounds fitted, {known.held_out} held out.", ""]
    parts += ["| " + " | ".join(units) + " |", "|" + "---|" * len(units)]
    parts += [
        f"| {kind} | {one.per_million_new:.1f} | {one.per_million_retained:.1f} | {one.per_commit:.2f} "
        f"| {one.per_compiled:.2f} |"
        for kind, one in known.coefficients.items()
    ]
    parts += ["", summary(told), "", f"![Predicted beside measured seconds](images/{PLOT})", ""]
    parts += ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    parts += ["| " + " | ".join(line(one)) + " |" for one in told if one.held_out]
    replace_between(page, BEGIN, END, [*parts, "", ""])
    draw(page.parent / "images" / PLOT, told)


def draw(file: Path, told: Sequence[Cell]) -> None:
    """Measured seconds against predicted ones, and how they grow with new records."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import, and few commands draw
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter  # noqa: PLC0415 - as above

    figure = Figure(figsize=(10, 4.6), layout="constrained")
    both, growth = figure.subplots(1, 2)
    colours = dict(zip(get_args(Remembers), ("#2a6f97", "#bc6c25", "#588157"), strict=True))
    ends = [min(one.seconds for one in told) / 1.5, max(one.seconds for one in told) * 1.5]
    both.fill_between(ends, [end * (1 - GOOD) for end in ends], [end * (1 + GOOD) for end in ends], color="#dddddd")
    both.plot(ends, ends, color="#888888", linewidth=0.8)
    for kind, colour in colours.items():
        own = [one for one in told if one.kind == kind]
        for out in (False, True):
            some = [one for one in own if one.held_out is out]
            label = f"{kind}, {'held out' if out else 'fitted'}"
            face = colour if out else "none"
            both.scatter(
                [one.seconds for one in some], [one.predicted for one in some], s=28, facecolor=face, edgecolor=colour,
                label=label,
            )  # fmt: skip
        for state in sorted({one.state for one in own}):
            some = sorted((one for one in own if one.state == state), key=lambda one: one.records)
            xs = [one.records for one in some]
            growth.plot(xs, [one.predicted for one in some], color=colour, linewidth=0.8)
            growth.scatter(xs, [one.seconds for one in some], s=14, color=colour)
    both.set(xscale="log", yscale="log", xlabel="measured, s", ylabel="model, s", title=f"within {GOOD:.0%}")
    both.legend(fontsize=7)
    growth.set(xscale="log", yscale="log", xlabel="new records a round", ylabel="s", title="a line a state: the model")
    for axis in (both.xaxis, both.yaxis, growth.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())
    for place in (both, growth):
        place.spines[["top", "right"]].set_visible(False)
    file.parent.mkdir(exist_ok=True)
    figure.savefig(file, dpi=110)


# --- the command -------------------------------------------------------------------------------------------------------------


def keep(file: Path, found: Sequence[Measured]) -> None:
    """Writes every round."""
    file.write_text(json.dumps([asdict(one) for one in found], indent=1), encoding="utf-8")


def kept(file: Path) -> list[Measured]:
    """Reads what `keep` wrote."""
    rounds = json.loads(file.read_text(encoding="utf-8"))
    return [
        Measured(**{**one, "point": Point(**{**one["point"], "work": Work(**one["point"]["work"])})}) for one in rounds
    ]


def _sizes(text: str) -> list[int]:
    return sorted({int(float(size)) for size in text.split(",") if size})


def main(
    works: Annotated[str, typer.Option(help="ways of remembering, joined by commas")] = ",".join(get_args(Remembers)),
    records: Annotated[str, typer.Option(help="new records a round")] = "1000,10000,50000,200000",
    keys: Annotated[str, typer.Option(help="keys of the tables")] = "10000,50000,200000",
    windows: Annotated[str, typer.Option(help="how many batches a window holds")] = "1,4,10",
    most: Annotated[int, typer.Option(help="records that windows hold at most; larger sizes are left out")] = 500_000,
    cycles: Annotated[int, typer.Option(help="rounds of each size")] = 2,
    warm: Annotated[int, typer.Option(help="rounds of each work that are not counted")] = 4,
    memory: Annotated[str, typer.Option(help="heap of Spark's JVM")] = "6g",
    keep_in: Annotated[Path | None, typer.Option("--keep", help="file that gets every round as JSON")] = None,
    again: Annotated[Path | None, typer.Option(help="fit these rounds, and measure none")] = None,
    write_to: Annotated[Path | None, typer.Option("--page", help="page that gets table and plot")] = None,
    package: Annotated[bool, typer.Option("--write", help="put the coefficients into the package")] = False,
) -> None:
    """Measures what cycles cost, fits the model and checks it."""
    found = kept(again) if again is not None else []
    if again is None:
        spark = spark_session("lakestreams-bench", memory=memory)
        began = time.perf_counter()
        for kind in (one for one in get_args(Remembers) if one in works.split(",")):
            states = _sizes(windows if kind == "windows" else keys)
            for one in measure(spark, kind, _sizes(records), states, cycles, warm, most):
                found.append(one)
                _tell(one, time.perf_counter() - began)
                if keep_in is not None:
                    keep(keep_in, found)
        spark.stop()
    coefficients = fitted(found)
    told = cells(found, coefficients)
    show(told, coefficients)
    known = reference(found, coefficients, told)
    if package:
        file = Path(cost.__file__).with_name(cost.FILE)
        file.write_text(known.as_json(), encoding="utf-8")
        console.print(f"written: {file.name}")
    if write_to is not None:
        write(write_to, told, known)
        console.print(f"written: {write_to} and {PLOT}")


def _tell(one: Measured, elapsed: float) -> None:
    work = one.point.work
    what = "fill" if not one.records else "held out" if one.held_out else "fitted" if one.counted else "warm-up"
    console.print(
        f"{elapsed:6.0f} s  {one.point.remembers} {what}: state {one.state:,}, {work.new:,.0f} new, "
        f"{work.retained:,.0f} of the past, {work.commits:.0f} commits: {one.point.seconds:.2f} s"
    )


if __name__ == "__main__":
    typer.run(main)
