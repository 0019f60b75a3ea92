"""Joins as of event time as a Python worker runs them, on Arrow tables, beside the reference: no Spark is started.

Many histories lie in one table, each with tasks and keys of its own. They go through the worker in one share, a task at a time,
or by key: then records bring their triggers and bounds, versions only those that the store takes.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

import pyarrow as pa
import pytest
from tests.operators.histories import wild
from tests.operators.in_arrays import STRIDE, Arrival
from tests.operators.test_stream_stream_arrays import STRAYS, UNEQUAL, Setting
from tests.operators.test_stream_stream_worker import columns, shares
from tests.operators.test_stream_table_wait_arrays import GIVEN, PLACE, Row, given, of_use
from tests.operators.wild import Wild, sides
from tests.reference.records import Record
from tests.reference.stream_table import StreamTableJoin
from tests.reference.tables import VersionedTable

from lakestreams.operators.stream_table_as_of import worker
from lakestreams.operators.stream_table_as_of.worker import Options

SEED, EXAMPLES = 20261128, 40
NOTHING = -(1 << 61)
Way = Literal["one share", "by task", "by key"]
WAYS: tuple[Way, ...] = ("one share", "by task", "by key")
Found = tuple[int, int, int | None]  # offsets of the trigger, the record and its version


@dataclass(frozen=True)
class AsOf:
    """A join's times, in ms, and how its records lie."""

    how: Literal["inner", "left"]
    history: int
    grace: int | None
    lies: Setting = field(default_factory=lambda: Setting("left", "strict"))

    def __str__(self) -> str:
        return f"{self.how}, history {self.history}, grace {self.grace}, {self.lies}"


LIES = tuple(
    Setting("left", "strict", wild=one, tasks=tasks)
    for one, tasks in ((Wild(), (0, 0)), (STRAYS, (0, 0)), (UNEQUAL, (3, 0)))
)
TIMES = ((3, None), (8, None), (1_000, None), (3, 0), (8, 3), (1_000, 20))
JOINS = [AsOf(how, *times, lies) for how, times, lies in product(("inner", "left"), TIMES, LIES)]  # type: ignore[arg-type]


@pytest.mark.parametrize("join", JOINS, ids=str)
def test_every_way(join: AsOf) -> None:
    seed = f"{SEED}/{join}"
    histories = [of_use(join.lies.arrivals(one)) for one in join.lies.wild.histories(EXAMPLES, seed)]
    require_same(join, histories, WAYS if join.lies.wild not in (STRAYS, UNEQUAL) else ("one share", "by key"))


@pytest.mark.parametrize(("how", "times"), list(product(("inner", "left"), TIMES)))
def test_few_keys_few_times_and_many_deletions(how: Any, times: tuple[int, int | None]) -> None:
    """Versions that come late, replace each other, and vanish with their deletions."""
    histories = []
    for one in wild(120, SEED):
        records = [record for record in one.records if record.source == "right" or record.value is not None]
        records = [record for record in records if record.source == "left" or record.key is not None]
        values = ((each, None if each.value is None else {"a": each.value}) for each in records)
        records = [Record(each.source, 0, each.offset, each.ts, each.key, value) for each, value in values]
        histories.append([Arrival(each.source, each, each.ts) for each in records])  # type: ignore[arg-type]
    require_same(AsOf(how, *times), histories, WAYS)


def require_same(join: AsOf, histories: Sequence[Sequence[Arrival]], ways: Sequence[Way]) -> None:
    """Fails with the first history that comes out otherwise than the reference says."""
    expected = [wanted(join, one) for one in histories]
    for way in ways:
        for arrivals, one, rows in zip(histories, through(way, histories, join), expected, strict=True):
            shown = [f"    {each.arm} {each.record.task}: {each.record}" for each in arrivals]
            assert one == rows, "\n".join([f"{join}, {way}", *shown, f"got {one}", f"expected {rows}"])


def wanted(join: AsOf, arrivals: Sequence[Arrival]) -> list[Found]:
    page, found = StreamTableJoin(join.how, VersionedTable(join.history), sides, grace_ms=join.grace), []
    for one in arrivals:
        for row in getattr(page, one.arm)(one.record):
            record, version = row.contributors
            found.append((one.record.offset, record.offset, None if version is None else version.offset))
    return found


def through(way: Way, histories: Sequence[Sequence[Arrival]], join: AsOf) -> list[list[Found]]:
    """What comes out of each history, in order."""
    rng = random.Random(way)
    rows = [
        {**given(number, place, one, rng), "moves_time": False, "history": join.history, "grace": join.grace or 0}
        for number, arrivals in enumerate(histories)
        for place, one in enumerate(arrivals)
    ]
    options = Options(join.how == "left", join.grace is not None, 0, right_first=True, with_records=way == "by key")
    types = {**GIVEN, "moves_time": pa.bool_(), "history": pa.int64(), "grace": pa.int64()}
    if way == "by key":
        rows = with_bounds(join, rows)
        types |= {"bound": pa.int64()} | ({} if join.grace is None else {"comes_at": PLACE})
    rng.shuffle(rows)
    table = pa.Table.from_pylist(rows, schema=pa.schema(types))
    by = {"one share": lambda _: 0, "by task": lambda row: row["task"], "by key": lambda row: hash(str(row["k"])) % 3}[
        way
    ]
    results = [
        row
        for share in shares(table, [by(row) for row in rows])
        for batch in worker.joined(options, columns(share))
        for row in batch.to_pylist()
    ]
    if way == "by key":  # as `frames` numbers them
        results.sort(key=lambda one: (one["ts"], (one["k"] or {"k": ""})["k"].encode(), one["record_at"]["o"]["cycle"]))
    else:
        results.sort(key=lambda one: one["n"])
        places = [(one["o"]["partition"], one["o"]["cycle"], one["n"]) for one in results]
        assert len(set(places)) == len(places)
    outcomes: list[list[Found]] = [[] for _ in histories]
    for one in sorted(results, key=lambda one: one["o"]["cycle"]):
        record, *version = (each["offset"] for each in one["contributors"])
        assert one["kind"] == ("matched" if version else "unmatched")
        outcomes[one["o"]["partition"] // STRIDE].append((one["o"]["offset"], record, next(iter(version), None)))
    return outcomes


def with_bounds(join: AsOf, rows: Sequence[Row]) -> list[Row]:
    """Records with their triggers and the bounds there, versions that the store takes: as `frames` finds them with Spark."""
    found: list[Row] = []
    clocks: dict[int, int] = {}
    times: dict[int, int] = {}
    waiting: dict[int, list[Row]] = defaultdict(list)
    for one in sorted(rows, key=lambda one: (one["task"], one["o"]["cycle"])):
        task, ts = one["task"], one["ts"]
        bound = clocks.get(task, NOTHING) - join.history
        if one["arm"]:
            if ts >= bound:
                clocks[task] = max(clocks.get(task, NOTHING), ts)
                found.append({**one, "bound": 0})
        elif join.grace is None or one["k"] is None:
            found.append({**one, "bound": bound, "comes_at": place(one)})
        else:
            times[task] = max(times.get(task, 0), ts)
            waiting[task].append(one)
            ready = [each for each in waiting[task] if each["ts"] <= times[task] - join.grace]
            waiting[task] = [each for each in waiting[task] if each not in ready]
            found += [{**each, "bound": bound, "comes_at": place(one)} for each in ready]
    return found


def place(row: Row) -> dict[str, Any]:
    return {"o": row["o"], "rank": 1 - row["arm"], "n": row["n"]}
