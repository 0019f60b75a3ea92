"""The second opinion on every shape that it judges: it agrees with sound kernels, and any row too many is noticed."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812

import lakestreams
from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.audit import second_opinion
from lakestreams.flow import dataflow
from lakestreams.joins.order import ORDER_TYPE, STREAM_SIDE, TABLE_SIDE, records
from lakestreams.joins.validity import TableSide
from lakestreams.testing.small import small
from lakestreams.topology.nodes import is_join

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS, CYCLES, RECORDS = 2, 3, 60
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
    many = a.flat_map_values(lambda one: [{"x": one.x}, {"x": F.lit("again")}], name="many")
    some = t.filter(lambda one: one.u != "k1", name="some")
    many.left_join(some, name="lookup_left")
    a.left_join(g, left_on=lambda one: {"id": one.x}, name="global_left")
    a.join(t, right_on=lambda row: {"id": row.u}, name="fk_stream_inner")
    a.left_join(t, right_on=lambda row: {"id": row.u}, name="fk_stream_left")
    a.join(b, before="40 ms", after="-10 ms", grace="20 ms", name="window_inner")
    many.outer_join(b, within="30 ms", grace="20 ms", name="window_outer")
    t.left_join(u, name="tables_left")
    some.outer_join(u, name="tables_outer")
    t.join(u, left_on=lambda row: {"id": row.u}, name="fk_inner")
    t.left_join(u, left_on=lambda row: {"id": row.u}, name="fk_left")
    a.select_key(lambda one: {"id": one.x}, name="rekeyed").join(b, within="30 ms", name="no_tasks")
    a.join(b, within="30 ms", rules="kafka", name="no_parity")
    a.join(many, within="30 ms", name="no_overlap")
    a.left_join(t, wait="30 ms", name="no_race")
    a.join(t, name="first").join(u, name="no_chain").to_delta("silver.out")
    return builder.build()


def given(spark: SparkSession, topology: Topology, seed: int) -> dataflow.Inputs:
    """A random history: keys come back, records come late and tie, some have no key or no value, one key strays."""
    chance = random.Random(seed)
    streams, tables = {}, {}
    for source in topology.sources:
        time = dict.fromkeys(range(PARTITIONS), -1)
        offsets = dict.fromkeys(range(PARTITIONS), 0)
        rows = []
        for number in range(RECORDS):
            key = chance.choice([*(f"k{one}" for one in range(6)), "stray", None if number % 5 == 0 else "k0"])
            partition = number % 2 if key in {"stray", None} else int(key[1:]) % PARTITIONS
            value = None if chance.randrange(6) == 0 else f"k{chance.randrange(6)}"
            ms = max(0, 10 * number - chance.choice([0, 0, 0, 10, 50, 90]))
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
    # in the end time goes on by itself and closes all windows
    late = [(10_000, (CYCLES, 10_000, STREAM_SIDE, "A", partition, RECORDS, -1)) for partition in range(PARTITIONS)]
    ticks = {"A": spark.createDataFrame(late, f"ts bigint, o {ORDER_TYPE}")}
    return dataflow.Inputs(streams, tables, cycle=1, partitions=partitions, changes=changes, raw=True, ticks=ticks)


@pytest.fixture
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


@pytest.mark.soak
@pytest.mark.usefixtures("_small")
def test_every_shape_agrees_and_a_row_too_many_is_noticed(spark: SparkSession) -> None:
    topology = every_shape()
    inputs = given(spark, topology, seed=1)
    nodes = dataflow.run(topology, inputs).nodes
    frames = {name: rows.all() if isinstance(rows, TableSide) else rows for name, rows in nodes.items()}
    findings, notes = second_opinion.judge(spark, topology, frames, inputs.partitions, inputs.ticks, {})
    assert {one.what: one.examples for one in findings if one.differs} == {}
    judged = {node.name for node in topology.nodes if is_join(node) and not node.name.startswith("no_")}
    assert {one.what for one in findings} == {f"second opinion on {name}" for name in judged}
    assert all(one.compared > 10 for one in findings), {one.what: one.compared for one in findings}
    assert notes[:5] == [
        "no_tasks: no second opinion on this stream-stream join, a side being re-keyed: its tasks are hashes of the key",
        "no_parity: no second opinion on this stream-stream join, its rules being kafka, its unmatched rows on_window_close",
        "no_overlap: no second opinion on this stream-stream join, both sides being fed by one source",
        "no_race: no second opinion on this stream-table join, its records waiting for rows that come after them",
        "no_chain: no second opinion on this stream-table join, first being made by a join, an aggregation or a buffer",
    ]
    assert notes[5:] == [
        f"{name}: 1 keys lie in several partitions; no second opinion on their rows"
        for name in ("window_inner", "window_outer")
    ]

    opinion = second_opinion._Opinion(spark, topology, frames, inputs.partitions, inputs.ticks, {})
    for node in topology.nodes:
        if node.name in {"first", "window_outer", "tables_outer", "fk_left"}:
            rows = frames[node.name]
            opinion._frames = {
                **frames,
                node.name: rows.unionByName(rows.where("kind = 'matched'").orderBy("k", "o", "n").limit(1)),
            }
            assert opinion.on(node).differs, node.name


def test_it_shares_no_code_with_the_kernels() -> None:
    """Read from the sources: nothing that the module imports, or that these import, lies in `joins/` or calls it."""
    root = Path(lakestreams.__file__).parent
    found: set[str] = set()
    wanted = ["lakestreams.audit.second_opinion"]
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
    assert {"lakestreams.audit.second_opinion", "lakestreams.topology.graph"} <= found
    assert not {name for name in found if name.startswith(("lakestreams.joins", "lakestreams.tables"))}
    rooms = tuple(f"lakestreams.{room}." for room in ("audit", "costs", "engine", "flow", "upkeep"))
    assert {name for name in found if name.startswith(rooms)} == {
        "lakestreams.audit.second_opinion",
        "lakestreams.audit.finding",
    }
