"""Sections 2 and 6 of the acceptance scenarios, on the specification: results that can be checked by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.reference.making import Event, Maker, play, slash
from tests.reference.records import Result
from tests.reference.stream_global import StreamGlobalJoin
from tests.reference.stream_stream import StrictJoin
from tests.reference.stream_stream_kafka import KafkaJoin
from tests.reference.stream_table import StreamTableJoin
from tests.reference.table_table import TableTableJoin
from tests.reference.tables import LatestTable
from tests.reference.windows import Emit, How, Windows

WINDOW = 10_000
VIEWS = [("A", 0), ("B", 1), ("C", 3), ("D", 3), ("F.1", 4), ("F.2", 4.5), ("G", 6), ("Z", 61)]
CLICKS = [("A", 1), ("C", 2), ("E", 3.5), ("F", 5), ("G.1", 7), ("G.2", 7.5), ("B", 12), ("Z", 60)]
CLICK_A_IS_GONE: Event = ("right", "A", None, 70_000)


def history() -> list[Event]:
    """Views left and clicks right in the order of time; the key is the ad, which the value's first letter names."""
    events: list[Event] = [("left", value[0], value, int(at * 1000)) for value, at in VIEWS]
    events += [("right", value[0], value, int(at * 1000)) for value, at in CLICKS]
    return sorted(events, key=lambda event: event[3])


def shown(results: Sequence[Result]) -> list[str]:
    return sorted(str(result.value) for result in results if result.key != "Z")


def windowed(how: How, emit: Emit = "on_window_close", before: int = WINDOW) -> list[Maker]:
    """Under both rule sets: on input that is in order they give the same."""
    windows = Windows(before, WINDOW)
    return [lambda: StrictJoin(how, windows, slash, emit), lambda: KafkaJoin(how, windows, slash, emit)]


def tables(how: str) -> list[Maker]:
    return [lambda: TableTableJoin([how], LatestTable(), LatestTable(), slash)]


INNER = "A/A C/C F.1/F F.2/F G/G.1 G/G.2"
EAGER = "A/. B/. D/. F.1/. F.2/. G/."
TABLES = "A/A B/B C/C F.2/F G/G.1 G/G.2"
JOINS: dict[str, tuple[list[Maker], str]] = {
    "stream-stream inner": (windowed("inner"), INNER),
    "click only after view": (windowed("inner", before=0), "A/A F.1/F F.2/F G/G.1 G/G.2"),
    "stream-stream left": (windowed("left"), f"{INNER} B/. D/."),
    "stream-stream outer": (windowed("outer"), f"{INNER} B/. D/. ./B ./E"),
    "stream-stream left, eager": (windowed("left", "eager"), f"{INNER} {EAGER}"),
    "stream-stream outer, eager": (windowed("outer", "eager"), f"{INNER} {EAGER} ./B ./C ./E"),
    "table-table inner": (tables("inner"), TABLES),
    "table-table left": (tables("left"), f"{TABLES} {EAGER}"),
    "table-table outer": (tables("outer"), f"{TABLES} {EAGER} ./C ./E"),
    "stream-table inner": ([lambda: StreamTableJoin("inner", LatestTable(), slash)], "C/C"),
    "stream-table left": (
        [lambda: StreamTableJoin("left", LatestTable(), slash)],
        "A/. B/. C/C D/. F.1/. F.2/. G/.",
    ),
}


@pytest.mark.parametrize("name", JOINS)
def test_ad_views_and_clicks(name: str) -> None:
    makers, wanted = JOINS[name]
    for make in makers:
        assert shown(play(make(), history())) == sorted(wanted.split())


@pytest.mark.parametrize(
    ("how", "wanted"), [("inner", "A/A B/B C/C F.1/F F.2/F G/G.2"), ("left", "A/A B/B C/C D/. F.1/F F.2/F G/G.2")]
)
def test_ad_views_and_clicks_when_all_clicks_are_loaded_first(how: str, wanted: str) -> None:
    join = StreamGlobalJoin(how, lambda key, _: key, lambda key, left, right, _: slash(key, left, right))
    clicks_first = sorted(history(), key=lambda event: event[0] == "left")
    assert shown(play(join, clicks_first)) == sorted(wanted.split())


@pytest.mark.parametrize(
    ("how", "wanted", "after"),
    [
        ("inner", "A/A B/B C/C F.2/F G/G.2", "B/B C/C F.2/F G/G.2"),
        ("left", "A/A B/B C/C D/. F.2/F G/G.2", "A/. B/B C/C D/. F.2/F G/G.2"),
        ("outer", "A/A B/B C/C D/. F.2/F G/G.2 ./E", "A/. B/B C/C D/. F.2/F G/G.2 ./E"),
    ],
)
def test_final_content_of_the_table_joins(how: str, wanted: str, after: str) -> None:
    for events, content in ((history(), wanted), ([*history(), CLICK_A_IS_GONE], after)):
        last = {result.key: result for result in play(tables(how)[0](), events)}
        assert shown([row for row in last.values() if row.value is not None]) == sorted(content.split())


def test_a_success_counts_as_fraud_only_after_a_failure() -> None:
    """Section 6: before = 0, after = 30 s."""
    logins: list[Event] = [
        ("right", "eve", "in-1", 5_000),  # before any failure
        ("left", "eve", "failed-1", 10_000),
        ("left", "eve", "failed-2", 20_000),
        ("right", "bob", "in-2", 25_000),  # somebody else
        ("right", "eve", "in-3", 40_000),  # 30 s after the first, 20 s after the second
        ("right", "eve", "in-4", 50_001),  # too late for both
    ]
    for make in (StrictJoin, KafkaJoin):
        join = make("inner", Windows(0, 30_000), slash)
        assert [(row.value, row.ts) for row in play(join, logins)] == [
            ("failed-1/in-3", 40_000),
            ("failed-2/in-3", 40_000),
        ]
