"""`docs/from-kafka-streams.md`: its tables are generated, and every join and verb in them is ours."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from tests.docs.blocks import blocks

import lakestreams
from lakestreams import StreamsBuilder
from lakestreams.api.grouped import KGroupedStream, KGroupedTable, TimeWindowedKStream
from lakestreams.api.streams import KStream
from lakestreams.api.tables import KTable
from lakestreams.errors import CoPartitioningRequired
from lakestreams.topology import joins, lookups
from lakestreams.topology.partitions import co_partitioning

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "from-kafka-streams.md"
CLASSES = {
    one.__name__: one for one in (StreamsBuilder, KStream, KTable, KGroupedStream, KGroupedTable, TimeWindowedKStream)
}
_SHAPES = {"WindowedJoin", "StreamTableJoin", "StreamGlobalJoin", "TableTableJoin", "ForeignKeyJoin"}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("from_kafka_streams")


def declared() -> dict[str, Any]:
    (code,) = [block.text for block in blocks(PAGE) if block.language == "python"]
    names: dict[str, Any] = {}
    exec(compile(code, PAGE.name, "exec"), names)
    return names


def test_the_tables_are_up_to_date(script: Any) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert script.page(text) == text, "run: python scripts/from_kafka_streams.py"
    assert len(re.findall(r"<!-- made by scripts/from_kafka_streams\.py: \w+ -->", text)) == 2


def test_every_join_is_built_and_judged_as_the_table_says(script: Any) -> None:
    for join in script.JOINS:
        names = declared()
        exec(f"{join.python}.to_delta('out')", names)
        topology = names["builder"].build()
        (made,) = topology.joins
        assert (type(made).__name__, made.how) == (join.shape, join.how), join.python
        counts = {source.topic: 2 + place for place, source in enumerate(topology.sources)}
        faults, _ = co_partitioning(topology.nodes, counts)
        assert [type(one) for one in faults] == [CoPartitioningRequired] * join.equal_partitions, join.python


def test_no_join_of_theirs_is_missing(script: Any) -> None:
    assert {join.shape for join in script.JOINS} == _SHAPES
    assert all(hasattr(joins, name) or hasattr(lookups, name) for name in _SHAPES)
    hows = {shape: [join.how for join in script.JOINS if join.shape == shape] for shape in _SHAPES}
    both = ["inner", "left"]
    assert hows == dict.fromkeys(_SHAPES, both) | {key: [*both, "outer"] for key in ("WindowedJoin", "TableTableJoin")}


def test_every_verb_is_there(script: Any) -> None:
    for of, theirs, ours in script.VERBS:
        assert hasattr(CLASSES[of], ours), f"{of}.{ours}"
        if ours != "to_delta":
            assert ours == re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", theirs)
    assert lakestreams.StreamsBuilder is StreamsBuilder
