"""Section 2 of the acceptance scenarios: ad views and clicks through every join, as `docs/joins.md` shows them.

Key = ad id, a record a second or so; the window is 10 s, views stand on the left. `view/click`; a dot is a missing side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.testing import TopologyTestDriver
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "joins.md"

# What was seen or clicked, and the second; the ad is its first letter. Z comes when every window has long closed.
VIEWS = (("A", 0), ("B", 1), ("C", 3), ("D", 3), ("F.1", 4), ("F.2", 4.5), ("G", 6), ("Z", 61))
CLICKS = (("A", 1), ("C", 2), ("E", 3.5), ("F", 5), ("G.1", 7), ("G.2", 7.5), ("B", 12), ("Z", 60))
EVENTS = {"AdViews": VIEWS, "AdClicks": CLICKS}
TOMBSTONE_AT = 70

INNER = "A/A C/C F.1/F F.2/F G/G.1 G/G.2"
LEFT_EAGER = f"{INNER} A/. B/. D/. F.1/. F.2/. G/."
TABLE_INNER = "A/A B/B C/C F.2/F G/G.1 G/G.2"
TABLE_LEFT = f"{TABLE_INNER} A/. B/. D/. F.1/. F.2/. G/."
GLOBAL_INNER = "A/A B/B C/C F.1/F F.2/F G/G.2"

DECLARED = {
    "views": 'views = builder.stream("AdViews", key=Text("ad"), value=Text("view"))',
    "clicks": 'clicks = builder.stream("AdClicks", key=Text("ad"), value=Text("click"))',
    "view_table": 'view_table = builder.table("AdViews", key=Text("ad"), value=Text("view"))',
    "click_table": 'click_table = builder.table("AdClicks", key=Text("ad"), value=Text("click"))',
    "all_clicks": 'all_clicks = builder.global_table("AdClicks", key=Text("ad"), value=Text("click"))',
}


@dataclass(frozen=True)
class Row:
    """A join, how it is written, and all that it gives."""

    join: str
    written: str
    result: str


# fmt: off
EAGER = 'within="10 seconds", emit_unmatched="eager"'
TABLE = (
    Row("stream-stream inner",                    'views.join(clicks, within="10 seconds")',          INNER),
    Row("stream-stream inner, click only after",  'views.join(clicks, after="10 seconds")',           "A/A F.1/F F.2/F G/G.1 G/G.2"),
    Row("stream-stream left, on window close",    'views.left_join(clicks, within="10 seconds")',     f"{INNER} B/. D/."),
    Row("stream-stream outer, on window close",   'views.outer_join(clicks, within="10 seconds")',    f"{INNER} B/. D/. ./B ./E"),
    Row("stream-stream left, eager",              f"views.left_join(clicks, {EAGER})",                LEFT_EAGER),
    Row("stream-stream outer, eager",             f"views.outer_join(clicks, {EAGER})",               f"{LEFT_EAGER} ./B ./C ./E"),
    Row("table-table inner, each change",         "view_table.join(click_table)",                     TABLE_INNER),
    Row("table-table left, each change",          "view_table.left_join(click_table)",                TABLE_LEFT),
    Row("table-table outer, each change",         "view_table.outer_join(click_table)",               f"{TABLE_LEFT} ./C ./E"),
    Row("stream-table inner",                     "views.join(click_table)",                          "C/C"),
    Row("stream-table left",                      "views.left_join(click_table)",                     "A/. B/. C/C D/. F.1/. F.2/. G/."),
    Row("stream-global inner, clicks loaded first", 'views.join(all_clicks, left_on="ad")',           GLOBAL_INNER),
    Row("stream-global left, clicks loaded first",  'views.left_join(all_clicks, left_on="ad")',      f"{GLOBAL_INNER} D/."),
)


@dataclass(frozen=True)
class Content:
    """What a table join holds at the end, and after a tombstone for click A."""

    written: str
    content: str
    without_click_a: str


CONTENTS = (
    Content("view_table.join(click_table)",       "A/A B/B C/C F.2/F G/G.2",         "B/B C/C F.2/F G/G.2"),
    Content("view_table.left_join(click_table)",  "A/A B/B C/C D/. F.2/F G/G.2",     "A/. B/B C/C D/. F.2/F G/G.2"),
    Content("view_table.outer_join(click_table)", "A/A B/B C/C D/. F.2/F G/G.2 ./E", "A/. B/B C/C D/. F.2/F G/G.2 ./E"),
)
# fmt: on


@pytest.fixture(scope="module", autouse=True)
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def topology_of(written: str) -> Topology:
    """The topology of a line as it stands in the table, with the sources that it names."""
    builder = StreamsBuilder("ads")
    names: dict[str, Any] = {"builder": builder, "Text": Text}
    for source, declaration in DECLARED.items():
        if re.search(rf"\b{source}\b", written):
            exec(declaration, names)
    eval(written, names).to_delta("out")
    return builder.build()


def piped(topology: Topology, spark: SparkSession) -> TopologyTestDriver:
    """A driver that all views and clicks have gone through by their time; a global table's clicks come first."""
    driver = TopologyTestDriver(topology, spark)
    events = [
        (source.kind != "global_table", at, source.name, name)
        for source in topology.sources
        for name, at in EVENTS[source.topic]
    ]
    for _, at, source, name in sorted(events):
        driver.pipe(source, name[0], name, int(at * 1000))
    return driver


def pair(value: dict[str, Any]) -> str:
    return f"{value['view'] or '.'}/{value['click'] or '.'}"


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.join)
def test_each_join_gives_what_the_scenario_says(row: Row, spark: SparkSession) -> None:
    driver = piped(topology_of(row.written), spark)
    shown = [pair(result.value) for result in driver.read() if result.key != "Z"]
    assert sorted(shown) == sorted(row.result.split())


@pytest.mark.parametrize("row", CONTENTS, ids=lambda row: row.written)
def test_a_table_join_holds_what_the_scenario_says(row: Content, spark: SparkSession) -> None:
    driver = piped(topology_of(row.written), spark)
    assert held(driver) == sorted(row.content.split())
    driver.pipe("AdClicks", "A", None, TOMBSTONE_AT * 1000)
    assert held(driver) == sorted(row.without_click_a.split())


def held(driver: TopologyTestDriver) -> list[str]:
    return sorted(pair(value) for key, value in driver.table().items() if key != "Z")


# --- the page --------------------------------------------------------------------------------------------------------


def shown(*head: str, rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def test_the_page_shows_what_was_run() -> None:
    text = PAGE.read_text(encoding="utf-8")
    declarations = "\n".join(['builder = StreamsBuilder("ads")', *DECLARED.values()])
    results = [(row.join, f"`{row.written}`", row.result) for row in TABLE]
    contents = [(f"`{row.written}`", row.content, row.without_click_a) for row in CONTENTS]
    for part in (
        f"```python\nfrom lakestreams import StreamsBuilder, Text\n\n{declarations}\n```",
        shown("join", "written", "result", rows=results),
        shown("join", "content", "after a tombstone for click A", rows=contents),
    ):
        assert part in text, f"docs/joins.md should hold:\n{part}"


@pytest.mark.parametrize(("what", "events"), [("view", VIEWS), ("click", CLICKS)])
def test_the_page_names_every_record(what: str, events: tuple[tuple[str, float], ...]) -> None:
    line = " · ".join(f"{name} {at:g}" for name, at in events)
    assert f"{what}s, at second: {line}" in PAGE.read_text(encoding="utf-8")
