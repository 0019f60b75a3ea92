"""The stream-table kernel against its executable specification: hundreds of random histories in one Spark job."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.operators import plans
from tests.operators.rows import frame, in_turns, results
from tests.reference.stream_table import STREAM, TABLE, Record, Row, in_order, join, split, state_after

from lakestreams import Json, StreamsBuilder, Text
from lakestreams.evaluate import walk
from lakestreams.evaluate.inputs import Inputs
from lakestreams.operators.records import CONTRIBUTOR_TYPE, ORDER_TYPE
from lakestreams.operators.stream_table import kernel as stream_table
from lakestreams.operators.versions import TableSide, of_keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CASES, SEED = 400, 20260821
HOWS = [pytest.param("inner", marks=pytest.mark.slow), "left"]  # `make check` has one of each pair
CYCLE = 7  # of the changes; state and tail lie in earlier ones
RECORD_TYPE = f"v struct<{{}}>, ts bigint, o {ORDER_TYPE}, n int, kind string, contributors array<{CONTRIBUTOR_TYPE}>"


@dataclass(frozen=True)
class Case:
    """One task's history, cut in state (before the tail), tail and cycle by stream time."""

    number: int
    records: tuple[Record, ...]
    cuts: tuple[int, int]  # of stream time: state | tail | cycle
    parts: tuple[list[Record], list[Record], list[Record]] = field(init=False)

    def __post_init__(self) -> None:
        past, now = split(self.records, self.cuts[1])
        state, tail = split(past, self.cuts[0])
        object.__setattr__(self, "parts", (state, tail, now))

    @property
    def stream_times(self) -> dict[tuple[str, int, int, int], int]:
        return {record.at: time for time, record in in_order(self.records)}


def histories(count: int, seed: int, keys: Sequence[Any], *, null_share: float = 0.1) -> list[Case]:
    """Random histories: few keys, few timestamps (ties), out of order, tombstones, updates between views, null keys.

    Keys of a view only and keys of a table only come about by themselves; partitions beyond 0 stand for a topology
    whose inputs are not co-partitioned: the order is one over all of them.
    """
    rng = random.Random(seed)
    cases = []
    for number in range(count):
        records = []
        horizon = rng.choice([3, 8, 30])
        for topic, side in rng.choice(
            [[("v", STREAM), ("u", TABLE)], [("a", STREAM), ("ü", TABLE)], [("B", TABLE), ("a", STREAM)]]
        ):
            for partition in range(rng.choice([1, 1, 2, 3])):
                time = 0
                for offset in range(rng.randint(0, 12)):
                    time = rng.randint(0, horizon) if rng.random() < 0.3 else min(horizon, time + rng.randint(0, 2))
                    key = None if rng.random() < null_share else rng.choice(keys)
                    value = None if side == TABLE and rng.random() < 0.25 else f"{topic}{partition}.{offset}"
                    records.append(Record(topic, partition, offset * 3, time, key, value, side))
        first, second = sorted(rng.choices(range(-1, horizon + 2), k=2))
        cases.append(Case(number, tuple(records), (first, second)))
    return cases


# --- frames ----------------------------------------------------------------------------------------------------------


class Bench:
    """Writes histories as frames of the kernel; the case's number is a column of the key, and of the value too, since
    a null key has none."""

    def __init__(self, spark: SparkSession, root: Path, key_columns: Sequence[str]) -> None:
        self.spark, self.root, self.key_columns = spark, root, key_columns
        self._files = 0

    def points(self, cases: Iterable[Case], parts: Sequence[int]) -> DataFrame:
        rows = [
            {
                "k": self._key(case, record),
                "v": {"history": case.number, "left": record.value},
                "ts": record.ts,
                "o": {"cycle": self._cycle(case, record), **self._trigger(case, record)},
                "n": 0,
                "kind": "record",
                "contributors": [self._coordinates(record)],
            }
            for case in cases
            for record in self._of(case, parts, STREAM)
            if record.value is not None
        ]
        return self._frame(rows, RECORD_TYPE.format("history: int, left: string"))

    def versions(self, cases: Iterable[Case], parts: Sequence[int], *, live_only: bool = False) -> DataFrame:
        rows = []
        for case in cases:
            records = self._of(case, parts, TABLE)
            if live_only:
                records = list(state_after(records).values())
            rows += [
                {
                    "k": self._key(case, record),
                    "v": None if record.value is None else {"right": record.value},
                    "ts": record.ts,
                    "o": {"cycle": self._cycle(case, record), **self._trigger(case, record)},
                    "n": 0,
                    "kind": "record",
                    "contributors": [self._coordinates(record)],
                }
                for record in records
                if record.key is not None
            ]
        return self._frame(rows, RECORD_TYPE.format("right: string"))

    def _frame(self, rows: list[dict[str, Any]], columns: str) -> DataFrame:
        self._files += 1
        file = self.root / f"{self._files}.json"
        file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        key = ", ".join(f"{name}: {'int' if name == 'history' else 'string'}" for name in self.key_columns)
        return self.spark.read.schema(f"k struct<{key}>, {columns}").json(str(file))

    def _key(self, case: Case, record: Record) -> dict[str, Any] | None:
        if record.key is None:
            return None
        parts = record.key if isinstance(record.key, tuple) else (record.key,)
        if self.key_columns[0] == "history":
            return dict(zip(self.key_columns, (case.number, *parts), strict=True))
        return {self.key_columns[0]: f"{case.number}/{parts[0]}"}

    @staticmethod
    def _of(case: Case, parts: Sequence[int], side: int) -> list[Record]:
        return [record for part in parts for record in case.parts[part] if record.side == side]

    @staticmethod
    def _cycle(case: Case, record: Record) -> int:
        return (CYCLE - 4, CYCLE - 2, CYCLE)[next(i for i, part in enumerate(case.parts) if record in part)]

    @staticmethod
    def _trigger(case: Case, record: Record) -> dict[str, Any]:
        return {"stream_time_ms": case.stream_times[record.at], "side": record.side, **Bench._coordinates(record)}

    @staticmethod
    def _coordinates(record: Record) -> dict[str, Any]:
        return dict(zip(("source", "partition", "offset", "attempt"), record.at, strict=True))


def topology(how: str, key_columns: Sequence[str]):
    key = Text(key_columns[0]) if len(key_columns) == 1 else Json(", ".join(
        f"{name} {'int' if name == 'history' else 'string'}" for name in key_columns
    ))  # fmt: skip
    builder = StreamsBuilder("reference")
    views = builder.stream("views", key=key, value=Json("history int, left string"))
    users = builder.table("users", key=key, value=Text("right"))
    joined = views.join(users) if how == "inner" else views.left_join(users)
    joined.to_delta("out")
    return builder.build()


def produced(
    how: str, key_columns: Sequence[str], points: DataFrame, table: TableSide, counts: dict[str, int] | None = None,
    changes: int = 0,
) -> dict[int, list[Row]]:  # fmt: skip
    """What the dataflow makes of these inputs, by case, in order."""
    inputs = Inputs({"views": points}, {"users": table}, CYCLE, counts or {}, {"users": changes})
    rows = walk.run(topology(how, key_columns), inputs).outputs["out"].collect()
    found: dict[int, list[Row]] = {}
    for row in rows:
        lineage = row["_lineage"]
        assert (lineage["cycle"], lineage["n"]) == (CYCLE, 0)
        found.setdefault(row["history"], []).append(
            Row(
                key=_key_of(row, key_columns),
                left=row["left"],
                right=row["right"],
                ts=row["event_time_ms"],
                trigger=tuple(lineage["trigger"]),
                kind=lineage["kind"],
                contributors=tuple(tuple(one) for one in lineage["contributors"]),
            )
        )
    return {number: sorted(rows, key=_order) for number, rows in found.items()}


def _key_of(row: Any, key_columns: Sequence[str]) -> Any:
    if key_columns[0] == "history":
        return tuple(row[name] for name in key_columns[1:])
    return row[key_columns[0]] and row[key_columns[0]].split("/", 1)[1]


def _order(row: Row) -> Any:
    stream_time, side, source, *place = row.trigger
    return (stream_time, side, source.encode(), *place)


def expected(cases: Iterable[Case], how: str, parts: Sequence[int]) -> dict[int, list[Row]]:
    """The same by the specification: state from the parts before, results of the cycle."""
    found = {}
    for case in cases:
        past = [record for part in parts if part != 2 for record in case.parts[part]]
        rows = join(case.parts[2], how, state_after(past))
        if rows:
            found[case.number] = rows
    return found


def compare(found: dict[int, list[Row]], wanted: dict[int, list[Row]], cases: Sequence[Case]) -> None:
    wrong = [number for number in {**found, **wanted} if found.get(number) != wanted.get(number)]
    if not wrong:
        return
    case = next(one for one in cases if one.number == min(wrong))
    lines = [f"{len(wrong)} of {len(cases)} histories differ (seed {SEED}); history {case.number}, cuts {case.cuts}:"]
    lines += [f"  {time} {record}" for time, record in in_order(case.records)]
    lines += ["found:", *(f"  {row}" for row in found.get(case.number, []))]
    lines += ["wanted:", *(f"  {row}" for row in wanted.get(case.number, []))]
    pytest.fail("\n".join(lines))


# --- the kernel is the specification ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bench(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(spark, tmp_path_factory.mktemp("stream_table"), ["user"])


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    found = histories(CASES, SEED, ["a", "b", "c"])
    wanted = [row for rows in expected(found, "left", (0, 1, 2)).values() for row in rows]
    assert {row.kind for row in wanted} == {"matched", "unmatched"}
    assert sum(row.kind == "matched" for row in wanted) > 500, "the histories are worth their while"
    assert any(row.key is None for row in wanted)
    return found


@pytest.mark.parametrize("how", HOWS)
def test_state_tail_and_cycle(bench: Bench, cases: list[Case], how: str) -> None:
    """State of earlier cycles as a snapshot would give it, a tail behind it, and the cycle's own changes."""
    table = TableSide(bench.versions(cases, (0,), live_only=True), bench.versions(cases, (1, 2)))
    points = bench.points(cases, (2,))
    compare(produced(how, ["user"], points, table), expected(cases, how, (0, 1, 2)), cases)


@pytest.mark.parametrize("how", HOWS)
def test_changes_only(bench: Bench, cases: list[Case], how: str) -> None:
    """No snapshot yet: everything of the table lies in the tail and in the cycle."""
    table = TableSide(None, bench.versions(cases, (0, 1, 2)))
    compare(produced(how, ["user"], bench.points(cases, (2,)), table), expected(cases, how, (0, 1, 2)), cases)


@pytest.mark.parametrize("how", HOWS)
def test_state_only(bench: Bench, cases: list[Case], how: str) -> None:
    """A cycle without table records: the table as it was."""
    quiet = [
        Case(case.number, tuple(one for one in case.records if one.side == STREAM or one in case.parts[0]), case.cuts)
        for case in cases
    ]
    table = TableSide(bench.versions(quiet, (0,), live_only=True), None)
    compare(produced(how, ["user"], bench.points(quiet, (2,)), table), expected(quiet, how, (0, 2)), quiet)


@pytest.mark.parametrize(("how", "wanted"), [("inner", []), ("left", [("bob", "/", None, "unmatched")])])
def test_a_row_that_a_filter_has_taken_away_is_not_there(spark: SparkSession, how: str, wanted: list[Any]) -> None:
    """Also in a cycle that brings the table's state alone."""
    builder = StreamsBuilder("filtered")
    views = builder.stream("views", key=Text("user"), value=Text("left"))
    users = builder.table("users", key=Text("user"), value=Text("right"))
    known = users.filter(lambda user: user.right != "secret", name="known")
    (views.join(known) if how == "inner" else views.left_join(known)).to_delta("out")
    points = frame(spark, "left", [("bob", "/", 5, CYCLE)], side=1, key="user: string")
    state = frame(spark, "right", [("bob", "secret", 1, 1)], key="user: string")
    rows = walk.run(builder.build(), Inputs({"views": points}, {"users": TableSide(state, None)}, CYCLE))
    found = rows.outputs["out"].collect()
    assert [(row.user, row.left, row.right, row["_lineage"].kind) for row in found] == wanted
    assert all(len(row["_lineage"].contributors) == 1 for row in found)


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_filtering_the_table_by_the_points_changes_nothing(bench: Bench, cases: list[Case], how: str) -> None:
    table = TableSide(bench.versions(cases, (0,), live_only=True), bench.versions(cases, (1, 2)))
    few = {"views": 1, "users": 1_000}  # what the walk decides by
    found = produced(how, ["user"], bench.points(cases, (2,)), table, few)
    compare(found, expected(cases, how, (0, 1, 2)), cases)


def test_filtering_really_filters(bench: Bench, cases: list[Case]) -> None:
    one = [case for case in cases if case.parts[2]][:1]
    points = bench.points(one, (2,))
    table = TableSide(bench.versions(cases, (0,), live_only=True), bench.versions(cases, (1, 2)))
    kept = table.each(lambda rows: of_keys(rows, points))
    assert kept.changes is not None
    wanted = {f"{one[0].number}/{record.key}" for record in one[0].parts[2] if record.side == STREAM and record.key}
    assert {row["user"] for row in kept.changes.select("k.user").distinct().collect()} <= wanted


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("few", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_keys_with_many_versions_go_another_way_and_meet_the_same(
    bench: Bench, cases: list[Case], how: str, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All keys (more than 0 versions in the call), or those that change in it."""
    monkeypatch.setattr(stream_table, "LINEAR_VERSIONS", few)
    table = TableSide(bench.versions(cases, (0,), live_only=True), bench.versions(cases, (1, 2)))
    found = produced(how, ["user"], bench.points(cases, (2,)), table, changes=10_000)
    compare(found, expected(cases, how, (0, 1, 2)), cases)


@pytest.mark.parametrize(("overlap", "seen"), [("left_first", [None, "1"]), ("right_first", ["1", "2"])])
@pytest.mark.parametrize("few", [0, pytest.param(stream_table.LINEAR_VERSIONS, marks=pytest.mark.slow)])
def test_a_record_that_is_a_point_and_a_row(
    spark: SparkSession, overlap: Any, seen: list[Any], few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that is also read as a table: the side whose path leaves it first is served first."""
    monkeypatch.setattr(stream_table, "LINEAR_VERSIONS", few)
    rows = frame(spark, "s", [("p", "1", 1, 1), ("p", "2", 2, 2)], side=1)
    joined = stream_table.execute(rows, TableSide(None, rows), "left", 0, overlap, many_changes=True)
    assert [row[4] for row in results(joined)] == seen


UPDATES = 30_000


@pytest.mark.slow
def test_a_row_that_keeps_changing_costs_its_results_only(spark: SparkSession) -> None:
    """Points and versions of one key in turns: of 225 million pairs 15,000 ever meet."""
    table, points = in_turns(spark, UPDATES)
    joined = stream_table.execute(points, TableSide(None, table), "left", 1, many_changes=True)
    assert joined.where("v.s = rv.t + 1").count() == joined.count() == UPDATES // 2


def test_a_table_side_is_not_empty(bench: Bench, cases: list[Case]) -> None:
    with pytest.raises(ValueError, match="state, changes or both"):
        stream_table.execute(bench.points(cases[:1], (2,)), TableSide(None, None), "left", CYCLE)


# --- composite keys --------------------------------------------------------------------------------------------------

PAIR = ["history", "a", "b"]
PAIRS = [("x", "y"), ("x", None), (None, "y"), (None, None), ("y", "x")]


@pytest.fixture(scope="module")
def pair_bench(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(spark, tmp_path_factory.mktemp("pairs"), PAIR)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    ("few", "changes"),
    [
        pytest.param(False, 0, id="all"),
        pytest.param(True, 0, id="filtered", marks=pytest.mark.slow),
        pytest.param(False, 10_000, id="many_changes", marks=pytest.mark.slow),
    ],
)
def test_keys_of_several_columns_with_nulls_inside(
    pair_bench: Bench, how: str, few: bool, changes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A null inside a key equals a null: the key's bytes are equal, which is what Kafka compares."""
    cases = histories(CASES // 2, SEED + 1, PAIRS, null_share=0.0)
    table = TableSide(pair_bench.versions(cases, (0,), live_only=True), pair_bench.versions(cases, (1, 2)))
    counts = {"views": 1, "users": 1_000} if few else None
    monkeypatch.setattr(stream_table, "LINEAR_VERSIONS", 1)
    found = produced(how, PAIR, pair_bench.points(cases, (2,)), table, counts, changes)
    wanted = expected(cases, how, (0, 1, 2))
    assert any(row.key == (None, None) and row.right for rows in wanted.values() for row in rows)
    compare(found, wanted, cases)


def _one(spark: SparkSession, key: str, view_key: str, user_key: str) -> list[tuple[Any, ...]]:
    """A view after a user, their keys given as SQL."""
    order = "named_struct('cycle', 7L, 'stream_time_ms', {}L, 'side', {}, 'source', '{}', 'partition', 0, 'offset', 0L, 'attempt', 0)"
    rest = "0 n, 'record' kind, array(named_struct('source', '{}', 'partition', 0, 'offset', 0L, 'attempt', 0)) contributors"
    points = spark.sql(
        f"select cast({view_key} as struct<{key}>) k, named_struct('history', 1, 'left', '/') v, 5L ts, "
        f"{order.format(5, 1, 'v')} o, {rest.format('v')}"
    )
    users = spark.sql(
        f"select cast({user_key} as struct<{key}>) k, named_struct('right', 'eu') v, 1L ts, "
        f"{order.format(1, 0, 'u')} o, {rest.format('u')}"
    )
    joined = stream_table.execute(points, TableSide(None, users), "left", CYCLE)
    return [tuple(row) for row in joined.select("v.left", "rv.right", "kind").collect()]


def test_a_null_key_equals_no_key_of_nulls(spark: SparkSession) -> None:
    found = _one(spark, "a: string, b: string", "null", "named_struct('a', null, 'b', null)")
    assert found == [("/", None, "unmatched")]


def test_a_null_inside_a_key_of_one_column_equals_a_null(spark: SparkSession) -> None:
    found = _one(spark, "a: string", "named_struct('a', null)", "named_struct('a', null)")
    assert found == [("/", "eu", "matched")]


def test_null_keys_equal_nothing(spark: SparkSession) -> None:
    assert _one(spark, "a: string", "null", "named_struct('a', 'x')") == [("/", None, "unmatched")]
    assert _one(spark, "a: string", "null", "named_struct('a', null)") == [("/", None, "unmatched")]
    assert _one(spark, "a: string, b: int", "null", "named_struct('a', 'x', 'b', null)") == [("/", None, "unmatched")]


# --- plans -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored(bench: Bench, cases: list[Case]) -> dict[str, DataFrame]:
    """The frames as the engine has them: read from files whose size is known."""
    frames = {
        "points": bench.points(cases, (2,)),
        "state": bench.versions(cases, (0,), live_only=True),
        "changes": bench.versions(cases, (1, 2)),
    }
    found = {}
    for name, rows in frames.items():
        path = str(bench.root / f"{name}.parquet")
        rows.write.parquet(path)
        found[name] = bench.spark.read.parquet(path)
    return found


@pytest.mark.parametrize("how", HOWS)
def test_with_state_only_nothing_is_sorted_or_exchanged(stored: dict[str, DataFrame], how: str) -> None:
    joined = stream_table.execute(stored["points"], TableSide(stored["state"], None), how, CYCLE)
    assert plans.cost(joined) == {"BroadcastHashJoin": 1, "BroadcastExchange": 1}


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("with_state", [False, True], ids=["changes", "state and changes"])
def test_with_changes_the_table_side_alone_is_exchanged_and_sorted(
    stored: dict[str, DataFrame], how: str, with_state: bool
) -> None:
    table = TableSide(stored["state"] if with_state else None, stored["changes"])
    joined = stream_table.execute(stored["points"], table, how, CYCLE)
    wanted = {"BroadcastHashJoin": 1, "BroadcastExchange": 1, "Exchange": 1, "Sort": 1, "Window": 1}
    assert plans.cost(joined) == wanted
    if how == "left":  # in an inner join Spark may broadcast the points, if they are the smaller side
        plan = plans.plan_of(joined)
        assert re.search(r"BroadcastHashJoin .*LeftOuter, BuildRight", plan), "the table is what is broadcast"


@pytest.mark.parametrize("how", HOWS)
def test_points_of_keys_with_many_versions_alone_are_exchanged_and_sorted(
    stored: dict[str, DataFrame], how: str
) -> None:
    """The keys are counted and broadcast; they go one way, all others the other."""
    with plans.settings(stored["points"].sparkSession, {"spark.sql.adaptive.enabled": "false"}):
        found = plans.cost(
            stream_table.execute(stored["points"], TableSide(None, stored["changes"]), how, CYCLE, many_changes=True)
        )
    assert found == {"Exchange": 3, "BroadcastExchange": 2, "Sort": 2, "Window": 2, "BroadcastHashJoin": 5}


def test_the_whole_dataflow_needs_no_python_worker(stored: dict[str, DataFrame]) -> None:
    inputs = Inputs({"views": stored["points"]}, {"users": TableSide(stored["state"], stored["changes"])}, CYCLE)
    plan = plans.plan_of(walk.run(topology("left", ["user"]), inputs).outputs["out"])
    assert not re.search(r"Python|Pandas|Arrow|ExistingRDD|Cartesian|NestedLoop", plan), plan


def test_a_table_too_large_to_broadcast_is_joined_by_a_hash_of_the_key(
    spark: SparkSession, stored: dict[str, DataFrame], connect_mode: bool
) -> None:
    with plans.settings(spark, plans.SETTINGS):
        found = plans.cost(stream_table.execute(stored["points"], TableSide(None, stored["changes"]), "left", CYCLE))
    assert found == {"Exchange": 2, "Sort": 2, "Window": 1, "SortMergeJoin": 1}


# --- words -----------------------------------------------------------------------------------------------------------


def test_explain_says_what_costs() -> None:
    assert "stream-table left join, lookup latest" in stream_table.explain("left")
