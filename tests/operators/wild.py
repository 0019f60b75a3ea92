"""Random histories of two topics with several partitions, and what the kernels and the reference make of them.

Hundreds of histories of one topology share its Spark jobs, and each is there several times: whole in the first step,
and cut at random places. A setting is a topology with the page of `tests/reference` that says what it gives.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.reference.records import STREAM, TABLE, Join, Record, Result

from lakestreams.engine.publish.quarantine import NO_PARTNER, NULL_KEY, NULL_VALUE
from lakestreams.testing.difference import difference
from lakestreams.testing.histories import CLOCK, Histories, Piped

if TYPE_CHECKING:
    from pyspark.sql import Column, Row, SparkSession

    from lakestreams import Topology

JOIN, OUTPUT = "joined", "out"
LATE = "LATE"
MOST_PARTITIONS = 4
FAR = 1_000_000  # ms; when everything that still waits comes out
_AT_ONCE = 12  # settings whose rows are collected by one job


# --- histories -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Event:
    """A record of `left` or `right`; a value has a text, which may be null, and the key it points `to`.

    Of the source `CLOCK`: time goes on to `ts`.
    """

    source: str
    partition: int
    ts: int
    key: str | None
    value: Mapping[str, str | None] | None


@dataclass(frozen=True)
class History:
    """Events of both topics in the order of arrival, and how many partitions each topic has."""

    events: tuple[Event, ...]
    counts: Mapping[str, int] = field(default_factory=lambda: {"left": 1, "right": 1})

    def shown(self) -> str:
        """As text that a test can be made of."""
        lines = [
            f"    {one.source} p{one.partition} @{one.ts} {one.key!r}: {json.dumps(one.value)}" for one in self.events
        ]
        return "\n".join([f"partitions {dict(self.counts)}", *lines])


@dataclass(frozen=True)
class Wild:
    """How random histories are made.

    Attributes:
        counts: partitions of each topic; None: 1 to 4, both the same.
        strays: whether a key may lie in two partitions of one topic.
        closing: whether records far in the future come last, one a task, so that nothing waits at the end.
        ticks: whether time also goes on by itself; of one partition only.
    """

    counts: Mapping[str, int] | None = None
    strays: bool = False
    closing: bool = True
    ticks: bool = False

    def histories(self, count: int, seed: object) -> list[History]:
        """So many histories of a seed."""
        return [self._history(random.Random(f"{seed}/{number}")) for number in range(count)]

    def _history(self, rng: random.Random) -> History:
        same = rng.randint(1, MOST_PARTITIONS)
        counts = self.counts or {"left": same, "right": same}
        keys = rng.sample(["a", "b", "c", "dd", "é", ""], rng.choice([1, 2, 3, 4]))
        skews = [rng.choice([0, 0, 4, 30]) for _ in range(MOST_PARTITIONS)]
        idle = rng.choice([None, *range(same)])
        now, events = 0, []
        for place in range(rng.randint(4, 26)):
            now += rng.choice([0, 0, 1, 3, 8])
            if self.ticks and rng.random() < 0.15:
                events.append(Event(CLOCK, 0, now + rng.choice([0, 3, 9]), None, None))
                continue
            source = rng.choice(["left", "right"])
            key = None if rng.random() < 0.06 else rng.choice(keys)
            partition = home(key, counts[source])
            if key is None or (self.strays and rng.random() < 0.2):
                partition = rng.randrange(counts[source])
            if partition == idle and place > 3:
                continue
            ts = max(0, now + skews[partition] - rng.choice([0, 0, 0, 1, 2, 6]))
            events.append(Event(source, partition, ts, key, _value(rng, source, place, keys)))
        return self.closed(History(tuple(events), counts))

    def closed(self, history: History) -> History:
        """With the records that let everything out."""
        return replace(history, events=(*history.events, *closing(history.counts))) if self.closing else history


def _value(rng: random.Random, source: str, place: int, keys: Sequence[str]) -> dict[str, str | None] | None:
    if rng.random() < 0.15:
        return None
    text = None if rng.random() < 0.1 else f"{source[0]}{place}"
    return {"a": text, "to": rng.choice([*keys, *keys, *keys, None, "x"])}


def closing(counts: Mapping[str, int]) -> list[Event]:
    """A left record for each task, whichever of both topics' partitions they are counted by."""
    found = []
    for task in range(max(counts.values())):
        key = next(key for key in map("closing{}".format, range(1000)) if home(key, max(counts.values())) == task)
        partition = task % counts["left"]
        found.append(Event("left", partition, FAR, key, {"a": "closing", "to": key}))
    return found


def home(key: str | None, count: int) -> int:
    """The partition that Kafka's default partitioner gives a text key; 0 for a null one."""
    return 0 if key is None else (murmur2(key.encode()) & 0x7FFFFFFF) % count


def murmur2(data: bytes) -> int:
    """Kafka's `Utils.murmur2` (semantics section 9), unsigned."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    if len(data) > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


# --- settings --------------------------------------------------------------------------------------------------------

Move = Callable[[Event], "tuple[str | None, int]"]  # the new key of a left record, and its task


@dataclass(frozen=True)
class Setting:
    """A topology with sources `left` and `right`, a join named `joined`, one output; and its page.

    Attributes:
        name: what tests and failures call it.
        topology: it.
        page: makes the reference's join.
        tables: which sources are tables.
        rekeyed: source to the count of tasks that its records are spread over by their value's `to`, their new key.
        moved: source to the count of tasks that its records are spread over by their own key.
        outcomes: whether each left record has exactly one fate.
        composite: whether keys have two columns: the first letter, and what follows it or null.
    """

    name: str
    topology: Topology
    page: Callable[[], Join]
    tables: tuple[str, ...] = ()
    rekeyed: Mapping[str, int] = field(default_factory=dict)
    moved: Mapping[str, int] = field(default_factory=dict)
    outcomes: bool = False
    composite: bool = False

    def key(self, key: str | None) -> bytes | None:
        """A key's bytes."""
        if key is None or not self.composite:
            return None if key is None else key.encode()
        return json.dumps({"k": key[:1], "m": key[1:] or None}).encode()

    def text(self) -> Column:
        """The key of a row as it stands in a history."""
        if not self.composite:
            return F.col("k")["k"]
        key = F.concat(F.col("k")["k"], F.coalesce(F.col("k")["m"], F.lit("")))
        return F.when(F.col("k").isNotNull(), key)

    def record(self, place: int, event: Event, stream_time: int) -> Record:
        """An event as the reference takes it; the offset is its place."""
        side = TABLE if event.source in self.tables else STREAM
        key, task = event.key, None
        if event.source in self.rekeyed:
            key = None if event.value is None else event.value["to"]
        count = self.rekeyed.get(event.source, self.moved.get(event.source))
        if count is not None:
            task = event.partition % count if key is None else home(key, count)
        return Record(event.source, event.partition, place, event.ts, key, event.value, side, task, stream_time)


# --- outcomes --------------------------------------------------------------------------------------------------------

HEAD = ("cause", "key", "left", "right", "time", "kind", "made of")


@dataclass
class Outcome:
    """What came out of a history: rows in order, and by reason the places of records that gave nothing."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    refused: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))


def expected(setting: Setting, history: History) -> Outcome:
    """What the reference says: every record processed completely before the next."""
    page = setting.page()
    outcome = Outcome()
    times: dict[tuple[str, int], int] = {}
    for place, event in enumerate(history.events):
        at = (event.source, event.partition)
        times[at] = max(times.get(at, event.ts), event.ts)
        if event.source == CLOCK:
            outcome.rows += map(_row_of, page.tick(Record(CLOCK, 0, place, event.ts, None, None)))  # type: ignore[attr-defined]
            continue
        record = setting.record(place, event, times[at])
        if event.source in setting.tables and record.key is None:
            continue
        arm = page.left if event.source == "left" else page.right
        outcome.rows += map(_row_of, arm(record))
    for code, word in ((LATE, "late"), (NO_PARTNER, "given_up")):
        outcome.refused[code] = {record.offset for record in getattr(page, word, [])}
    return outcome


def sides(_: Any, left: Any, right: Any) -> tuple[Any, Any]:
    """The reference's joiner: the texts of both values, as `both` in `settings`."""
    return tuple(None if one is None else one["a"] for one in (left, right))  # type: ignore[return-value]


def _row_of(result: Result) -> tuple[Any, ...]:
    made = sorted((one.source, one.offset) for one in result.contributors if one is not None)
    left, right = (None, None) if result.value is None else result.value
    gone = result.kind == "tombstone"
    return (result.cause.offset, result.key, left, right, result.ts, result.kind, [] if gone else made)


class Run:
    """Histories of one setting on their way through the kernels, each in several copies, cut in as many ways.

    Args:
        spark: a session.
        setting: the setting.
        histories: the histories; of a setting that re-keys all with its counts.
        steps: into how many steps they are cut.
        seed: of the cuts.
    """

    def __init__(
        self, spark: SparkSession, setting: Setting, histories: Sequence[History], steps: int, seed: object
    ) -> None:
        self.setting, self.histories = setting, histories
        counts = {side: max(one.counts[side] for one in histories) for side in ("left", "right")}
        self._stride = max(counts.values())
        self._copies = [
            (history, ends)
            for number, history in enumerate(histories)
            for ends in _cuts(history, steps, random.Random(f"{seed}/{number}"))
        ]
        self._run = Histories(setting.topology, spark, partitions=counts, many=True)
        self._at: list[tuple[int, int]] = []  # of what was piped: copy, place
        self.outcomes = [Outcome() for _ in self._copies]

    def step(self, number: int, *, keeps: bool) -> tuple[DataFrame, list[DataFrame]]:
        """Rows, and records that gave nothing, of the next step; both lazy."""
        pieces = []
        for copy, (history, ends) in enumerate(self._copies):
            for place in range(*ends[number : number + 2]):
                event = history.events[place]
                self._at.append((copy, place))
                pieces.append(
                    Piped(
                        event.source, self.setting.key(event.key), _json(event.value), event.ts, event.partition, copy
                    )
                )
        results, unreadable = self._run.step(pieces, keeps=keeps)
        for place in self._run.null_values():
            copy, own = self._at[place]
            self.outcomes[copy].refused[NULL_VALUE].add(own)
        frame = results.records[OUTPUT]
        rows = frame.select(
            F.col("o")["cycle"].alias("cycle"),
            "n",
            self.setting.text().alias("k"),
            F.col("v")["left"].alias("left"),
            F.col("v")["right"].alias("right"),
            "ts",
            F.when(F.col("v").isNull(), F.lit("tombstone")).otherwise(F.col("kind")).alias("kind"),
            "contributors",
        )
        wanted = {LATE, NO_PARTNER, *([NULL_KEY] if self.setting.outcomes else [])}
        refused = [
            one.records.select(F.lit(one.code).alias("code"), "source", "partition", "offset")
            for one in [*results.rejected, *(unreadable if self.setting.outcomes else ())]
            if one.code in wanted
        ]
        return rows, refused

    def take(self, rows: Sequence[Row]) -> None:
        for row in sorted(rows, key=lambda one: (one["cycle"], one["n"])):
            copy, cause = self._at[row["cycle"] - 1]
            made = sorted((one["source"], self._place(one)) for one in row["contributors"])
            values = (row["left"], row["right"])
            told = (cause, row["k"], *values, row["ts"], row["kind"], [] if row["kind"] == "tombstone" else made)
            self.outcomes[copy].rows.append(told)

    def take_refused(self, rows: Sequence[Row]) -> None:
        for row in rows:
            copy = row["partition"] // self._stride
            self.outcomes[copy].refused[row["code"]].add(self._place(row))

    def _place(self, at: Any) -> int:
        return self._at[self._run.place_of(at["source"], at["partition"], at["offset"])][1]

    def by_history(self) -> Iterator[tuple[History, tuple[int, ...], Outcome]]:
        """Each copy: its history, where it was cut, what came out."""
        for (history, ends), outcome in zip(self._copies, self.outcomes, strict=True):
            yield history, ends, outcome


def _cuts(history: History, steps: int, rng: random.Random) -> list[tuple[int, ...]]:
    """Where the pieces begin and end: whole in the first step; at random; each near one record."""
    size = len(history.events)
    whole = (0, *[size] * steps)
    if steps == 1:
        return [whole]
    anywhere = (0, *sorted(rng.randint(0, size) for _ in range(steps - 1)), size)
    middle = rng.randint(0, size)
    return [whole, anywhere, (0, *sorted(min(size, middle + n) for n in range(steps - 1)), size)]


def _json(value: Mapping[str, str | None] | None) -> bytes | None:
    return None if value is None else json.dumps(value).encode()


def run(
    spark: SparkSession,
    lots: Sequence[tuple[Setting, Sequence[History]]],
    *,
    steps: int,
    seed: object,
) -> list[Run]:
    """The histories of each setting through the kernels; a dozen settings share a job."""
    found = []
    for start in range(0, len(lots), _AT_ONCE):
        runs = [Run(spark, setting, histories, steps, seed) for setting, histories in lots[start : start + _AT_ONCE]]
        for number in range(steps):
            rows, refused = [], []
            for run_number, one in enumerate(runs):
                made, lost = one.step(number, keeps=number + 1 < steps)
                rows.append(made.select(F.lit(run_number).alias("run"), "*"))
                refused += [frame.select(F.lit(run_number).alias("run"), "*") for frame in lost]
            _hand_out(rows, runs, Run.take)
            _hand_out(refused, runs, Run.take_refused)
        found += runs
    return found


def _hand_out(frames: Sequence[DataFrame], runs: Sequence[Run], take: Callable[[Run, list[Row]], None]) -> None:
    if not frames:
        return
    found: dict[int, list[Row]] = defaultdict(list)
    for row in reduce(DataFrame.unionByName, frames).collect():
        found[row["run"]].append(row)
    for number, rows in found.items():
        take(runs[number], rows)


# --- what must hold --------------------------------------------------------------------------------------------------


def faults(one: Run) -> list[tuple[History, str]]:
    """Each history that came out otherwise than the reference says, or with a record of no fate or of two."""
    found = []
    known: dict[int, Outcome] = {}
    for history, ends, outcome in one.by_history():
        wanted = known.setdefault(id(history), expected(one.setting, history))
        wrong = difference(HEAD, wanted.rows, outcome.rows)
        for code in (LATE, NO_PARTNER):
            if wrong is None and wanted.refused[code] != outcome.refused[code]:
                wrong = f"{code}: expected {sorted(wanted.refused[code])}, got {sorted(outcome.refused[code])}"
        if wrong is None and one.setting.outcomes:
            wrong = without_one_fate(history, outcome)
        if wrong is not None:
            found.append((history, f"{one.setting.name}, cut {ends}: {wrong}"))
    return found


def without_one_fate(history: History, outcome: Outcome) -> str | None:
    """The left records, closing ones aside, that have not exactly one fate: matched, unmatched once, or refused."""
    matched, unmatched = set(), []
    for row in outcome.rows:
        places = [place for source, place in row[-1] if source == "left"]
        (matched.update if row[-2] == "matched" else unmatched.extend)(places)
    wrong = {}
    for place, event in enumerate(history.events):
        if event.source != "left" or event.ts == FAR:
            continue
        outcomes = ["matched"] * (place in matched) + ["unmatched"] * unmatched.count(place)
        outcomes += [code for code, places in outcome.refused.items() if place in places]
        if len(outcomes) != 1:
            wrong[place] = outcomes
    return f"fates: {wrong}" if wrong else None


def smallest(spark: SparkSession, setting: Setting, history: History, steps: int, seed: object) -> tuple[History, str]:
    """What is left of a failing history when leaving any further record out makes it pass: all at once, a round a job."""
    told = ""
    while True:
        events = history.events
        shorter = [replace(history, events=events[:n] + events[n + 1 :]) for n in range(len(events))]
        failing = faults(run(spark, [(setting, shorter or [history])], steps=steps, seed=seed)[0])
        if not failing or not shorter:
            return history, told
        history, told = failing[0]


def require_no_faults(spark: SparkSession, runs: Sequence[Run], *, steps: int, seed: object) -> None:
    """Fails with the first wrong history of each setting, made as small as it gets."""
    found = []
    for one in runs:
        failing = faults(one)
        if failing:
            history, told = min(failing, key=lambda pair: len(pair[0].events))
            small, told_small = smallest(spark, one.setting, history, steps, seed)
            total = len(list(one.by_history()))
            found.append(f"{len(failing)} of {total} copies; smallest:\n{small.shown()}\n{told_small or told}")
    assert not found, f"seed {seed}\n" + "\n\n".join(found)
