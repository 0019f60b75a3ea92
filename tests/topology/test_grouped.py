"""Groups, windows and buffers as users declare them: what nodes they make, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakestreams import Json, KGroupedStream, KGroupedTable, KTable, StreamsBuilder, Text, TimeWindowedKStream, agg
from lakestreams.errors import InvalidDuration, TopologyInvalid
from lakestreams.topology.derived import Aggregate, Suppress, ToTable
from lakestreams.topology.graph import is_multi_row, key_source, overlap_of, sequential_sides, takes_null_values
from lakestreams.topology.kinds import TimeWindows
from lakestreams.topology.steps import SelectKey

VALUE = Json("region string, n int")


def stream(builder: StreamsBuilder, name: str = "clicks") -> Any:
    return builder.stream(name, key=Text("user"), value=VALUE)


def table(builder: StreamsBuilder, name: str = "users") -> Any:
    return builder.table(name, key=Text("user"), value=VALUE)


def test_what_the_words_make() -> None:
    builder = StreamsBuilder("words")
    grouped = stream(builder).group_by("region")
    assert isinstance(grouped, KGroupedStream)
    assert isinstance(grouped.node, SelectKey)
    windows = grouped.windowed_by("1 minute", advance="10 s", grace="5 s")
    assert isinstance(windows, TimeWindowedKStream)
    counted = windows.count()
    assert isinstance(counted, KTable)
    assert counted.name == "clicks_group_by_count"
    assert counted.node == Aggregate(counted.name, grouped.node, "count", windows=TimeWindows(60_000, 10_000, 5_000))
    final = counted.suppress("window_closes")
    assert final.node == Suppress(f"{counted.name}_suppress", counted.node)
    assert final.node.key_windows == TimeWindows(60_000, 10_000, 5_000)
    by_region = table(builder).group_by(["region", "n"])
    assert isinstance(by_region, KGroupedTable)
    total = by_region.aggregate(lambda one: {"all": agg.sum(one.n)}, empty="delete", emit="latest")
    assert (total.node.empty, total.node.emit, total.node.verb) == ("delete", "latest", "aggregate")
    assert all(one.node.is_table for one in (counted, final, total))
    assert not total.to_stream().node.is_table
    assert total.node.key_windows is None


def test_what_follows_for_keys_and_rows() -> None:
    builder = StreamsBuilder("follows")
    clicks, users = stream(builder), table(builder)
    per_user, per_region = clicks.group_by_key().count(), users.group_by("region").count()
    assert key_source(per_user.node) == clicks.node
    assert key_source(per_region.node) is None
    assert [is_multi_row(one.node) for one in (per_user, per_region, per_user.suppress("1 s"))] == [False, True, True]
    assert is_multi_row(clicks.group_by_key().windowed_by("1 s").count(name="w").node)
    assert not takes_null_values(clicks.node, [clicks.node, per_user.node])
    assert takes_null_values(clicks.node, [clicks.node, ToTable("t", clicks.node)])


def test_what_passes_a_repartition_comes_later() -> None:
    """Users per region beside the users: the row by the shorter way comes first, wherever it was declared."""
    builder = StreamsBuilder("later")
    users = table(builder)
    counts = users.group_by("region").count()
    for join, first in ((counts.join(users, name="a"), "right_first"), (users.join(counts, name="b"), "left_first")):
        assert overlap_of(join.node, builder._nodes) == first
        assert sequential_sides(join.node)
    twice = users.join(users.map_values(lambda one: {"m": one.n}), name="c")
    assert not sequential_sides(twice.node)


Declare = Callable[[StreamsBuilder], Any]


@pytest.mark.parametrize(
    ("declare", "reason"),
    [
        (lambda b: stream(b).group_by_key().windowed_by("0 s").count(), "windows of 0 ms"),
        (lambda b: stream(b).group_by_key().windowed_by("1 s", advance="2 s").count(), "2000 ms apart"),
        (lambda b: stream(b).group_by_key().count(emit="sometimes"), "emit='sometimes' is none of"),
        (lambda b: table(b).group_by("region").count(empty="shrug"), "empty='shrug' is none of"),
        (lambda b: stream(b).group_by_key().aggregate(None), "aggregate() takes a function"),
        (lambda b: stream(b).group_by_key().reduce(3), "reduce() takes a function"),
        (lambda b: table(b).suppress("window_closes"), "no windows that could close"),
        (lambda b: table(b).suppress("1 s", max_records=0), "max_records=0 is not a count"),
        (lambda b: table(b).suppress("1 s", when_full="shutdown"), "nothing is ever full"),
        (lambda b: table(b).suppress("1 s", max_records=1, when_full="explode"), "when_full='explode' is none of"),
        (
            lambda b: stream(b).group_by_key().windowed_by("1 s").count().suppress("window_closes", max_records=9),
            "cannot come out early",
        ),
        (
            lambda b: b.table("v", key=Text("k"), value=VALUE, as_of=True).suppress("1 s"),
            "versioned: its rows cannot be held back",
        ),
    ],
)
def test_what_cannot_be_is_told_when_it_is_built(declare: Declare, reason: str) -> None:
    builder = StreamsBuilder("wrong")
    declare(builder).to_delta("out", mode="changes")
    with pytest.raises(TopologyInvalid) as raised:
        builder.build()
    assert reason in str(raised.value)


def test_a_duration_that_is_none() -> None:
    with pytest.raises(InvalidDuration, match="window_closes"):
        table(StreamsBuilder("x")).suppress("window_close")
