"""The page: its numbers are those of the events, nothing from data gets out of its place, and it needs nothing else."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from tests.report import events
from typer.testing import CliRunner

from lakestreams import StreamsBuilder, Text
from lakestreams.cli.app import app
from lakestreams.report import charts, page
from lakestreams.report.build import build
from lakestreams.visible import visible_lines

KEYS = ("throughput", "lag", "match", "stages", "lateness", "quarantine")
LOG = events.log()
PIPELINE = "conf/correlation.yml"


def rendered(log=LOG, quarantine=None, pipeline=events.PIPELINE) -> str:
    topology = events.topology()
    report = build(pipeline, log, events.quarantine() if quarantine is None else quarantine)
    return page.render(report, topology.svg(counts=report.rows_out), [node.name for node in topology.nodes])


class Outline(HTMLParser):
    """A page's tags, its tables by the section that they are in, and what has an id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: dict[str, list[list[str]]] = {}
        self.by_id: dict[str, str] = {}
        self.text: list[str] = []
        self._section = ""
        self._open: list[tuple[str, str | None]] = []
        self.feed(text)
        for rows in self.rows.values():
            rows[:] = [[" ".join(cell.split()) for cell in row] for row in rows]

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append((tag, given))
        if tag == "section":
            self._section = given.get("id") or ""
        if tag == "tr":
            self.rows.setdefault(self._section, []).append([])
        if tag in ("td", "th"):
            self.rows[self._section][-1].append("")
        if tag not in ("meta", "link"):
            self._open.append((tag, given.get("id")))

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop()[0] == tag, "every tag is closed in its place"

    def handle_data(self, data):
        if not self._open:
            return
        tag, name = self._open[-1]
        if tag not in ("style", "title"):
            self.text.append(data)
        if name:
            self.by_id[name] = self.by_id.get(name, "") + data.strip()
        if any(open_tag in ("td", "th") for open_tag, _ in self._open):
            self.rows[self._section][-1][-1] += data

    def values(self, tag: str, attribute: str) -> Iterator[str]:
        return (given[attribute] or "" for name, given in self.tags if name == tag and attribute in given)


PAGE = rendered()
OUTLINE = Outline(PAGE)


def told(event_type: str, name: str | None = None) -> list[dict]:
    return [
        json.loads(row["details"])[event_type]
        for row in LOG
        if row["event_type"] == event_type and json.loads(row["origin"]).get("flow_name") == name
    ]


# --- numbers -----------------------------------------------------------------------------------------------------------


def test_the_counts_on_the_page_are_those_of_the_events():
    cycles = told("cycle_progress")
    orders, matched = told("flow_progress", "orders"), told("flow_progress", "matched")
    assert OUTLINE.by_id["cycles"] == "24"
    assert OUTLINE.by_id["records"] == f"{sum(one['records'] for one in cycles):,}"
    assert OUTLINE.by_id["dropped"] == f"{sum(one['data_quality']['dropped_records'] for one in orders):,}"
    out = {
        name: sum(one["metrics"]["num_output_rows"] for one in told("flow_progress", name))
        for name in ("orders", "matched")
    }
    (row,) = [row for row in OUTLINE.rows["nodes"] if row[0] == "matched"]
    rows = [sum(one["lakestreams"]["rows"][kind] for one in matched) for kind in ("matched", "unmatched")]
    assert row[1] == "left_join"
    assert row[3:6] == [f"{number:,}" for number in (out["matched"], *rows)]
    assert row[6] == f"{rows[0] / sum(rows) * 100:.2f} %".replace("0 %", " %")
    (broken,) = [row for row in OUTLINE.rows["expectations"] if row[1] == "amount_positive"]
    amounts = [one["data_quality"]["expectations"][0] for one in orders]
    assert broken[:5] == ["orders", "amount_positive", "drop",
                          f"{sum(one['passed_records'] for one in amounts):,}",
                          f"{sum(one['failed_records'] for one in amounts):,}"]  # fmt: skip
    newest = OUTLINE.rows["cycles-table"][1]
    assert (newest[0], newest[2]) == ("24", f"{cycles[-1]['records']:,}")
    assert len(OUTLINE.rows["cycles-table"]) == 1 + 24


def test_the_drawing_has_the_counts_on_its_edges():
    on_edges = re.findall(r'class="rows"[^>]*>([\d,]+)<', PAGE)
    wanted = {
        f"{sum(one['metrics']['num_output_rows'] for one in told('flow_progress', name)):,}"
        for name in ("orders", "payments", "customers", "matched", "with_customer", "per_customer")
    }
    assert set(on_edges) == wanted
    assert len(on_edges) == 8, "of eleven edges those of by_customer, which is not counted, and a second of some"


def test_quarantine_shows_where_and_why_and_no_payload():
    rows = OUTLINE.rows["quarantine"]
    assert ["matched", "LATE", "108", "1", "23"] in rows
    assert next(one[:3] for one in rows if one[0] == "orders-1@41223, attempt 1") == [
        "orders-1@41223, attempt 1", "cycle 23", "amount_positive",
    ]  # fmt: skip
    assert "-12}" not in PAGE
    shown = Outline(rendered(quarantine=events.quarantine(values=True)))
    cells = [cell for row in shown.rows["quarantine"] for cell in row]
    assert 'o0 → {"amount": -12}' in cells
    assert "o0 → null" in cells
    assert 'o0 → {"amount": \N{REPLACEMENT CHARACTER}' in cells, "bytes that are no text"


def test_every_chart_is_there_with_a_legend_and_a_strip_for_each_place():
    drawn = {chart.key: chart for chart in charts.charts(build(events.PIPELINE, LOG))}
    assert tuple(drawn) == KEYS
    for key in KEYS:
        section = PAGE.partition(f'id="chart-{key}"')[2].partition("</section>")[0]
        assert "<svg" in section, key
        assert section.count('class="strip"') == (8 if key == "lateness" else 24)
        assert all(f">{name}</li>" in section for name in drawn[key].legend)
    assert drawn["match"].legend == ("matched", "with_customer")
    assert drawn["stages"].legend == ("settle", "join", "publish", "finish", "store")
    assert "cycle 8, 08:40:37: settle 0.3 s · join 3.3 s" in PAGE
    assert not [colour for colour in charts._VARIABLES if colour in PAGE], "every colour is one of the page's"


def test_more_series_than_colours_are_added_up():
    def cycle(number):
        stretch = {"partition": 0, "lateness": [number, 0, 0, 0, 0, 0, 0, 0]}
        sources = [{**stretch, "name": f"s{n}", "lag_records": 10 * n + number} for n in range(9)]
        return {"pipeline": "p", "cycle": number, "id": f"p/{number}/0", "sequence": number, "event_type": "cycle_progress",
                "origin": "{}", "details": {"cycle_progress": {"records": 1, "sources": sources}}}  # fmt: skip

    report = build("p", [cycle(1), cycle(2)])
    lag = next(chart for chart in charts.charts(report) if chart.key == "lag")
    assert lag.legend == ("s0", "s1", "s2", "s3", "s4", "4 others")
    assert "s8" in lag.note
    assert f"4 others {50 + 60 + 70 + 80 + 4 * 2}" in (lag.svg or "")


# --- logs as they may be -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topology", [True, False])
def test_an_empty_log_is_a_page_that_says_so(topology):
    drawing = events.topology().svg() if topology else None
    outline = Outline(page.render(build("p", [], []), drawing))
    words = " ".join("".join(outline.text).split())
    assert "No cycle of this pipeline is in the event log." in words
    assert words.count("no numbers in these cycles") == len(KEYS)
    assert outline.by_id["records"] == "\N{EN DASH}"
    assert ("topology" in outline.values("section", "id")) == topology
    assert "the quarantine table was not looked at" in page.render(build("p", []))


def test_missing_numbers_are_dashes():
    bare = [{**row, "details": json.dumps({row["event_type"]: {}})} for row in LOG]
    outline = Outline(rendered(bare, []))
    assert outline.by_id["records"] == outline.by_id["rate"] == "\N{EN DASH}"
    assert [row[2:4] for row in outline.rows["nodes"][1:]] == [["\N{EN DASH}"] * 2] * 10
    assert not [tag for tag, given in outline.tags if tag == "svg" and given.get("class") == "chart"]
    one = page.render(build(events.PIPELINE, events.log(1)))
    assert one.count('class="strip"') == 5 + 8, "one cycle is enough for every chart"


def test_a_node_of_an_earlier_topology_is_marked():
    (row,) = [row for row in Outline(rendered(LOG)).rows["nodes"] if row[0] == "per_customer"]
    assert row[1] == "count"
    report = build(events.PIPELINE, LOG)
    outline = Outline(page.render(report, events.topology().svg(), ["orders"]))
    assert [row[1] for row in outline.rows["nodes"] if row[0] == "per_customer"] == ["count (not in the drawing)"]


# --- what it needs, and what it lets in ----------------------------------------------------------------------------------


def test_the_page_needs_nothing_else_and_is_small():
    assert not re.search(r"https?:|//\w", PAGE.replace("/* ", "")), "no address"
    assert not [
        tag for tag, _ in OUTLINE.tags if tag in ("script", "img", "iframe", "object", "embed", "image", "base")
    ]
    assert [given["href"] for tag, given in OUTLINE.tags if tag == "link"] == ["data:,"]
    assert all(value.startswith("#") for value in OUTLINE.values("use", "href"))
    policy = next(given["content"] for tag, given in OUTLINE.tags if given.get("http-equiv"))
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert len(PAGE.encode()) < 400_000
    assert len(rendered(events.log(500)).encode()) < 2_000_000, "as many cycles as it takes"


def test_ids_are_unique_and_references_lead_somewhere():
    ids = [given["id"] for _, given in OUTLINE.tags if "id" in given]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(|href=")#([^")]+)', PAGE)) <= set(ids)


def test_the_same_events_give_the_same_page():
    assert rendered() == PAGE


HOSTILE = "</style><script>alert(1)</script>\"'&$x_1$ {{ 7 * 7 }} ]]>\x00 注文\x1b[2J\u202e\x9b\u2066"


def test_whatever_data_says_stays_text():
    """In every place that data comes to: names, reasons, stages, messages, rules, keys, values, places."""

    def hostile(value):
        if isinstance(value, dict):
            told_names = ("quarantined", "seconds")
            return {
                name: {f"{key}{HOSTILE}": one for key, one in inner.items()} if name in told_names else hostile(inner)
                for name, inner in value.items()
            }
        if isinstance(value, list):
            return [hostile(one) for one in value]
        return f"{value}{HOSTILE}" if isinstance(value, str) else value

    log = []
    for row in LOG:
        details = hostile(json.loads(row["details"]))
        kind = details.get("flow_progress", {}).get("lakestreams")
        if kind:
            kind["kind"] = kind["kind"].replace(HOSTILE, "")  # else no node is a join or an output
        log.append({**row, "pipeline": HOSTILE, "origin": json.dumps(hostile(json.loads(row["origin"]))),
                    "details": json.dumps(details), "message": HOSTILE})  # fmt: skip
    groups = [{**hostile(one), "examples": [{**hostile(example), "key": HOSTILE.encode(), "value": HOSTILE.encode()}
                                            for example in one["examples"]]} for one in events.quarantine()]  # fmt: skip
    builder = StreamsBuilder("p")
    builder.stream("A", key=Text("k"), value=Text("v"), name=f"orders{HOSTILE}").to_delta("out")
    report = build(HOSTILE, log, groups)
    assert all((report.joins, report.codes, report.stages, report.expectations))
    text = page.render(report, builder.build().svg(counts=report.rows_out))
    outline = Outline(text)
    assert not [tag for tag, given in outline.tags if tag == "script" or any(name.startswith("on") for name in given)]
    assert "<script" not in text
    assert "{{ 7 * 7 }}" in "".join(outline.text)
    assert text.count("alert(1)") > 50, "all of it is shown"
    assert visible_lines(text) == text, "nothing is obeyed, and nothing turns the direction of writing"


# --- the command ---------------------------------------------------------------------------------------------------------


def test_what_draws_the_page_may_be_missing(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = CliRunner().invoke(app, ["report", PIPELINE, "--root", str(tmp_path), "--out", str(tmp_path / "a.html")])
    assert result.exit_code == 1
    assert "LS606 LOCAL_PARTS_MISSING" in result.stderr
    assert "pip install 'lakestreams[report]'" in result.stderr


def test_a_file_that_cannot_be_written_is_told_before_anything_starts(monkeypatch, tmp_path):
    from lakestreams.cli import report

    monkeypatch.setattr(report, "open_session", lambda **_: pytest.fail("a session was started"))
    result = CliRunner().invoke(app, ["report", PIPELINE, "--out", str(tmp_path / "none" / "a.html")])
    assert result.exit_code == 1
    assert "LS502 LOCATION_NOT_WRITABLE" in result.stderr
    assert "--out" in result.stderr
