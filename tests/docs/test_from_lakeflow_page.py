"""`docs/from-lakeflow.md`: its pipeline is built, and Spark's words are answered with methods that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.blocks import blocks, topology_of

import lakestreams
from lakestreams import Json, StreamsBuilder, Text, agg
from lakestreams.api import kafka_names, spark_names
from lakestreams.api.grouped import KGroupedStream, KGroupedTable, TimeWindowedKStream
from lakestreams.api.streams import KStream
from lakestreams.api.tables import KTable
from lakestreams.errors import UnknownMethod
from lakestreams.run.pipeline_tables import PipelineTables
from lakestreams.topology.lookups import StreamGlobalJoin

PAGE = Path(__file__).parents[2] / "docs" / "from-lakeflow.md"
CLASSES = (StreamsBuilder, KStream, KTable, KGroupedStream, KGroupedTable, TimeWindowedKStream)
METHODS = {name for one in CLASSES for name in dir(one)}
OURS = METHODS | {*dir(agg), *dir(PipelineTables), *lakestreams.__all__}
INSTEAD = spark_names.INSTEAD
NOT_METHODS = {"transformWithState"}  # of one stage of a DataFrame


def rows() -> list[tuple[str, str]]:
    found = re.findall(r"^\| (.*?) \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [(theirs, ours) for theirs, ours in found if not theirs.startswith(("-", "Lakeflow"))]


def test_its_pipeline_is_built() -> None:
    (code,) = [block.text for block in blocks(PAGE) if block.language == "python"]
    topology = topology_of(code)
    assert [sink.name for sink in topology.sinks] == ["silver.located_readings", "gold.site_hours"]
    assert [type(one) for one in topology.joins] == [StreamGlobalJoin], (
        "devices that are loaded today meet old readings"
    )


def test_methods_that_it_names_are_ours() -> None:
    code = " ".join(re.findall(r"`([^`]+)`", " ".join(ours for _, ours in rows())))
    called = set(re.findall(r"\b([a-z_]+)\(", code))
    assert len(called) > 8
    assert called <= OURS


@pytest.mark.parametrize("name", INSTEAD)
def test_a_method_of_sparks_is_answered_with_methods_that_there_are(name: str) -> None:
    builder = StreamsBuilder("shop")
    orders = builder.stream("Orders", key=Text("customer"), value=Json("amount int"))
    for one in (builder, orders, builder.table("Accounts", key=Text("customer"), value=Json("branch string"))):
        with pytest.raises(UnknownMethod) as caught:
            getattr(one, name)
        assert caught.value.hint == INSTEAD[name]
    assert set(re.findall(r"\b([a-z_]+)\(", INSTEAD[name])) <= OURS


def test_no_word_of_sparks_hides_one_of_ours_or_of_kafkas() -> None:
    assert not INSTEAD.keys() & METHODS
    assert not INSTEAD.keys() & kafka_names.INSTEAD.keys()


def test_words_of_the_page_are_answered_alike() -> None:
    methods = {name for theirs, _ in rows() for name in re.findall(r"`(?:df\.)?([a-zA-Z_]+)`", theirs)}
    assert {"select", "withColumn", "where", "union", "dropDuplicates", "withWatermark", "foreachBatch"} <= methods
    assert methods - OURS - NOT_METHODS <= INSTEAD.keys()
