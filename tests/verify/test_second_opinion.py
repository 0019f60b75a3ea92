"""The second opinion on every shape that it judges: it agrees with sound kernels, and any row too many is noticed."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

import lakestreams
from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.evaluate import walk
from lakestreams.evaluate.inputs import Inputs
from lakestreams.operators.records import ORDER_TYPE, STREAM_SIDE, TABLE_SIDE, records
from lakestreams.operators.versions import TableSide
from lakestreams.testing.small import small
from lakestreams.topology.graph import upstream
from lakestreams.topology.joins import Join
from lakestreams.verify import sql_check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS, CYCLES, RECORDS = 2, 3, 60
# source and number of a record to its key, value and time
ODD = {("H", 0): ("odd", "k1", 5), ("H", 2): ("odd", None, 5), ("H", 4): ("odd", "k2", 4), ("A", 6): ("odd", "k3", 60)}
_COLUMNS = (
    "k struct<id: string>, v struct<{value}: string>, event_time_ms bigint, stream_time_ms bigint, partition int, "
    "offset bigint, attempt int, cycle bigint"
)


def every_shape() -> Topology:
    """Each join that is judged, in each of its kinds, behind steps of many kinds; then those that are not."""
    builder = StreamsBuilder("every_shape")
    text = {"key": Text("id")}
    a = builder.stream("A", value=Text("x"), **text)
    b = builder.stream("B", value=Text("y"), **text)
    t = builder.table("T", value=Text("u"), **text)
    u = builder.table("U", value=Text("w"), **text)
    g = builder.global_table("G", value=Text("z"), **text)
    h = builder.table("H", value=Text("q"), as_of=True, history="60 ms", **text)
    many = a.flat_map_values(lambda one: [{"x": one.x}, {"x": F.lit("again")}], name="many")
    many.expect_or_drop("not_k2", "x <> 'k2'")
    some = t.filter(lambda one: one.u != "k1", name="some")
    many.left_join(some, name="lookup_left")
    a.left_join(g, left_on=lambda one: {"id": one.x}, name="global_left")
    a.join(t, right_on=lambda row: {"id": row.u}, name="fk_stream_inner")
    a.left_join(t, right_on=lambda row: {"id": row.u}, name="fk_stream_left").expect_or_drop("not_k3", "x <> 'k3'")
    a.join(b, before="40 ms", after="-10 ms", grace="20 ms", name="window_inner")
    many.outer_join(b, within="30 ms", grace="20 ms", name="window_outer")
    t.left_join(u, name="tables_left")
    some.outer_join(u, name="tables_outer")
    t.join(u, left_on=lambda row: {"id": row.u}, name="fk_inner")
    t.left_join(u, left_on=lambda row: {"id": row.u}, name="fk_left")
    h.join(t, name="no_versions")
    a.join(many, within="30 ms", name="no_overlap")
    a.join(t, name="first").to_delta("silver.out")
    return builder.build()


def every_rule() -> Topology:
    """Joins whose rows follow from clocks: every rule of windows, re-keyed sides, tables as of event time, races."""
    builder = StreamsBuilder("every_rule")
    text = {"key": Text("id")}
    a = builder.stream("A", value=Text("x"), **text)
    b = builder.stream("B", value=Text("y"), **text)
    t = builder.table("T", value=Text("u"), **text)
    h = builder.table("H", value=Text("q"), as_of=True, history="60 ms", **text)
    rekeyed, spread = a.select_key(lambda one: {"id": one.x}, name="rekeyed"), b.repartition(3, name="spread")
    rekeyed.outer_join(spread, within="30 ms", grace="20 ms", name="rekeyed_outer")
    a.left_join(b, within="30 ms", grace="20 ms", emit_unmatched="eager", name="eager_left")
    a.outer_join(b, within="30 ms", grace="20 ms", rules="kafka", name="kafka_outer")
    a.left_join(b, before="20 ms", after="-10 ms", rules="kafka", name="kafka_memory")
    a.outer_join(b, within="30 ms", rules="kafka", emit_unmatched="eager", name="kafka_eager")
    a.left_join(h, name="as_of_left")
    a.join(h, grace="30 ms", name="as_of_grace")
    rekeyed.left_join(h, grace="30 ms", name="as_of_rekeyed")
    a.join(t, wait="30 ms", name="waits")
    a.left_join(t, amend="60 ms", name="amends")
    rekeyed.left_join(t, wait="30 ms", amend="60 ms", name="waits_and_amends").to_delta("silver.out")
    topology = builder.build()
    nodes = [replace(one, store="in_memory") if one.name == "kafka_memory" else one for one in topology.nodes]
    return replace(topology, nodes=tuple(nodes))


def given(spark: SparkSession, topology: Topology, seed: int) -> Inputs:
    """A random history: keys come back, records come late and tie, some have no key or no value, one key strays.

    One key of the versioned table is odd: a deletion has the very time of the row, then an older row comes.
    """
    chance = random.Random(seed)
    streams, tables = {}, {}
    for source in topology.sources:
        time = dict.fromkeys(range(PARTITIONS), -1)
        offsets = dict.fromkeys(range(PARTITIONS), 0)
        rows = []
        for number in range(RECORDS):
            key = chance.choice([*(f"k{one}" for one in range(6)), "stray", None if number % 5 == 0 else "k0"])
            value = None if chance.randrange(6) == 0 else f"k{chance.randrange(6)}"
            ms = max(0, 10 * number - chance.choice([0, 0, 0, 10, 50, 90]))
            key, value, ms = ODD.get((source.name, number), (key, value, ms))
            partition = number % 2 if key in {"stray", "odd", None} else int(key[1:]) % PARTITIONS
            time[partition] = max(time[partition], ms)
            cycle = 1 + number * CYCLES // RECORDS
            rows.append(
                ((key,) if key else None, (value,) if value else None, ms, time[partition], partition,
                 offsets[partition], 0, cycle)
            )  # fmt: skip
            offsets[partition] += 1
        value_column = source.value.fields[0].name
        frame = spark.createDataFrame(rows, _COLUMNS.format(value=value_column))
        if source.kind == "stream":
            streams[source.name] = records(frame, source.topic, STREAM_SIDE, F.col("cycle"))
        else:
            made = records(frame.where("k is not null"), source.topic, TABLE_SIDE, F.col("cycle"))
            if source.kind == "global_table":
                made = made.withColumn("o", F.col("o").withField("stream_time_ms", F.lit(-2).cast("bigint")))
            tables[source.name] = TableSide(None, made)
    partitions = {source.topic: PARTITIONS for source in topology.sources}
    # so many changes that keys with many versions go a way of their own
    changes = dict.fromkeys(tables, 1_000)
    # in the end time goes on by itself, in small steps first, and closes all windows
    late = [
        (ms, (CYCLES, ms, STREAM_SIDE, "A", partition, RECORDS + step, -1))
        for step, ms in enumerate((570, 600, 10_000))
        for partition in range(PARTITIONS)
    ]
    ticks = {"A": spark.createDataFrame(late, f"ts bigint, o {ORDER_TYPE}")}
    return Inputs(streams, tables, cycle=1, partitions=partitions, changes=changes, raw=True, ticks=ticks)


@pytest.fixture
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def evaluated(spark: SparkSession, topology: Topology, seed: int) -> sql_check.Evaluation:
    """What the kernels gave, kept."""
    inputs = replace(given(spark, topology, seed), materialise=lambda rows: rows.localCheckpoint())
    results = walk.run(topology, inputs)
    frames = {name: rows.all() if isinstance(rows, TableSide) else rows for name, rows in results.nodes.items()}
    frames, made = (
        {name: rows.localCheckpoint() for name, rows in some.items()} for some in (frames, results.unfiltered)
    )
    return sql_check.Evaluation(frames, inputs.partitions, inputs.ticks, made)


def joins(topology: Topology) -> set[str]:
    return {node.name for node in topology.nodes if isinstance(node, Join)}


def part_of(topology: Topology, every: int) -> Topology:
    """The first join, the one so many behind it, and so on, with what feeds them."""
    names = {one.name for node in topology.joins[::every] for one in upstream(node)}
    return replace(topology, nodes=tuple(one for one in topology.nodes if one.name in names))


@pytest.mark.soak
@pytest.mark.usefixtures("_small")
def test_every_shape_agrees(spark: SparkSession) -> None:
    topology = every_shape()
    findings, notes = sql_check.judge(spark, topology, evaluated(spark, topology, seed=1))
    assert {one.what: one.examples for one in findings if one.differs} == {}
    names = {name for name in joins(topology) if not name.startswith("no_")}
    assert {one.what for one in findings} == {f"second opinion on {name}" for name in names}
    assert all(one.compared > 10 for one in findings), {one.what: one.compared for one in findings}
    assert notes[:2] == [
        "no_versions: no second opinion on this table-table join, H being versioned",
        "no_overlap: no second opinion on this stream-stream join, both sides being fed by one source",
    ]
    assert notes[2:] == [
        f"{name}: 1 keys lie in several partitions; no second opinion on their rows"
        for name in ("window_inner", "window_outer")
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize(
    ("seed", "every"), [(2, 3), *(pytest.param(seed, 1, marks=pytest.mark.soak) for seed in (2, 3, 4))]
)
def test_every_rule_agrees(spark: SparkSession, seed: int, every: int) -> None:
    topology = part_of(every_rule(), every)
    findings, notes = sql_check.judge(spark, topology, evaluated(spark, topology, seed))
    assert {one.what: one.examples for one in findings if one.differs} == {}
    assert {one.what for one in findings} == {f"second opinion on {name}" for name in joins(topology)}
    assert all(one.compared > 10 for one in findings), {one.what: one.compared for one in findings}
    left_out = dict(note.split(": ") for note in notes)
    assert set(left_out) == joins(topology) & {"eager_left", "as_of_left", "as_of_grace", "as_of_rekeyed"}
    stray = "1 keys lie in several partitions; no second opinion on their rows"
    assert left_out.pop("eager_left", stray) == stray
    (text,) = set(left_out.values())
    assert text.endswith(" keys have a deletion of the very time of their row; no second opinion on their rows")


def tampered(evaluation: sql_check.Evaluation, name: str) -> sql_check.Evaluation:
    """As if a join had given one row too few, one of other records, and one twice."""
    rows = evaluation.unfiltered.get(name, evaluation.frames[name])
    rows = rows.withColumn("of_one", F.count("*").over(Window.partitionBy("o")))
    left_out = F.coalesce(F.col("k.id").isin("stray", "odd"), F.lit(False))
    alone = Window.orderBy(left_out, F.col("of_one"), F.col("kind") == "tombstone", "o", "n")
    rows = rows.withColumn("nth", F.row_number().over(alone)).localCheckpoint()
    assert rows.where("nth <= 3 and of_one = 1 and kind <> 'tombstone'").count() == 3, name
    later = F.transform("contributors", lambda one: one.withField("offset", one["offset"] + 1_000))
    wrong = (
        rows.where("nth <> 1")
        .withColumn("contributors", F.when(F.col("nth") == 2, later).otherwise(F.col("contributors")))
        .unionByName(rows.where("nth = 3"))
        .drop("of_one", "nth")
    )
    return replace(evaluation, unfiltered={**evaluation.unfiltered, name: wrong})


@pytest.mark.soak
@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("make", [every_shape, every_rule], ids=lambda make: make.__name__)
def test_tampering_is_noticed(spark: SparkSession, make: Callable[[], Topology]) -> None:
    """A row that is changed, one that is removed and one that is there twice: each is found, and nothing else."""
    topology = make()
    evaluation = evaluated(spark, topology, seed=2)
    names = {"first", "window_outer", "fk_stream_left"} if make is every_shape else joins(topology)
    for node in topology.nodes:
        if node.name not in names:
            continue
        given_wrongly = tampered(evaluation, node.name)
        found = sql_check._SqlCheck(spark, topology, given_wrongly).on(node)
        assert found.differs == 4, (node.name, found.examples)
        sides = sorted(one.rpartition(": ")[2] for one in found.examples)
        assert sides == ["by SQL only", "by SQL only", "by the kernel only", "by the kernel only"], node.name


def test_it_shares_no_code_with_the_kernels() -> None:
    """Read from the sources: nothing that the module imports, or that these import, lies in `operators/` or calls it."""
    root = Path(lakestreams.__file__).parent
    found: set[str] = set()
    wanted = ["lakestreams.verify.sql_check"]
    while wanted:
        name = wanted.pop()
        file = root.joinpath(*name.split(".")[1:]).with_suffix(".py")
        if name in found or not file.exists():
            continue
        found.add(name)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                wanted += [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                wanted += [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
    assert {"lakestreams.verify.sql_check", "lakestreams.topology.graph"} <= found
    assert not {name for name in found if name.startswith("lakestreams.operators")}
    rooms = tuple(f"lakestreams.{room}." for room in ("costs", "engine", "evaluate", "maintenance", "verify"))
    assert {name for name in found if name.startswith(rooms)} == {
        "lakestreams.verify.comparison",
        "lakestreams.verify.sql_lookups",
        "lakestreams.verify.sql_sides",
        "lakestreams.verify.sql_tables",
        "lakestreams.verify.sql_windows",
        "lakestreams.verify.sql_check",
    }
