"""Joins that wait and amend as a Python worker runs them, on Arrow tables, beside the reference: no Spark is started.

Many histories lie in one table, each with tasks and keys of its own. They go through the worker in one share, a task at a
time, or by task and then by key; whole, or in pieces of which the next one gets what the one before has kept.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, product
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pytest
from tests.operators.in_arrays import STRIDE, Arrival
from tests.operators.test_stream_stream_arrays import STRAYS, TICKS, UNEQUAL, Setting
from tests.operators.test_stream_stream_worker import AT, ORDER, VALUE, columns, shares
from tests.operators.wild import Wild, sides
from tests.reference.race import RaceJoin
from tests.reference.records import Result

from lakestreams.operators.stream_table_wait import worker
from lakestreams.operators.stream_table_wait.worker import EXPIRED, WaitOptions

SEED, EXAMPLES = 20261128, 25
KEY = pa.struct({"history": pa.int64(), "k": pa.string()})
PLACE = pa.struct({"o": pa.struct(ORDER), "rank": pa.int32(), "n": pa.int32()})
GIVEN: dict[str, Any] = {
    "k": KEY, "lv": VALUE, "rv": VALUE, "ts": pa.int64(), "o": pa.struct(ORDER), "n": pa.int32(), "task": pa.int32(),
    "arm": pa.int32(), "moves": pa.int64(), "kind": pa.string(), "contributors": pa.list_(pa.struct(AT)),
}  # fmt: skip
Way = Literal["one share", "by task", "by task and by key"]
Row: TypeAlias = dict[str, Any]
Found: TypeAlias = tuple[int, int, int | None, str]  # offsets of the trigger, the record and its row; the kind


@dataclass(frozen=True)
class Waits:
    """A join's bounds, in ms, and how its records lie."""

    how: Literal["inner", "left"]
    wait: int | None
    amend: int | None = None
    lies: Setting = field(default_factory=lambda: Setting("left", "strict"))

    def __str__(self) -> str:
        return f"{self.how}, wait {self.wait}, amend {self.amend}, {self.lies}"

    @property
    def options(self) -> WaitOptions:
        return WaitOptions(self.how, self.wait, self.amend, overlap="right_first")


LIES = tuple(
    Setting("left", "strict", wild=wild, tasks=tasks)
    for wild, tasks in ((Wild(), (0, 0)), (STRAYS, (0, 0)), (UNEQUAL, (3, 0)), (TICKS, (0, 0)))
)
BOUNDS: tuple[tuple[Any, ...], ...] = (
    *(("inner", wait, None) for wait in (0, 4, 20)),
    *(("left", wait, None) for wait in (0, 4, 20)),
    *(("left", wait, amend) for wait, amend in ((1, 7), (4, 34), (None, 6), (None, 0), (3, 3))),
)
JOINS = [Waits(*bounds, lies) for bounds, lies in product(BOUNDS, LIES)]
WAYS: tuple[Way, ...] = ("one share", "by task", "by task and by key")


@pytest.mark.parametrize("join", JOINS, ids=str)
def test_every_way_whole_and_cut(join: Waits) -> None:
    seed = f"{SEED}/{join}"
    histories = [of_use(join.lies.arrivals(one)) for one in join.lies.wild.histories(EXAMPLES, seed)]
    expected = [wanted(join, one) for one in histories]
    apart = join.lies.wild in (STRAYS, UNEQUAL)  # equal keys in several tasks
    for way, cuts in product(WAYS, ([], sorted(random.Random(seed).sample(range(1, 20), 2)))):
        if apart and way == "by task":
            continue
        found = through(way, histories, join, cuts)
        for arrivals, one, rows in zip(histories, found, expected, strict=True):
            shown = [f"    {each.arm} {each.record.task}: {each.record}" for each in arrivals]
            told = [f"{join}, {way}, cut {cuts}", *shown, f"got {one}", f"expected {rows}"]
            assert one == rows, "\n".join(told)


def of_use(arrivals: Sequence[Arrival]) -> list[Arrival]:
    """What comes to the join: no records without a value, and no rows without a key."""
    return [
        one
        for one in arrivals
        if one.arm == "tick" or (one.record.value if one.arm == "left" else one.record.key) is not None
    ]


def wanted(join: Waits, arrivals: Sequence[Arrival]) -> list[Found]:
    """What the reference says, and what it has given up."""
    page, found = RaceJoin(join.how, join.wait, join.amend, sides), []
    for one in arrivals:
        results: list[Result] = getattr(page, one.arm)(one.record)
        found += [(one.record.offset, (late.offset, None), EXPIRED) for late in page.given_up]
        found += [(one.record.offset, page_row(row), row.kind) for row in results]
        page.given_up.clear()
    return [(trigger, *made, kind) for trigger, made, kind in found]


def page_row(row: Result) -> tuple[int, int | None]:
    record, other = row.contributors
    assert record is not None
    return record.offset, None if other is None else other.offset


# --- through the worker ----------------------------------------------------------------------------------------------


def through(way: Way, histories: Sequence[Sequence[Arrival]], join: Waits, cuts: Sequence[int]) -> list[list[Found]]:
    """What comes out of each history, in order."""
    rng, found, came = random.Random(f"{way}/{cuts}"), [], 0
    kept: list[Row] = []
    live: dict[tuple[int, Any], Row] = {}
    for start, end in pairwise([0, *cuts, max(map(len, histories))]):
        new = [
            given(number, place, one, rng)
            for number, arrivals in enumerate(histories)
            for place, one in enumerate(arrivals[start:end], start)
        ]
        state = [one | {"o": one["o"] | {"cycle": -1}, "moves": None} for one in live.values()]
        rows, since = [*kept, *state, *new], start + 1
        rng.shuffle(rows)
        joined = partial(worker.joined, wanted=since, with_records=way == "by task and by key")
        results = run(way, joined, join.options, since, rows)
        came += sum(one["n"] for one in results if one["kind"] == worker.CAME)
        results = [one for one in results if one["kind"] != worker.CAME]
        found += numbered(results) if way == "by task and by key" else results
        waiting = run(way, worker.looking_out, join.options, since, rows)
        kept = [*({**one, "rv": None, "arm": 0, "moves": one["clock"]} for one in waiting), *carriers([*kept, *new])]
        live |= {key_of(one): one for one in new if one["arm"]}
        live = {key: one for key, one in live.items() if one["rv"] is not None}
    looking = (one for arrivals in histories for one in arrivals if one.arm == "left")
    assert came == sum(join.how == "left" or one.record.key is not None for one in looking)
    outcomes: list[list[Found]] = [[] for _ in histories]
    for one in sorted(found, key=lambda one: (one["o"]["cycle"], one["n"])):
        record, *row = (each["offset"] for each in one["contributors"])
        assert len(row) == (one["rv"] is not None)
        outcomes[one["o"]["partition"] // STRIDE].append(
            (one["o"]["offset"], record, next(iter(row), None), one["kind"])
        )
    return outcomes


def run(way: Way, step: Any, join: WaitOptions, since: int, rows: Sequence[Row]) -> list[Row]:
    """A step over rows in shares."""
    table = pa.Table.from_pylist(rows, schema=pa.schema(GIVEN))
    by: list[int] = [0] * len(rows)
    if way == "by task":
        by = table.column("task").to_pylist()
    if way == "by task and by key":
        table = with_ends(join, rows)
        by = [hash(str(key)) % 3 for key in table.column("k").to_pylist()]
    batches = (batch for share in shares(table, by) for batch in step(join, since, columns(share)))
    return [row for batch in batches for row in batch.to_pylist()]


def with_ends(join: WaitOptions, rows: Sequence[Row]) -> Any:
    """What has a use for keys, with its clock, and where bounds end, as `frames` finds it with Spark: one row at a time."""
    found = [one for one in rows if one["o"]["cycle"] < 0]
    clocks: dict[int, int] = {}
    open_: list[Row] = []
    bounds = {"waited": join.wait, "until": join.amend}
    for one in sorted((one for one in rows if one["o"]["cycle"] >= 0), key=lambda one: one["o"]["cycle"]):
        clock = clocks[one["task"]] = max(clocks.get(one["task"], 0), one["moves"])
        made = {**one, "moves": clock}
        if one["arm"] or one["lv"]:
            found.append(made)
        open_ += [made] if one["lv"] else []
        for each, name in product(open_, bounds):
            bound, at = bounds[name], {"o": one["o"], "rank": 1 - one["arm"], "n": one["n"]}
            if bound is not None and each["task"] == one["task"] and clock > each["ts"] + bound:
                each.setdefault(name, at)
        open_ = [each for each in open_ if any(name not in each and bounds[name] is not None for name in bounds)]
    ends = {name: PLACE for name, bound in bounds.items() if bound is not None}
    return pa.Table.from_pylist(found, schema=pa.schema({**GIVEN, **ends}))


def numbered(results: Sequence[Row]) -> list[Row]:
    """Results with the places of what their triggers close, as `frames` counts them."""
    closed = defaultdict(list)
    for one in results:
        if one["kind"] in ("unmatched", EXPIRED):
            closed[one["o"]["partition"], one["o"]["cycle"]].append(one)
    for (_, cycle), some in closed.items():
        for place, one in enumerate(sorted(some, key=lambda one: -one["record_at"]["o"]["cycle"]), 1):
            one["n"] = one["n"] if one["record_at"]["o"]["cycle"] == cycle else -place
    return list(results)


def given(history: int, place: int, arrival: Arrival, rng: random.Random) -> Row:
    """A row as a worker gets it; each has its cycle for itself, and its history in its partition."""
    record, is_tick, is_right = arrival.record, arrival.arm == "tick", arrival.arm == "right"
    task = history * STRIDE + record.task
    at = {"source": record.source, "partition": history * STRIDE, "offset": record.offset, "attempt": 0}
    value = None if record.value is None else {"a": record.value["a"]}
    return {
        "k": None if record.key is None else {"history": history, "k": record.key}, "lv": None if is_right else value,
        "rv": value if is_right else None, "ts": record.ts, "n": 1 << 30 if is_tick else 0, "task": task,
        "o": {"cycle": place + 1, "stream_time_ms": record.stream_time, "side": 1, **at}, "arm": int(is_right),
        "moves": max(arrival.moves, record.ts), "kind": "record", "contributors": rng.choice([None, [at]]),
    }  # fmt: skip


def carriers(rows: Sequence[Row]) -> list[Row]:
    """The last row of each task, as one that carries its clock."""
    by_task: dict[int, list[Row]] = defaultdict(list)
    for one in rows:
        by_task[one["task"]].append(one)
    nothing = {"k": None, "lv": None, "rv": None, "arm": 0, "kind": "tick"}
    return [
        {**max(some, key=lambda one: one["o"]["cycle"]), **nothing, "moves": max(one["moves"] for one in some)}
        for some in by_task.values()
    ]


def key_of(row: Row) -> tuple[int, str]:
    return row["k"]["history"], row["k"]["k"]
