"""The pages of `docs/scenarios` do what they show: their code is run, their records piped, their results compared.

A page is read from top to bottom. A block of Python makes a topology. What a table behind it is, its head says:

- `record | topic | key | value | time`: what is piped, bytes as they stand; record 1 starts anew.
- `after | ... | time`: all that an output gives, each result after the record that caused it.
- `after | click | ...`: what an output holds after each of these records, a column a key.
- `record | step | code`: all that is refused.
- any other: what an output holds in the end.

The paragraph above a table names the output. A page cannot show a table that is not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from tests.docs.blocks import blocks, topology_of
from tests.topology.checked import outputs_of

from lakestreams import Long, Topology
from lakestreams.evaluate.outputs import RESERVED
from lakestreams.testing import Result, TopologyTestDriver
from lakestreams.testing.difference import difference, text_of
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.formats.base import Format

FOLDER = Path(__file__).parents[2] / "docs" / "scenarios"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name != "README.md")

PIPED = ("record", "topic", "key", "value", "time")
REFUSED = ("record", "step", "code")
AFTER, CLICK, TIME = "after", "click", "time"
NULL, DELETED, NO_TIME = "null", "deleted", "none"
_PART = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$|(?P<table>(?:^\|[^\n]*\n)+)", re.MULTILINE | re.DOTALL)
_TIME = re.compile(r"(\d+):([0-5]\d)(?:\.(\d{3}))?")

Row = tuple[str, ...]


@dataclass(frozen=True)
class Shown:
    """A table of a page: the output it is of ("" if of none), its head, its rows."""

    output: str
    head: Row
    rows: list[Row]


@dataclass
class Story:
    """Records that go through a topology, and what the page shows of it."""

    page: str
    topology: Topology
    records: list[Row] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)

    def of(self, output: str) -> list[Shown]:
        return [one for one in self.shown if one.output == output]


# --- reading ---------------------------------------------------------------------------------------------------------


def stories(page: Path) -> Iterator[Story]:
    """The stories of a page, in its order; a topology whose records start anew is in several."""
    text = page.read_text(encoding="utf-8")
    story: Story | None = None
    for part in _PART.finditer(text):
        if part["language"] == "python":
            if story is not None:
                yield story
            story = Story(page.stem, topology_of(part["code"]))
        elif part["table"]:
            assert story is not None, f"{page.name}: a table before any topology"
            head, _, *rows = (cells(line) for line in part["table"].splitlines())
            if head == PIPED and rows[0][0] == "1" and story.records:
                yield story
                story = Story(page.stem, story.topology)
            if head == PIPED:
                story.records += rows
            else:
                caption = text[: part.start()].rstrip().rpartition("\n\n")[2]
                story.shown.append(Shown("" if head == REFUSED else output_of(caption, story.topology), head, rows))
    if story is not None:
        yield story


def cells(line: str) -> Row:
    return tuple(cell.strip().strip("`") for cell in line.strip()[1:-1].split("|"))


def output_of(caption: str, topology: Topology) -> str:
    named = [sink.name for sink in topology.sinks if f"`{sink.name}`" in caption]
    assert len(named) == 1, f"the paragraph above a table names one output:\n{caption}"
    return named[0]


def ms_of(time: str) -> int:
    if time == NO_TIME:
        return -1
    found = _TIME.fullmatch(time)
    assert found, f"{time!r} is no time"
    minutes, seconds, ms = (int(part or 0) for part in found.groups())
    return (minutes * 60 + seconds) * 1000 + ms


def time_of(ms: int) -> str:
    seconds, rest = divmod(ms, 1000)
    return f"{seconds // 60}:{seconds % 60:02}" + (f".{rest:03}" if rest else "")


def bytes_of(cell: str, how: Format) -> Any:
    """What is piped: the bytes as they stand; of a Long, a number."""
    if cell == NULL:
        return None
    return int(cell) if isinstance(how, Long) else cell.encode()


def cell_of(value: Any) -> str:
    if value is None:
        return NULL
    return text_of(value) if isinstance(value, list | dict) else str(value)


ALL = [story for page in PAGES for story in stories(page)]


# --- running ---------------------------------------------------------------------------------------------------------


def piped(story: Story, spark: SparkSession) -> TopologyTestDriver:
    driver = TopologyTestDriver(story.topology, spark)
    sources = {source.topic: source for source in story.topology.sources}
    for _, topic, key, value, time in story.records:
        source = sources[topic]
        driver.pipe(source.name, bytes_of(key, source.key), bytes_of(value, source.value), ms_of(time))
    return driver


def as_shown(result: Result, count: int) -> Row:
    """A result as a row `after, key, as many columns of the value, time`."""
    values = [DELETED, *[""] * (count - 1)]
    if result.value is not None:
        values = [cell_of(value) for value in result.value.values()]
    return (str(result.cause + 1), cell_of(result.key), *values, time_of(result.timestamp))


def held_after(story: Story, results: Sequence[Result], head: Row) -> list[Row]:
    """What an output of one column holds after each record that changed it: `after, click, a column a key`."""
    held: dict[str, str] = {}
    rows = []
    for result in results:
        assert result.value is not None
        (value,) = result.value.values()
        held[cell_of(result.key)] = cell_of(value)
        _, _, key, clicks, _ = story.records[result.cause]
        rows.append((str(result.cause + 1), f"{key} {clicks}", *(held.get(name, "") for name in head[2:])))
    assert held.keys() <= set(head[2:]), "the head has a column for each key"
    return rows


def require_equal(table: str, head: Row, shown: Sequence[Row], got: Sequence[Row]) -> None:
    found = difference(head, shown, got, ("page", "run"))
    assert found is None, f"{table}\n{found}"


@pytest.mark.slow
@pytest.mark.parametrize("story", ALL, ids=lambda story: f"{story.page}-{story.topology.name}")
def test_what_goes_in_gives_what_is_shown(story: Story, spark: SparkSession) -> None:
    with small(spark):
        driver = piped(story, spark)
        refused = [(str(one.cause + 1), one.node, one.code) for one in driver.refused()]
        require_equal("refused", REFUSED, [row for one in story.of("") for row in one.rows], refused)
        for output, frame in outputs_of(story.topology, spark).items():
            results = driver.read(output)
            columns = tuple(name for name in frame.columns if name not in RESERVED)
            for shown in story.of(output):
                if shown.head[:2] == (AFTER, CLICK):
                    got = held_after(story, results, shown.head)
                elif shown.head[0] == AFTER:
                    assert shown.head == (AFTER, *columns, TIME)
                    got = [as_shown(one, len(columns) - 1) for one in results]
                else:
                    assert shown.head == columns
                    table = driver.table(output)
                    got = sorted((cell_of(key), *map(cell_of, value.values())) for key, value in table.items())
                require_equal(output, shown.head, shown.rows, got)


# --- the pages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("story", ALL, ids=lambda story: f"{story.page}-{story.topology.name}")
def test_a_story_shows_every_output_and_numbers_its_records(story: Story) -> None:
    assert [row[0] for row in story.records] == [str(number + 1) for number in range(len(story.records))]
    assert {one.output for one in story.shown} - {""} == {sink.name for sink in story.topology.sinks}
    for shown in story.shown:
        assert all(len(row) == len(shown.head) for row in shown.rows), shown.head


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_is_listed_and_leads_to_how_it_is_read(page: Path) -> None:
    assert f"]({page.name})" in (FOLDER / "README.md").read_text(encoding="utf-8")
    assert re.search(r"\[How the tables are\s+read\]\(README\.md\)", page.read_text(encoding="utf-8"))


# --- SQL -------------------------------------------------------------------------------------------------------------


def test_each_event_of_order_completion_gets_what_sql_says() -> None:
    """DuckDB holds the tables; each event asks it the page's statement. That the page's rows come out is tested above."""
    page = FOLDER / "order-completion.md"
    (statement,) = [block.text for block in blocks(page) if block.language == "sql"]
    (story,) = stories(page)
    (shown,) = story.of("silver.completed_order_rows")
    names = {"Orders": "orders", "OrderDetails": "details", "OrderEvents": "event"}
    sources = {source.topic: source for source in story.topology.sources}
    sql = duckdb.connect()
    for topic, source in sources.items():
        key = source.key.fields[0].name
        declared = ", ".join(f"{one.name} {one.type.replace('string', 'varchar')}" for one in source.value.fields)
        sql.execute(f"create table {names[topic]} ({key} varchar primary key, {declared})")
    got = []
    for record, topic, key, value, time in story.records:
        name, source = names[topic], sources[topic]
        sql.execute("delete from event")
        sql.execute(f"delete from {name} where {source.key.fields[0].name} = $1", [key])
        if value != NULL:
            read = [f"json_extract_string($2, '$.{one.name}')" for one in source.value.fields]
            values = ["$2"] if topic == "OrderEvents" else read
            sql.execute(f"insert into {name} values ($1, {', '.join(values)})", [key, value])
        if topic == "OrderEvents":
            got += [(record, *map(cell_of, row), time) for row in sql.execute(statement).fetchall()]
    require_equal("SQL", shown.head, shown.rows, got)
