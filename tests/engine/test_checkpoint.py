"""A checkpoint is used only if Spark can start from it; whatever else lies there, the pipeline goes on from bronze."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.engine import tearing
from tests.engine.harness import Bench, assert_sound, at, fresh_topics, page_views

from lakestreams.engine.ingest import checkpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

TOPIC = "views"
ENDS = [10, 20, 30]
SAMPLE = 1  # of the damages that Spark itself is started on in the normal lane


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of three batches, the last of them not committed."""
    root = tmp_path_factory.mktemp("checkpoint")
    tearing.lay(root / "gen-00001", TOPIC, ENDS, committed=2)
    return root


def chosen(root: Path, position: int = 20) -> checkpoint.Generation:
    return checkpoint.choose_generation(root, [TOPIC], [(TOPIC, 0)], {(TOPIC, 0): position})


def torn(whole: Path, root: Path, one: tearing.Tearing) -> Path:
    shutil.copytree(whole, root)
    one.tear(root / "gen-00001")
    return root


def test_a_whole_checkpoint_behind_bronze_is_used(whole: Path) -> None:
    assert chosen(whole) == chosen(whole, 99) == checkpoint.Generation(whole / "gen-00001", None)


def test_a_checkpoint_ahead_of_bronze_is_not(whole: Path) -> None:
    assert chosen(whole, 19) == checkpoint.Generation(whole / "gen-00002", '{"views": {"0": 19}}')


def test_any_torn_file_that_spark_reads_gives_a_new_generation(whole: Path, tmp_path: Path) -> None:
    taken = []
    names = tearing.read_at_start(whole / "gen-00001")
    damages = [one for name in names for one in tearing.tearings(whole / "gen-00001", name)]
    for number, one in enumerate(damages):
        root = torn(whole, tmp_path / str(number), one)
        if chosen(root).starting_offsets is None:
            taken.append(one.name)
    assert len(damages) > 80
    assert taken == []


def test_a_torn_start_of_the_source_is_refused(whole: Path, tmp_path: Path) -> None:
    for number, one in enumerate(tearing.tearings(whole / "gen-00001", "sources/0/0")):
        assert chosen(torn(whole, tmp_path / str(number), one)).starting_offsets is not None, one


def test_what_spark_does_not_read_may_be_damaged(whole: Path, tmp_path: Path) -> None:
    for number, one in enumerate(tearing.harmless(whole / "gen-00001")):
        assert chosen(torn(whole, tmp_path / str(number), one)).starting_offsets is None, one


@pytest.mark.parametrize("name", ["offsets", "commits", "sources/0"])
def test_a_folder_that_is_gone(whole: Path, tmp_path: Path, name: str) -> None:
    root = shutil.copytree(whole, tmp_path / "root")
    shutil.rmtree(root / "gen-00001" / name)
    # without commits the batch before is read again, without the source's start its commits tell where to go on
    assert (chosen(root).starting_offsets is None) == (name != "offsets")


def test_a_file_in_the_place_of_a_generation(whole: Path, tmp_path: Path) -> None:
    root = shutil.copytree(whole, tmp_path / "root")
    (root / "gen-00002").write_text("not a folder")
    assert chosen(root).path == root / "gen-00003"


# --- with Spark ------------------------------------------------------------------------------------------------------


class Torn:
    """A pipeline whose checkpoint is torn again and again; each time it is the one of its first three batches."""

    def __init__(self, bench: Bench, aside: Path) -> None:
        self.bench, self.views = bench, bench.topology.sources[0].topic
        self.root = bench.lake.checkpoints(bench.topology.name)
        self.written = 0
        for _ in ENDS:
            self.produce()
        self.bench.run(max_offsets_per_trigger=1)  # a batch each
        self.whole = shutil.copytree(self.root, aside) / "gen-00001"

    def produce(self) -> None:
        """One record more."""
        self.bench.broker.produce(self.views, at(("alice", f"/{self.written}", self.written)))
        self.written += 1

    def run(self) -> list[str]:
        """One record more, and a run: what it has warned of."""
        self.produce()
        return self.bench.run().warnings

    def run_on(self, one: tearing.Tearing) -> tuple[bool, list[str]]:
        """Tears the checkpoint and runs: whether it was used, and what was warned of."""
        shutil.rmtree(self.root)
        shutil.copytree(self.whole, self.root / "gen-00001")
        one.tear(self.root / "gen-00001")
        warned = self.run()
        assert [row[1] for row in self.bench.enriched()] == [f"/{number}" for number in range(self.written)], one
        return not (self.root / "gen-00002").exists(), warned

    def damages(self) -> list[tearing.Tearing]:
        names = tearing.read_at_start(self.whole)
        return [one for name in names for one in tearing.tearings(self.whole, name)]


@pytest.fixture
def running(spark: SparkSession, broker: Broker, tmp_path: Path) -> Torn:
    return Torn(Bench(spark, broker, tmp_path / "lake", page_views(*fresh_topics(broker))), tmp_path / "whole")


def of_a_later_version(root: Path) -> None:
    """Offsets as a later Spark may write them: whole, and read by no Spark of now."""
    newest = max((root / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    tearing.write(newest, newest.read_bytes().replace(b"v1\n", b"v99\n", 1))


@pytest.mark.broker
@pytest.mark.usefixtures("small_input")
def test_a_pipeline_goes_on_whatever_is_torn(running: Torn) -> None:
    chance = random.Random(6)
    for one in chance.sample(running.damages(), SAMPLE):
        assert running.run_on(one) == (False, []), one
    used, warned = running.run_on(tearing.Tearing("a later version", of_a_later_version))
    assert not used
    assert any("could not go on from the checkpoint" in text for text in warned)
    assert_sound(running.bench)


@pytest.mark.broker
@pytest.mark.soak  # the one above has a sample of the damages; that what is harmless is used, the tests without Spark
def test_a_pipeline_goes_on_whatever_of_all_is_torn(running: Torn) -> None:
    for one in running.damages():
        assert running.run_on(one) == (False, []), one
    for one in tearing.harmless(running.whole):
        assert running.run_on(one) == (True, []), one
    assert_sound(running.bench)
