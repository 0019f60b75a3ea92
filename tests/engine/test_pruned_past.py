"""A few new records beside much that is retained: only what they reach of it is joined, and results stay what they are.

The real bronze, ledger, cycles and stored state, batches made by hand; and the recorded cases, cut at random places.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance.__main__ import DEFAULT
from tests.conformance.cases import load
from tests.conformance.executors import EXECUTORS
from tests.conformance.runner import run
from tests.conformance.topologies import kind_of
from tests.engine.harness import SILVER, assert_ledger_sound, facts
from tests.engine.test_cuts import STREAM, TABLE, USERS, VIEWS, Log, Record, Rig, chunks
from tests.sampling import chosen

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.evaluate import joins, lookups, sides
from lakestreams.operators.stream_stream import pruning
from lakestreams.topology.joins import WindowedJoin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("small_input")


def clicks(how: str) -> Topology:
    builder = StreamsBuilder("clicks")
    left = builder.stream(VIEWS, key=Text("user"), value=Text("page"))
    right = builder.stream(USERS, key=Text("user"), value=Text("region"))
    sides = {"within": "30 ms", "grace": "10 ms"}
    joined = left.left_join(right, **sides) if how == "left" else left.outer_join(right, **sides)
    joined.to_delta(SILVER)
    return builder.build()


def as_of(how: str) -> Topology:
    """`grace`: the views wait."""
    builder = StreamsBuilder("as_of")
    views = builder.stream(VIEWS, key=Text("user"), value=Text("page"))
    users = builder.table(USERS, key=Text("user"), value=Text("region"), as_of=True, history="60 ms")
    views.left_join(users, **({"grace": "20 ms"} if how == "grace" else {})).to_delta(SILVER)
    return builder.build()


def make_log(seed: int, size: int, side: int = STREAM) -> Log:
    """Two topics of two partitions, equal keys in equal ones; times out of order, some of them late.

    Args:
        side: of the second topic.
    """
    rng = random.Random(seed)
    clocks, offsets, records = [0, 0], dict[tuple[str, int], int](), list[Record]()
    for number in range(size):
        topic, key = rng.choice([VIEWS, USERS]), rng.randrange(size // 2)
        at = topic, key % 2
        clocks[at[1]] += rng.randint(0, 4)
        ts = max(0, clocks[at[1]] - rng.choice([0, 0, 0, 5, 60]))
        offset = offsets[at] = offsets.get(at, -1) + 1
        value = None if rng.random() < 0.05 else f"{topic[0]}{number}"
        records.append(Record(*at, offset, ts, f"user{key}", value, side if topic == USERS else STREAM))
    return Log(tuple(records), {at: offset + 1 for at, offset in offsets.items()})


def in_one_batch(spark: SparkSession, root: Path, topology: Topology, log: Log) -> Rig:
    whole = Rig(spark, root / "whole", topology, log)
    whole.run([log.records])
    whole.driver.end()
    return whole


def require_same_in_batches(whole: Rig, spark: SparkSession, root: Path, topology: Topology, count: int) -> None:
    """The same log in so many batches gives the same tables, the state stored behind every second of them."""
    rig = Rig(spark, root / "cut", topology, whole.log, snapshot_every=2)
    rig.run(list(chunks(whole.log.records, count)))
    rig.driver.end()
    assert facts(rig.bench) == facts(whole.bench)
    assert_ledger_sound(rig.bench)


@pytest.fixture
def pruned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Prunes however little is retained; how many rows were reached each time, and how many there were."""
    seen: list[tuple[int, int]] = []
    real = joins.Shapes._with_reached

    def noting(self: Any, node: WindowedJoin, *rest: Any) -> Any:
        found = real(self, node, *rest)
        retained = sum(rows.count() for rows in self.inputs.retained.get(node.name, {}).values())
        seen.append((self.results.pruned.get(node.name, -1), retained))
        return found

    monkeypatch.setattr(lookups, "MANY_RETAINED", 1)
    monkeypatch.setattr(lookups, "FILTER_RATIO", 1e9)
    monkeypatch.setattr(joins.Shapes, "_with_reached", noting)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "seed", "size"), [pytest.param("left", 1, 120, marks=pytest.mark.soak), ("outer", 2, 60)]
)
def test_rounds_beside_a_stored_past(
    spark: SparkSession, tmp_path: Path, pruned: list[tuple[int, int]], how: str, seed: int, size: int
) -> None:
    """As many batches as one, the state stored behind every second of them; nothing stays in memory behind the run."""
    log = make_log(seed, size)
    whole = in_one_batch(spark, tmp_path, clicks(how), log)
    assert not pruned, "nothing was retained"
    require_same_in_batches(whole, spark, tmp_path, clicks(how), 5)
    assert len(pruned) > 2
    assert min(pruned)[0] >= 0, "they were counted"
    assert sum(reached for reached, _ in pruned) < sum(retained for _, retained in pruned)
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["grace", pytest.param("at once", marks=pytest.mark.soak)])
def test_versions_that_no_point_asks_for_stay_where_they_are(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    seen: list[tuple[int, int]] = []
    real = lookups.Lookups._extracted

    def noting(self: Any, node: Any, rows: Any, waits: int) -> Any:
        found = real(self, node, rows, waits)
        seen.append(
            (self.results.pruned[node.name], sum(one.count() for one in self.inputs.retained[node.name].values()))
        )
        return found

    monkeypatch.setattr(lookups, "MANY_RETAINED", 1)
    monkeypatch.setattr(lookups, "FILTER_RATIO", 1e9)
    monkeypatch.setattr(lookups.Lookups, "_extracted", noting)
    log = make_log(3, 60, TABLE)
    whole = in_one_batch(spark, tmp_path, as_of(how), log)
    assert not seen, "nothing was retained"
    monkeypatch.setattr(sides, "ROWS_OF_A_WORKER", 6)  # so what is kept of all versions goes by key
    require_same_in_batches(whole, spark, tmp_path, as_of(how), 5)
    assert len(seen) > 2
    assert sum(reached for reached, _ in seen) < sum(retained for _, retained in seen)


@pytest.mark.soak  # the rounds above show a pruned past, and conformance these cases in pieces
@pytest.mark.parametrize(("how", "most"), [("inner", 12), ("any", 1_000)])
def test_recorded_cases_with_a_pruned_past(
    spark: SparkSession, pruned: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, how: str, most: int
) -> None:
    """Of those that say what strict rules give of two streams, in three pieces each. All are in `make soak`.

    Each kind of join is a plan of its own, and that is what takes time: the rounds above have the outer one.
    """
    del spark
    monkeypatch.setattr(joins.Shapes, "_small_input", lambda _, node: isinstance(node, WindowedJoin))
    cases, _ = load(DEFAULT)
    strict = [case for case in cases if case.join == "stream-stream" and case.expected_strict is not None]
    of_one_kind = [case for case in strict if case.how == how and case.params.window_store == "rocksdb"]
    sample = chosen(strict if how == "any" else of_one_kind, most)
    report = run(sample, EXECUTORS["cuts"](20261127), "strict")
    assert report.failed == {}, "\n".join(report.lines())
    assert len(report.passed) == len(sample) > 10
    assert len(pruned) > 2 * len({kind_of(case, "strict") for case in sample})


def test_rows_without_a_key_stand_for_the_clocks(spark: SparkSession) -> None:
    """One row a task: behind its past, before what is new."""
    past = spark.sql(
        "select named_struct('k', 'a') k, named_struct('v', 1) v, id ts, named_struct('cycle', 4L, 'stream_time_ms', id,"
        " 'side', 1, 'source', 't', 'partition', 0, 'offset', id, 'attempt', 0) o, 0 n, 'record' kind,"
        " array(named_struct('source', 't', 'partition', 0, 'offset', id, 'attempt', 0)) contributors,"
        " cast(id % 2 as int) task, id clock, cast(null as bigint) left_time, cast(null as bigint) right_time,"
        " id + 1 horizon from range(10)"
    )
    rows = pruning.clock_rows(pruning.last_clocks((past, past)), past, since=5)
    assert rows.schema.simpleString() == past.schema.simpleString()
    found = sorted((row.task, row.clock, row.horizon, row.o.cycle, row.o.stream_time_ms) for row in rows.collect())
    assert found == [(0, 8, 9, 4, 9), (1, 9, 10, 4, 10)]
    assert rows.where("k is not null or v is not null").isEmpty()
