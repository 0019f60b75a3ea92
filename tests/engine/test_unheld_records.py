"""Many records that one step alone reads come from bronze each time, in place of being held; results stay what they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.engine.harness import SILVER, assert_ledger_sound, facts
from tests.engine.test_cuts import STREAM, TABLE, USERS, VIEWS, Log, Rig, chunks
from tests.engine.test_pruned_past import clicks, in_one_batch, make_log

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.engine.state import inputs
from lakestreams.evaluate import lookups, sides
from lakestreams.operators.stream_stream import frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.operators.windows import Windowed


def paid(*, by: str = "foreign key", also: str = "") -> Topology:
    """Two tables; `also`: what is done with the first one or with the join besides."""
    builder = StreamsBuilder("paid")
    left = builder.table(VIEWS, key=Text("user"), value=Text("page"), name="views")
    right = builder.table(USERS, key=Text("user"), value=Text("region"), name="users")
    if also == "filtered":
        left = left.filter(lambda view: view.page != "none")
    if by == "foreign key":
        joined = left.left_join(right, left_on=lambda view: F.concat(F.lit("user"), F.substring(view.page, 2, 9)))
    else:
        joined = left.left_join(right)
    if also == "rows dropped":
        left.expect_or_drop("long", "length(page) > 1")
    joined.to_delta(SILVER, mode="merge")
    if also == "outputs":
        joined.to_delta("silver.again", mode="merge")
    if also == "count":
        joined.group_by(lambda row: row.page).count().to_delta("silver.counts", mode="merge")
    if also == "output":
        left.to_delta("silver.views", mode="merge")
    if also == "join":
        left.join(right).to_delta("silver.more", mode="merge")
    return builder.build()


@pytest.mark.parametrize(
    ("topology", "wanted"),
    [
        (clicks("left"), [True, True]),
        (paid(), [True, True]),
        (paid(by="equal keys"), [True, True]),
        (paid(also="filtered"), [True, True]),
        (paid(also="output"), [False, True]),
        (paid(also="join"), [False, False]),
        (paid(also="rows dropped"), [False, True]),
        (paid(also="outputs"), [False, False]),
        (paid(also="count"), [False, False]),
    ],
    ids=[
        "window",
        "foreign key",
        "equal keys",
        "filtered",
        "an output of its own",
        "two joins",
        "rows dropped",
        "two outputs",
        "a count behind the join",
    ],
)
def test_who_reads_a_source_decides(topology: Topology, wanted: list[bool]) -> None:
    assert [inputs._is_read_once(topology, source) for source in topology.sources] == wanted


def test_both_sides_of_a_join_with_itself_are_two_readers() -> None:
    builder = StreamsBuilder("twice")
    stream = builder.stream(VIEWS, key=Text("user"), value=Text("page"))
    stream.join(stream, within="1 s").to_delta(SILVER)
    topology = builder.build()
    assert not inputs._is_read_once(topology, topology.sources[0])


@pytest.mark.soak  # test_noted_homes has two rounds of a window
@pytest.mark.usefixtures("small_input")
@pytest.mark.parametrize("shape", ["window", "pruned window", "foreign key"])
def test_so_do_results(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str) -> None:
    """Three batches, the state stored behind each, against one whose records are few."""
    topology, log = (clicks("outer"), make_log(4, 40)) if "window" in shape else (paid(), tables(make_log(5, 40)))
    whole = in_one_batch(spark, tmp_path, topology, log)
    near: list[DataFrame] = []

    def noting(both: DataFrame, join: Windowed, reached: DataFrame) -> DataFrame:
        near.append(real(both, join, reached))
        return near[-1]

    real = frames.near_the_end
    monkeypatch.setattr(frames, "near_the_end", noting)
    if shape == "pruned window":
        monkeypatch.setattr(lookups, "MANY_RETAINED", 1)
        monkeypatch.setattr(lookups, "FILTER_RATIO", 1e9)
    monkeypatch.setattr(inputs, "ROWS_OF_A_WORKER", 2)
    monkeypatch.setattr(sides, "ROWS_OF_A_WORKER", 6)
    cut = Rig(spark, tmp_path / "cut", topology, whole.log, snapshot_every=1)
    cut.run(list(chunks(whole.log.records, 3)))
    cut.driver.end()
    assert facts(cut.bench) == facts(whole.bench)
    assert_ledger_sound(cut.bench)
    assert bool(near) == ("window" in shape)


def tables(log: Log) -> Log:
    """The same records as those of two tables; the first one's values name keys of the second."""
    records = [replace(one, side=TABLE) if one.side == STREAM else one for one in log.records]
    return replace(log, records=tuple(records))
