"""Drawings as SVG: their geometry, what they show, and that no name can break them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.topology.pipelines import declared
from typer.testing import CliRunner

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.cli.app import app
from lakestreams.cli.check import write_drawing
from lakestreams.errors import LocationNotWritable
from lakestreams.topology import svg
from lakestreams.topology.durations import in_units
from lakestreams.topology.labels import printable, shortened, width_of
from lakestreams.topology.layout import Box, Curve, Edge, Layout, lay_out
from lakestreams.visible import visible_lines

SVG = "{http://www.w3.org/2000/svg}"
COUNTS = {"Views": 12, "Clicks": 12, "Users": 12, "Prices": 12, "Plans": 1}


def function(*_):
    return {}


def every_role() -> Topology:
    """A box of each shape, of streams and of tables."""
    sources = declared("roles")
    views = sources.views.filter(function, name="kept").join(sources.clicks, within="5 min", grace="10 s", name="met")
    named = views.left_join(sources.regions, left_on="region", name="located")
    named.to_delta("silver.located", cluster_by=["user"])
    regions = named.group_by(function, name="by_region").windowed_by("1 h", advance="5 min", grace="1500 ms")
    regions.count(name="per_region").suppress("window_closes", name="final").to_delta("gold.per_region")
    users = sources.users.filter(function, name="known")
    users.outer_join(sources.versioned, name="paired").to_delta("silver.paired", mode="changes")
    users.group_by(function).count(name="per_plan", emit="latest").to_delta("gold.per_plan")
    return sources.builder.build()


def texts(drawing: str) -> list[str]:
    """What is written in a drawing, titles that show on hovering included."""
    return [
        "".join(one.itertext()) for one in ET.fromstring(drawing).iter() if one.tag in (f"{SVG}text", f"{SVG}title")
    ]


def box_texts(drawing: str, name: str) -> list[str]:
    """The lines in the box of a node."""
    for group in ET.fromstring(drawing).iter(f"{SVG}g"):
        title = group.find(f"{SVG}title")
        if title is not None and (title.text or "").split("\n")[0] == name:
            return ["".join(one.itertext()) for one in group.findall(f"{SVG}text")]
    raise KeyError(name)


def box_paths(drawing: str, name: str) -> list[tuple[str, str]]:
    """Class of the group and class of each path of a node's box."""
    for group in ET.fromstring(drawing).iter(f"{SVG}g"):
        title = group.find(f"{SVG}title")
        if title is not None and (title.text or "").split("\n")[0] == name:
            return [(group.get("class", ""), path.get("class", "")) for path in group.findall(f"{SVG}path")]
    raise KeyError(name)


# --- geometry --------------------------------------------------------------------------------------------------------


def along(curve: Curve, steps: int = 24) -> list[tuple[float, float]]:
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = curve
    weights = [
        ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3) for t in (n / steps for n in range(steps + 1))
    ]
    return [(a * x0 + b * x1 + c * x2 + d * x3, a * y0 + b * y1 + c * y2 + d * y3) for a, b, c, d in weights]


def apart(one: Box, other: Box) -> float:
    """How far two boxes are from each other to the side or in height; negative if they overlap."""
    beside = max(one.x, other.x) - min(one.right, other.right)
    below = max(one.y, other.y) - min(one.y + one.height, other.y + other.height)
    return max(beside, below)


def within(box: Box, point: tuple[float, float], room: float = 0.0) -> bool:
    x, y = point
    return box.x - room < x < box.right + room and box.y - room < y < box.y + box.height + room


def assert_no_box_lies_on_another(layout: Layout) -> None:
    for one, other in combinations(layout.boxes, 2):
        assert apart(one, other) > 20, (one, other)


def assert_edges_pass_beside_boxes(layout: Layout) -> None:
    for edge in layout.edges:
        others = [box for box in layout.boxes if box.name not in (edge.parent, edge.child)]
        for point in (point for curve in edge.curves for point in along(curve)):
            assert not any(within(box, point, room=5) for box in others), (edge, point)


def assert_edges_join_their_boxes(layout: Layout) -> None:
    boxes = {box.name: box for box in layout.boxes}
    for edge in layout.edges:
        parent, child = boxes[edge.parent], boxes[edge.child]
        assert edge.curves[0][0] == (parent.right, parent.middle)
        assert edge.end[0] == child.x
        assert child.y < edge.end[1] < child.y + child.height
        for curve, after in pairwise(edge.curves):
            assert curve[-1] == after[0], "no gap in an edge"
        points = [point for curve in edge.curves for point in along(curve)]
        assert all(before[0] <= after[0] for before, after in pairwise(points)), "to the right only"
        assert not any(within(box, point) for box in (parent, child) for point in points), "along no box of its own"


def assert_all_is_in_the_room(layout: Layout) -> None:
    points = [point for edge in layout.edges for curve in edge.curves for point in along(curve)]
    points += [corner for box in layout.boxes for corner in ((box.x, box.y), (box.right, box.y + box.height))]
    assert all(-1e-6 <= x <= layout.width + 1e-6 and -1e-6 <= y <= layout.height + 1e-6 for x, y in points)


def assert_sound(layout: Layout) -> None:
    assert_no_box_lies_on_another(layout)
    assert_edges_pass_beside_boxes(layout)
    assert_edges_join_their_boxes(layout)
    assert_all_is_in_the_room(layout)


HOSTILE = ("<script>alert(1)</script>", '"quoted" \'names\'', "a & b &amp; c", "two\nlines\r\n\ttab", "n" * 300,
           "\N{PILE OF POO}\N{WOMAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER}", "]]>", "\x00\x1b[31m\ufffe", "\ud800",
           "注文と支払い" * 20, "--><!--", "{}%s#{x}", "e\N{COMBINING ACUTE ACCENT}" * 100)  # fmt: skip


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Any acyclic mesh that the builder lets one declare, some names of it hostile."""
    builder = StreamsBuilder("p")
    count = draw(st.integers(1, 4))
    streams = [builder.stream(f"s{n}", key=Text("k"), value=Text("v")) for n in range(count)]
    tables = [builder.table(f"t{n}", key=Text("k"), value=Text("v")) for n in range(draw(st.integers(1, 3)))]
    named = draw(st.permutations(HOSTILE)) if draw(st.booleans()) else []
    for number in range(draw(st.integers(0, 14))):
        name = f"n{number}" if number >= len(named) else named[number]
        stream, other = draw(st.sampled_from(streams)), draw(st.sampled_from(streams))
        table, beside = draw(st.sampled_from(tables)), draw(st.sampled_from(tables))
        step = draw(
            st.sampled_from(["map", "merge", "join", "lookup", "count", "tables", "filter", "buffer", "stream"])
        )
        if step == "map":
            streams.append(stream.map(function, name=name))
        elif step == "merge":
            streams.append(stream.merge(other, name=name))
        elif step == "join":
            streams.append(stream.outer_join(other, within="5 min", name=name))
        elif step == "lookup":
            streams.append(stream.left_join(table, name=name))
        elif step == "count":
            tables.append(stream.group_by_key().windowed_by("1 min").count(name=name))
        elif step == "tables":
            tables.append(table.join(beside, name=name))
        elif step == "filter":
            tables.append(table.filter(function, name=name))
        elif step == "buffer":
            tables.append(table.suppress("5 s", name=name))
        else:
            streams.append(table.to_stream(name=name))
    for number, end in enumerate([*streams, *tables]):
        if number == 0 or draw(st.booleans()):
            end.to_delta(f"out{number}")
    return builder.build()


@pytest.mark.slow
@settings(max_examples=150)
@given(topologies())
@example(every_role())
def test_boxes_and_edges_keep_clear_of_each_other(topology: Topology) -> None:
    parts = svg.arranged(topology.nodes, COUNTS)
    for part in parts:
        assert_sound(part.layout)
        assert {box.name for box in part.layout.boxes} == part.nodes.keys()
        fed = [(edge.parent, edge.child, edge.side) for edge in part.layout.edges]
        assert fed == [(up.name, node.name, n) for node in part.nodes.values() for n, up in enumerate(node.parents)]
    for above, below in pairwise(parts):
        assert below.y > above.y + above.layout.height, "one sub-topology below the other"


@settings(max_examples=40)
@given(topologies())
def test_drawings_are_well_formed_and_always_the_same(topology: Topology) -> None:
    drawing = topology.svg(COUNTS)
    assert drawing == topology.svg(COUNTS)
    assert all(
        name in texts(drawing) for name in (f"Sub-topology {n}" for n, _ in enumerate(svg.arranged(topology.nodes, {})))
    )


def test_boxes_are_as_wide_as_their_text() -> None:
    for part in svg.arranged(every_role().nodes, COUNTS):
        for box in part.layout.boxes:
            assert all(line.width + 2 * 8 <= box.width for line in part.lines[box.name])


def test_a_stream_that_goes_through_joins_is_a_straight_line() -> None:
    sizes = dict.fromkeys(("stream", "table", "join", "other", "again", "sink"), (100.0, 40.0))
    parents = {
        "stream": [],
        "table": [],
        "join": ["stream", "table"],
        "other": [],
        "again": ["join", "other"],
        "sink": ["again"],
    }
    layout = lay_out(sizes, parents)
    assert_sound(layout)
    assert [edge.curves[0][0][1] == pytest.approx(edge.end[1]) for edge in layout.edges] == [
        True,
        False,
        True,
        False,
        True,
    ]
    boxes = {box.name: box for box in layout.boxes}
    assert boxes["other"].x == boxes["join"].x, "a source lies just before what it feeds"
    assert boxes["stream"].y < boxes["table"].y, "the left side above the right one"


def test_a_long_edge_has_a_lane_beside_the_boxes() -> None:
    sizes = dict.fromkeys("abcde", (100.0, 40.0))
    layout = lay_out(sizes, {"a": [], "b": ["a"], "c": ["b"], "d": ["c", "a"], "e": ["a", "d"]})
    assert_sound(layout)
    long: Edge = layout.edges[3]
    assert (long.parent, long.child, len(long.curves)) == ("a", "d", 5)


def test_nothing_is_a_drawing_too() -> None:
    assert lay_out({}, {}) == Layout((), (), 0.0, 0.0)
    ET.fromstring(svg.as_svg("empty", []))


# --- what it shows ---------------------------------------------------------------------------------------------------


def test_every_node_is_named() -> None:
    topology = every_role()
    shown = texts(topology.svg())
    assert all(node.name in shown for node in topology.nodes)
    assert {"roles", "Sub-topology 0", "Sub-topology 1"} <= set(shown)


def test_boxes_say_what_one_looks_for() -> None:
    drawing = every_role().svg(COUNTS)
    assert box_texts(drawing, "met") == ["met", "join, stream-stream", "within 5 min, grace 10 s", "12 tasks"]
    assert box_texts(drawing, "located") == ["located", "left_join, stream-global", "left_on region", "12 tasks"]
    assert box_texts(drawing, "by_region") == ["by_region", "select_key, new key"]
    assert box_texts(drawing, "per_region") == [
        "per_region", "count", "grouped by key", "windows of 1 h every 5 min", "grace 1500 ms", "12 tasks",
    ]  # fmt: skip
    assert box_texts(drawing, "final") == ["final", "suppress", "until window closes", "12 tasks"]
    assert box_texts(drawing, "per_plan") == ["per_plan", "count", "grouped by a new key", "emit latest", "12 tasks"]
    assert box_texts(drawing, "Prices") == ["Prices", "table", "versioned, history 1 h", "12 partitions"]
    assert box_texts(drawing, "silver.located") == ["silver.located", "to_delta, append", "cluster by user"]


def test_all_options_show_on_hovering() -> None:
    titles = [one.text for one in ET.fromstring(every_role().svg(COUNTS)).iter(f"{SVG}title")]
    assert (
        "met\njoin\nstream-stream, inner\nbefore 300000 ms, after 300000 ms, grace 10000 ms\nrules strict\n"
        "all columns of both sides, co_partitioning require\n12 tasks"
    ) in titles


def test_counts_are_shown_where_they_are_known() -> None:
    assert not [text for text in texts(every_role().svg()) if re.search("partition|task", text) and "co_" not in text]
    some = every_role().svg({"Views": 1, "Users": 6})
    assert box_texts(some, "Views")[-1] == "1 partition"
    assert box_texts(some, "Clicks")[-1] == "stream"
    assert box_texts(some, "met")[-1] == "1 task"
    assert box_texts(some, "paired")[-1] == "6 tasks"
    builder = declared()
    builder.builder.stream("R", key=Text("k"), value=Text("v")).repartition(7, name="spread").to_delta("out")
    assert box_texts(builder.builder.build().svg(), "spread")[-1] == "7 partitions"


def test_edges_say_how_many_rows_went_along_them() -> None:
    topology = every_role()
    assert topology.svg(COUNTS, {}) == topology.svg(COUNTS)
    counts = {"Views": 12_345_678, "kept": 0, "Regions": 7, "silver.located": 3, "of no node": 9}
    rows = [one for one in ET.fromstring(topology.svg(counts=counts)).iter(f"{SVG}text") if one.get("class") == "rows"]
    assert [one.text for one in rows] == ["12,345,678", "0", "7"], (
        "on edges only, and an edge that is not counted has none"
    )


@settings(max_examples=40)
@given(topologies())
@example(every_role())
def test_the_numbers_on_edges_lie_beside_the_boxes(topology: Topology) -> None:
    counts = {node.name: 10 ** (number % 12) for number, node in enumerate(topology.nodes)}
    for part, group in zip(
        svg.arranged(topology.nodes, {}, counts), parts_of(topology.svg(counts=counts)), strict=True
    ):
        assert_sound(part.layout)
        for one in (text for text in group.iter(f"{SVG}text") if text.get("class") == "rows"):
            half = width_of(one.text or "", "count") / 2
            x, y = float(one.get("x", 0)), float(one.get("y", 0)) - 4
            assert not any(within(box, (x + side, y)) for box in part.layout.boxes for side in (-half, 0, half))


def parts_of(drawing: str) -> list[ET.Element]:
    return [one for one in ET.fromstring(drawing).iter(f"{SVG}g") if one.get("class") == "part"]


def test_a_global_table_does_not_say_how_many_tasks_there_are() -> None:
    sources = declared()
    keyed = sources.views.select_key(function, name="keyed")
    keyed.join(sources.regions, left_on="region", name="located").to_delta("out")
    drawing = sources.builder.build().svg({"Views": 12, "Regions": 1})
    assert box_texts(drawing, "located")[-1] == "12 tasks"


def test_the_heading_fits() -> None:
    builder = StreamsBuilder("p" * 128)
    builder.stream("A", key=Text("k"), value=Text("v")).to_delta("out")
    drawing = builder.build().svg()
    (heading,) = [one.text for one in ET.fromstring(drawing).iter(f"{SVG}text") if one.get("class") == "heading"]
    assert width_of(heading, "heading") < float(ET.fromstring(drawing).get("width")) - 40
    assert ET.fromstring(drawing)[0].text == "p" * 128


def test_tables_differ_from_streams_in_shape_and_line() -> None:
    drawing = every_role().svg()
    for stream, table in (
        ("Views", "Users"),
        ("silver.located", "silver.paired"),
        ("met", "paired"),
        ("kept", "known"),
    ):
        (role, body), *_ = of_stream = box_paths(drawing, stream)
        (other, dashed), *_ = of_table = box_paths(drawing, table)
        assert (role, body, dashed) == (other, "body", "body table")
        assert role in ("source", "sink") or len(of_table) == len(of_stream) + 1, "the mark of a table"
    assert [path for _, path in box_paths(drawing, "per_region")] == ["body table", "inner", "inner"]
    edges = [path.get("class") for path in ET.fromstring(drawing).iter(f"{SVG}path") if "edge" in path.get("class", "")]
    of_parts = edges[:-2]  # the last two are the legend's
    from_tables = sum(parent.is_table for node in every_role().nodes for parent in node.parents)
    assert of_parts.count("edge table") == from_tables > 0
    assert ".edge.table { stroke-dasharray" in drawing
    assert ".body.table { stroke-dasharray" in drawing


def test_joins_tell_left_from_right() -> None:
    sides = [one.text for one in ET.fromstring(every_role().svg()).iter(f"{SVG}text") if one.get("class") == "side"]
    assert sides == ["L", "R"] * 3
    assert "L, R: left and right side of a join" in texts(every_role().svg())
    lone = declared()
    lone.views.to_delta("out")
    assert not [text for text in texts(lone.builder.build().svg()) if "side of a join" in text]


# --- hostile names ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[1:20])
def test_no_name_breaks_the_drawing(name: str) -> None:
    sources = declared()
    sources.views.filter(function, name=name).join(sources.clicks, within="1 s", name="j").to_delta("out")
    drawing = sources.builder.build().svg()
    elements = {one.tag.removeprefix(SVG) for one in ET.fromstring(drawing).iter()}
    assert elements == {"svg", "title", "desc", "style", "rect", "g", "path", "text"}
    drawing.encode("utf-8")
    whole = visible_lines(name).replace("\ufffe", "\N{REPLACEMENT CHARACTER}")
    assert any(title.startswith(whole + "\nfilter") for title in texts(drawing)), "the whole name shows on hovering"
    (shown, kind) = next(lines for lines in all_boxes(drawing) if lines[1:] == ["filter"])
    assert kind == "filter"
    assert "\n" not in shown
    assert width_of(shown, "name") <= 280


def all_boxes(drawing: str) -> list[list[str]]:
    groups = [group for group in ET.fromstring(drawing).iter(f"{SVG}g") if group.find(f"{SVG}title") is not None]
    return [["".join(one.itertext()) for one in group.findall(f"{SVG}text")] for group in groups]


def test_long_names_keep_their_beginning_and_end() -> None:
    short = shortened("silver.page_views_of_the_last_ten_years_by_region_and_plan", 200, "name")
    assert re.fullmatch(r"silver\.page.*….*and_plan", short)
    assert width_of(short, "name") <= 200
    assert shortened("short", 200, "name") == "short"
    assert printable(" two\nlines\t ") == "two lines"


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 ms"), (1, "1 ms"), (1500, "1500 ms"), (2000, "2 s"), (-3000, "-3 s"), (90_000, "90 s"), (300_000, "5 min"),
     (3_600_000, "1 h"), (86_400_000, "1 d"), (90_000_000, "25 h")],
)  # fmt: skip
def test_durations_are_exact(ms: int, text: str) -> None:
    assert in_units(ms) == text


# --- as a document ---------------------------------------------------------------------------------------------------


def test_it_needs_nothing_else() -> None:
    drawing = every_role().svg()
    assert re.findall(r"https?://[^\"]*", drawing) == ["http://www.w3.org/2000/svg"]
    for what in ("<script", "href", "url(", "@import", "@font-face", "<image", "foreignObject", " on"):
        assert what not in re.sub("<desc>.*</desc>", "", drawing)
    ids = [one for one in ET.fromstring(drawing).iter() if one.get("id")]
    assert not ids, "two drawings in one page have no names to clash over"


def test_its_style_stays_within_it() -> None:
    style = next(ET.fromstring(every_role().svg()).iter(f"{SVG}style")).text or ""
    rules = re.findall(r"(?m)^\s*([^@{}\n]+) \{", style)
    assert len(rules) > 20
    assert all(rule.startswith(".lakestreams-topology") for rule in rules)


def test_it_says_what_it_is() -> None:
    root = ET.fromstring(every_role().svg())
    assert root.get("role") == "img"
    assert [one.tag.removeprefix(SVG) for one in root[:2]] == ["title", "desc"]
    assert root[0].text == "roles"
    assert "met (join) from kept and Clicks;" in (root[1].text or "")


def test_the_dark_mode_has_a_colour_for_every_light_one() -> None:
    style = next(ET.fromstring(every_role().svg()).iter(f"{SVG}style")).text or ""
    light, dark = style.split("@media screen and (prefers-color-scheme: dark)")
    coloured = r"(\.lakestreams-topology [^{]+) \{ (?:fill|stroke): #"
    assert re.findall(coloured, light) == re.findall(coloured, dark) != []
    assert svg.LIGHT.keys() == svg.DARK.keys()
    assert all(colour in light for colour in svg.LIGHT.values())
    assert all(colour in dark for colour in svg.DARK.values())


def luminance(colour: str) -> float:
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("colours", [svg.LIGHT, svg.DARK], ids=["light", "dark"])
def test_texts_and_lines_stand_out(colours) -> None:
    """WCAG 2.1 AA: 4.5 for text, 3 for graphical objects."""
    for ground in ("paper", "frame", *svg.ROLES):
        assert min(contrast(colours[text], colours[ground]) for text in ("ink", "muted")) >= 4.5, ground
    for role in svg.ROLES:
        assert min(contrast(colours[f"{role}-line"], colours[ground]) for ground in ("frame", role)) >= 3, role
    assert min(contrast(colours["edge"], colours[ground]) for ground in ("paper", "frame")) >= 3


# --- where it is shown -----------------------------------------------------------------------------------------------


def test_notebooks_draw_a_topology() -> None:
    topology = every_role()
    assert topology._repr_svg_() == topology.svg()
    bundle = topology._repr_mimebundle_(include=None, exclude=None)
    assert bundle == {"image/svg+xml": topology.svg(), "text/plain": topology.describe()}


def test_check_writes_the_drawing(tmp_path) -> None:
    topology, path = every_role(), tmp_path / "topology.svg"
    write_drawing(topology, COUNTS, path)
    assert path.read_bytes() == topology.svg(COUNTS).encode()
    with pytest.raises(LocationNotWritable, match=r"cannot write the drawing to .*none.*No such file") as caught:
        write_drawing(topology, COUNTS, tmp_path / "none" / "topology.svg")
    assert "--svg" in caught.value.hint


PIPELINE = str(Path(__file__).parents[2] / "conf/enrichment.yml")


def test_one_file_is_for_one_pipeline(tmp_path) -> None:
    done = CliRunner().invoke(app, ["check", PIPELINE, PIPELINE, "--svg", str(tmp_path / "topology.svg")])
    assert done.exit_code == 2
    assert "one pipeline into one file" in done.output


def test_check_tells_of_an_unwritable_file_before_it_starts_anything(tmp_path, monkeypatch) -> None:
    from lakestreams.cli import check

    def started(**_):
        pytest.fail("a session was started")

    monkeypatch.setattr(check, "open_session", started)
    done = CliRunner().invoke(app, ["check", PIPELINE, "--no-broker", "--svg", str(tmp_path / "none" / "a.svg")])
    assert done.exit_code == 1
    assert "LS502 LOCATION_NOT_WRITABLE" in done.output
    assert "a file in a folder that is there" in done.output
