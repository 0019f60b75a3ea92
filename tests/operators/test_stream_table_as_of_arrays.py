"""Joins as of event time as a Python worker runs them, on Arrow tables, beside the reference: no Spark is started.

Many histories lie in one table, each with tasks and keys of its own. They go through the worker in one share, a task at a time,
or by key: then records bring their triggers and bounds, versions only those that the store takes. Whole, or in pieces of which the
next one gets what is retained of those before.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import Any, Literal

import pyarrow as pa
import pytest
from tests.conformance.functions import joiner
from tests.operators.histories import NO_GRACE, History, recorded, wild
from tests.operators.in_arrays import STRIDE, Arrival
from tests.operators.test_stream_stream_arrays import STRAYS, UNEQUAL, Setting
from tests.operators.test_stream_stream_worker import VALUE, columns, shares
from tests.operators.test_stream_table_wait_arrays import GIVEN, KEY, PLACE, Row, given, of_use
from tests.operators.test_versioned_table_arrays import TABLE, kept
from tests.operators.wild import Wild, sides
from tests.reference.records import Record
from tests.reference.stream_table import StreamTableJoin
from tests.reference.tables import VersionedTable

from lakestreams.operators.stream_table_as_of import worker
from lakestreams.operators.stream_table_as_of.worker import Options

SEED, EXAMPLES = 20261128, 40
ALWAYS = 1 << 62
Way = Literal["one share", "by task", "by key"]
WAYS: tuple[Way, ...] = ("one share", "by task", "by key")
CUTS = ([4, 9], [1, 2, 15])
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
    apart = join.lies.wild in (STRAYS, UNEQUAL)
    require_same(join, histories, ("one share", "by key") if apart else WAYS, () if apart else CUTS)


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
    require_same(AsOf(how, *times), histories, WAYS, CUTS)


def test_what_kafka_streams_gave() -> None:
    """The recorded cases, each whole and cut."""
    kinds: dict[AsOf, list[History]] = defaultdict(list)
    for one in recorded("stream-table", lambda case: case.params.versioned):
        kinds[AsOf(one.how, one.history_ms, None if one.grace_ms == NO_GRACE else one.grace_ms)].append(one)  # type: ignore[arg-type]
    count = 0
    for join, histories in kinds.items():
        arrivals = [of_use([_arrival(record) for record in one.records]) for one in histories]
        for cuts in ([], [3, 6]):
            for one, found in zip(histories, through("one share", arrivals, join, cuts), strict=True):
                assert one.case is not None
                by_offset = {record.offset: record for record in one.records}
                rows = []
                for trigger, record, version in found:
                    point, right = by_offset[record], None if version is None else by_offset[version].value
                    value = joiner(one.case.joiner)(point.key, point.value, right)
                    rows.append((point.key, value, point.ts, trigger))
                assert rows == [(row.key, row.value, row.ts, row.after_input) for row in one.case.expected], one.case.id
                count += not cuts
    assert count == 58


def _arrival(record: Record) -> Arrival:
    """With key and value as the worker's tables have them; a number as a text that is sorted as its bytes are."""
    key = f"{record.key & (2**64 - 1):016x}" if isinstance(record.key, int) else record.key
    value = None if record.value is None else {"a": str(record.value)}
    return Arrival(record.source, replace(record, key=key, value=value), record.ts)  # type: ignore[arg-type]


def require_same(
    join: AsOf, histories: Sequence[Sequence[Arrival]], ways: Sequence[Way], cuts: Sequence[list[int]]
) -> None:
    """Fails with the first history that comes out otherwise than the reference says."""
    expected = [wanted(join, one) for one in histories]
    for way, at in product(ways, ([], *cuts)):
        for arrivals, one, rows in zip(histories, through(way, histories, join, at), expected, strict=True):
            shown = [f"    {each.arm} {each.record.task}: {each.record}" for each in arrivals]
            assert one == rows, "\n".join([f"{join}, {way}, cut {at}", *shown, f"got {one}", f"expected {rows}"])


def wanted(join: AsOf, arrivals: Sequence[Arrival]) -> list[Found]:
    page, found = StreamTableJoin(join.how, VersionedTable(join.history), sides, grace_ms=join.grace), []
    for one in arrivals:
        for row in getattr(page, one.arm)(one.record):
            record, version = row.contributors
            found.append((one.record.offset, record.offset, None if version is None else version.offset))
    return found


def through(way: Way, histories: Sequence[Sequence[Arrival]], join: AsOf, cuts: Sequence[int]) -> list[list[Found]]:
    """What comes out of each history, in order."""
    rng, retained = random.Random(way), list[Row]()
    outcomes: list[list[Found]] = [[] for _ in histories]
    for start, end in pairwise([0, *cuts, max(map(len, histories))]):
        new = [
            {**given(number, place, one, rng), "moves_time": False, "history": join.history, "grace": join.grace or 0}
            for number, arrivals in enumerate(histories)
            for place, one in enumerate(arrivals[start:end], start)
        ]
        rows = [*retained, *new]
        for one in run(way, join, rng.sample(rows, len(rows)), start + 1):
            record, *version = (each["offset"] for each in one["contributors"])
            assert one["kind"] == ("matched" if version else "unmatched")
            outcomes[one["o"]["partition"] // STRIDE].append((one["o"]["offset"], record, next(iter(version), None)))
        retained = [*kept_versions(way, rows), *(kept_points(join.grace, rows) if join.grace is not None else ())]
    return outcomes


def run(way: Way, join: AsOf, rows: Sequence[Row], since: int) -> list[Row]:
    """The worker's results over rows in shares, in their order."""
    options = Options(join.how == "left", join.grace is not None, since, right_first=True, with_records=way == "by key")
    types = {**GIVEN, "moves_time": pa.bool_(), "history": pa.int64(), "grace": pa.int64()}
    if way == "by key":
        rows = with_bounds(join, rows)
        types |= {"bound": pa.int64()} | ({} if join.grace is None else {"comes_at": PLACE})
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
    return sorted(results, key=lambda one: one["o"]["cycle"])


def kept_versions(way: Way, rows: Sequence[Row]) -> list[Row]:
    """What the table's store keeps."""
    table = [{**one, "v": one["rv"]} for one in rows if one["arm"]]
    of_arms = {"arm": 1, "lv": None, "moves": None, "grace": 0}
    return [
        {**one, **of_arms, "rv": one["v"], "moves_time": one["kind"] == "clock"}
        for one in kept(way, table, STRIDE, given={**TABLE, "k": KEY, "v": VALUE})
    ]


def kept_points(grace: int, rows: Sequence[Row]) -> list[Row]:
    """What `grace.retain` keeps: records that wait, and the newest one of each task."""
    points = [one for one in rows if not one["arm"] and one["k"] is not None]
    newest: dict[int, Row] = {}
    for one in sorted(points, key=lambda one: (-one["ts"], one["o"]["cycle"])):
        newest.setdefault(one["task"], one)
    return [one for one in points if one["ts"] + grace > newest[one["task"]]["ts"] or newest[one["task"]] is one]


def with_bounds(join: AsOf, rows: Sequence[Row]) -> list[Row]:
    """Records with their triggers and the bounds there, versions that the store takes: as `frames` finds them with Spark."""
    found: list[Row] = []
    clocks: dict[int, int] = {}
    times: dict[int, int] = {}
    waiting: dict[int, list[Row]] = defaultdict(list)
    for one in sorted(rows, key=lambda one: (one["task"], one["o"]["cycle"])):
        task, ts = one["task"], one["ts"]
        bound = clocks[task] - join.history if task in clocks else ALWAYS
        if one["arm"]:
            clocks[task] = max(clocks.get(task, ts), ts)
            if ts >= clocks[task] - join.history:
                found.append({**one, "bound": 0})
        elif join.grace is None or one["k"] is None:
            found.append({**one, "bound": bound, "comes_at": place(one)})
        else:
            times[task] = max(times.get(task, ts), ts)
            waiting[task].append(one)
            ready = [each for each in waiting[task] if each["ts"] <= times[task] - join.grace]
            waiting[task] = [each for each in waiting[task] if each not in ready]
            found += [{**each, "bound": bound, "comes_at": place(one)} for each in ready]
    return found


def place(row: Row) -> dict[str, Any]:
    return {"o": row["o"], "rank": 1 - row["arm"], "n": row["n"]}
