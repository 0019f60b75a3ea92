"""A topology as SVG for docs and notebooks: one file without scripts, fonts or links, legible in light and dark.

Shapes and lines tell what colours tell too. Lying cylinders are topics and outputs of streams, upright ones those of
tables; steps on streams have round corners, steps on tables sharp ones; joins have cut corners, aggregates a head,
buffers double walls. Whatever is a table has a small grid and is dashed, the edges that carry it too. Where it is
known how many rows a node has passed on, its edges say so.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestreams.topology import describe
from lakestreams.topology.joins import Join
from lakestreams.topology.labels import Line, Style, lines_of, printable, shortened, width_of
from lakestreams.topology.layout import Box, Edge, Layout, Size, lay_out
from lakestreams.topology.node import Node
from lakestreams.visible import visible_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lakestreams.topology.kinds import Role

_MARGIN, _PADDING, _BETWEEN_PARTS = 20.0, 24.0, 16.0
_HEADER, _PART_TITLE, _LEGEND = 46.0, 16.0, 12.0
_LEAST_WIDTH = 400.0  # of the legend
_ARROW = 8.0
_AROUND_COUNT = 14.0  # how much of an edge is seen on either side of its count


@dataclass(frozen=True)
class Part:
    """A sub-topology in its place: `x` and `y` are where its layout begins."""

    nodes: Mapping[str, Node]
    lines: Mapping[str, Sequence[Line]]
    layout: Layout
    x: float
    y: float


def as_svg(
    pipeline: str,
    nodes: Sequence[Node],
    partitions: Mapping[str, int] | None = None,
    counts: Mapping[str, int] | None = None,
) -> str:
    """The drawing: a document of its own, which can also stand within a page.

    Args:
        pipeline: the pipeline's name, as the title.
        nodes: the topology's nodes, parents before children.
        partitions: topic to partition count, of the topics where it is known; sources and joins then show theirs.
        counts: node to rows that it has passed on, of the nodes where it is known; the edges from it then say so.
    """
    counts = counts or {}
    parts = arranged(nodes, partitions or {}, counts)
    width = max([_LEAST_WIDTH, *(part.layout.width for part in parts)]) + 2 * (_MARGIN + _PADDING)
    bottom = _below(parts)
    root = _root(width, bottom + _LEGEND + _MARGIN)
    _add(root, "title", text=pipeline)
    _add(root, "desc", text=_in_words(parts))
    _add(root, "style", text=_style())
    _add(root, "rect", "paper", width=width, height=bottom + _LEGEND + _MARGIN, rx=8)
    _add(
        root,
        "text",
        "heading",
        text=shortened(printable(pipeline), width - 2 * _MARGIN, "heading"),
        x=_MARGIN + 2,
        y=30,
    )
    for number, part in enumerate(parts):
        _draw_part(root, number, part, width - 2 * _MARGIN, counts)
    _draw_legend(root, bottom + 10, joins=any(isinstance(node, Join) for node in nodes))
    ET.indent(root, " ")
    return ET.tostring(root, encoding="unicode") + "\n"


def arranged(
    nodes: Sequence[Node], partitions: Mapping[str, int], counts: Mapping[str, int] | None = None
) -> list[Part]:
    """The sub-topologies, one below the other, each with its boxes and edges in their places."""
    parts: list[Part] = []
    for members in describe.sub_topologies(nodes):
        lines = {node.name: lines_of(node, partitions) for node in members}
        sizes = {node.name: _shape(node).size(lines[node.name]) for node in members}
        inputs = {node.name: [parent.name for parent in node.parents] for node in members}
        behind = {
            name: width_of(_rows(rows), "count") + 2 * _AROUND_COUNT + _ARROW
            for name, rows in (counts or {}).items()
            if any(name in fed for fed in inputs.values())
        }
        layout = lay_out(sizes, inputs, behind)
        y = _below(parts) + _PADDING + _PART_TITLE
        parts.append(Part({node.name: node for node in members}, lines, layout, _MARGIN + _PADDING, y))
    return parts


def _below(parts: Sequence[Part]) -> float:
    """Where the next part begins."""
    return parts[-1].y + parts[-1].layout.height + _PADDING + _BETWEEN_PARTS if parts else _HEADER


def _in_words(parts: Sequence[Part]) -> str:
    """What a screen reader says: every box with what feeds it."""
    return " ".join(
        f"Sub-topology {number}: {'; '.join(_said(node) for node in part.nodes.values())}."
        for number, part in enumerate(parts)
    )


def _said(node: Node) -> str:
    fed = f" from {' and '.join(printable(parent.name) for parent in node.parents)}" if node.parents else ""
    return f"{printable(node.name)} ({node.word}){fed}"


# --- parts ---------------------------------------------------------------------------------------------------------


def _draw_part(root: ET.Element, number: int, part: Part, width: float, counts: Mapping[str, int]) -> None:
    top = part.y - _PADDING - _PART_TITLE
    height = part.layout.height + 2 * _PADDING + _PART_TITLE
    group = _add(root, "g", "part")
    _add(group, "rect", "frame", x=_MARGIN, y=top, width=width, height=height, rx=10)
    _add(group, "text", "part-title", text=f"Sub-topology {number}", x=_MARGIN + 14, y=top + 21)
    moved = _add(group, "g", transform=f"translate({_px(part.x)} {_px(part.y)})")
    for edge in part.layout.edges:
        _draw_edge(moved, edge, part.nodes[edge.parent].is_table)
    for box in part.layout.boxes:
        _draw_box(moved, box, part.nodes[box.name], part.lines[box.name])
    for edge in part.layout.edges:
        if isinstance(part.nodes[edge.child], Join):
            _add(moved, "text", "side", text="LR"[edge.side], x=edge.end[0] + 6, y=edge.end[1] + 3)
    for way, name in {edge.curves[0]: edge.parent for edge in part.layout.edges}.items():  # dummies are shared
        if name in counts:
            (x0, y0), *_, (x1, y1) = way
            middle = {"x": (x0 + x1 - _ARROW) / 2, "y": (y0 + y1) / 2 + 4}
            _add(moved, "text", "rows", text=_rows(counts[name]), **middle)


def _rows(count: int) -> str:
    return f"{count:,}"


def _draw_edge(group: ET.Element, edge: Edge, table: bool) -> None:
    x, y = edge.end
    start, *points = [edge.curves[0][0], *(point for curve in edge.curves for point in curve[1:])]
    points[-1] = (x - _ARROW, y)  # the line ends where its head begins
    line = f"M{_at(start)}C{' '.join(map(_at, points))}"
    _add(group, "path", "edge table" if table else "edge", d=line)
    _add(group, "path", "arrow", d=f"M{_at(edge.end)}l{_px(-_ARROW)} -4v8z")


def _draw_box(group: ET.Element, box: Box, node: Node, lines: Sequence[Line]) -> None:
    shape = _shape(node)
    drawn = _add(group, "g", shape.role)
    _add(drawn, "title", text=_tooltip(node, lines))
    _add(drawn, "path", "body table" if node.is_table else "body", d=shape.outline(box))
    for d in (shape.inner(box), _grid(box) if node.is_table and node.role not in ("source", "sink") else ""):
        if d:
            _add(drawn, "path", "inner", d=d)
    for line, y in shape.baselines(box, lines):
        _add(drawn, "text", line.style, text=line.text, x=box.x + box.width / 2 - shape.shift, y=y)


def _tooltip(node: Node, lines: Sequence[Line]) -> str:
    """The whole name and all options, of which the box has but some."""
    counts = [line.text for line in lines if line.style == "count"]
    return "\n".join((node.name, node.word, *node.details, *counts))


def _draw_legend(root: ET.Element, y: float, *, joins: bool) -> None:
    x = _MARGIN + 2
    for text, classes in (("stream", "edge"), ("table", "edge table")):
        _add(root, "path", classes, d=f"M{_at((x, y - 4))}h34")
        _add(root, "text", "legend", text=text, x=x + 42, y=y)
        x += 104
    if joins:
        _add(root, "text", "legend", text="L, R: left and right side of a join", x=x, y=y)


# --- shapes --------------------------------------------------------------------------------------------------------

_LINE_PX: Mapping[Style, float] = {"name": 18.0, "kind": 15.0, "detail": 15.0, "count": 16.0}
_CAP, _LID, _ROUND, _CUT, _WALL = 8.0, 6.0, 12.0, 11.0, 6.0


@dataclass(frozen=True)
class _Shape:
    """How boxes of one role look.

    Attributes:
        role: their class in the style.
        outline, inner: the paths of a box.
        sides, above, below: the room around the text.
        head: the room between the name and the rest.
        shift: how far left of the middle the text lies.
    """

    role: str
    outline: Callable[[Box], str]
    inner: Callable[[Box], str] = lambda _: ""
    sides: float = 14.0
    above: float = 8.0
    below: float = 9.0
    head: float = 0.0
    shift: float = 0.0

    def size(self, lines: Sequence[Line]) -> Size:
        """The least room that a box with these lines takes."""
        width = max(line.width for line in lines) + 2 * self.sides
        return width, self.above + sum(_LINE_PX[line.style] for line in lines) + self.head + self.below

    def baselines(self, box: Box, lines: Sequence[Line]) -> Iterator[tuple[Line, float]]:
        """The lines with the heights that they stand on."""
        y = box.y + self.above
        for line in lines:
            y += _LINE_PX[line.style]
            yield line, y - 4
            y += self.head if line.style == "name" else 0.0


def _shape(node: Node) -> _Shape:
    if node.role in ("source", "sink"):
        if node.is_table:
            return _Shape(node.role, _upright, _lid, above=2 * _LID + 5, below=_LID + 5)
        return _Shape(node.role, _lying, _cap, sides=22.0, shift=_CAP / 2)
    if node.role in _BY_ROLE:
        return _BY_ROLE[node.role]
    return _Shape("step", _sharp, sides=26.0) if node.is_table else _Shape("step", _round)


def _lying(box: Box) -> str:
    arc = f"a{_px(_CAP)} {_px(box.height / 2)} 0 0 1 0"
    across = _px(box.width - 2 * _CAP)
    return f"M{_at((box.x + _CAP, box.y))}h{across}{arc} {_px(box.height)}h-{across}{arc} {_px(-box.height)}z"


def _cap(box: Box) -> str:
    arc = f"a{_px(_CAP)} {_px(box.height / 2)} 0 0 0 0 {_px(box.height)}"
    return f"M{_at((box.right - _CAP, box.y))}{arc}"


def _upright(box: Box) -> str:
    arc = f"a{_px(box.width / 2)} {_px(_LID)} 0 0 1"
    wall = _px(box.height - 2 * _LID)
    return f"M{_at((box.x, box.y + _LID))}{arc} {_px(box.width)} 0v{wall}{arc} {_px(-box.width)} 0z"


def _lid(box: Box) -> str:
    return f"M{_at((box.x, box.y + _LID))}a{_px(box.width / 2)} {_px(_LID)} 0 0 0 {_px(box.width)} 0"


def _round(box: Box) -> str:
    across, down, arc = _px(box.width - 2 * _ROUND), _px(box.height - 2 * _ROUND), f"a{_px(_ROUND)} {_px(_ROUND)} 0 0 1"
    corner = _px(_ROUND)
    return (
        f"M{_at((box.x + _ROUND, box.y))}h{across}{arc} {corner} {corner}v{down}{arc} -{corner} {corner}"
        f"h-{across}{arc} -{corner} -{corner}v-{down}{arc} {corner} -{corner}z"
    )


def _sharp(box: Box) -> str:
    return f"M{_at((box.x, box.y))}h{_px(box.width)}v{_px(box.height)}h{_px(-box.width)}z"


def _cut(box: Box) -> str:
    across, down, cut = _px(box.width - 2 * _CUT), _px(box.height - 2 * _CUT), _px(_CUT)
    return f"M{_at((box.x + _CUT, box.y))}h{across}l{cut} {cut}v{down}l-{cut} {cut}h-{across}l-{cut} -{cut}v-{down}z"


def _head(box: Box) -> str:
    return f"M{_at((box.x, box.y + 30))}h{_px(box.width)}"


def _walls(box: Box) -> str:
    down = _px(box.height)
    return f"M{_at((box.x + _WALL, box.y))}v{down}M{_at((box.right - _WALL, box.y))}v{down}"


_BY_ROLE: Mapping[Role, _Shape] = {
    "join": _Shape("join", _cut, sides=26.0),
    "aggregate": _Shape("aggregate", _sharp, _head, sides=26.0, head=8.0),
    "buffer": _Shape("buffer", _sharp, _walls, sides=26.0),
}


def _grid(box: Box) -> str:
    """The mark of a table in the upper right corner."""
    return f"M{_at((box.right - 22, box.y + 9))}h11v8h-11zm0 3h11m-7 -3v8"


# --- style ---------------------------------------------------------------------------------------------------------

ROOT_CLASS = "lakestreams-topology"  # the style of an SVG within a page is the page's too: each rule begins with this

# Colour by what it is for, in light and in dark; text on each of them has a contrast of 4.5 or more (WCAG AA).
LIGHT: Mapping[str, str] = {
    "paper": "#ffffff", "frame": "#f6f7f9", "rule": "#d3d9e0", "ink": "#1a2330", "muted": "#515c6a", "edge": "#68748a",
    "source": "#e7f0fc", "source-line": "#2f6cb3", "sink": "#e5f5ec", "sink-line": "#237a4d",
    "join": "#fdf1db", "join-line": "#a8690a", "aggregate": "#f1eafb", "aggregate-line": "#7445b0",
    "buffer": "#fbe8ee", "buffer-line": "#ad3d68", "step": "#ffffff", "step-line": "#667286",
}  # fmt: skip
DARK: Mapping[str, str] = {
    "paper": "#0f141a", "frame": "#171d25", "rule": "#303a46", "ink": "#eef2f7", "muted": "#aab5c3", "edge": "#8592a5",
    "source": "#172b45", "source-line": "#6ba5ea", "sink": "#14301f", "sink-line": "#58bd85",
    "join": "#3a2a10", "join-line": "#dda545", "aggregate": "#2c1f42", "aggregate-line": "#b08ae6",
    "buffer": "#3c1927", "buffer-line": "#e282a6", "step": "#202833", "step-line": "#93a0b3",
}  # fmt: skip
ROLES = ("source", "sink", "join", "aggregate", "buffer", "step")

# Within a page as wide as there is room. In an at-rule since CairoSVG, which knows none, takes `auto` for no height.
_FITTED = f"@media all {{ .{ROOT_CLASS} {{ max-width: 100%; height: auto }} }}"
_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_FIXED = (
    ("text", f"font: 11px {_FONTS}"),
    (".heading", "font-size: 16px; font-weight: 600"),
    (".part-title", "font-weight: 600"),
    (".part g g text", "text-anchor: middle"),
    (".name", "font-size: 13px; font-weight: 600"),
    (".count", "font-weight: 600"),
    (".rows", "font-weight: 600; text-anchor: middle; paint-order: stroke; stroke-width: 7; stroke-linejoin: round"),
    (".side", "font-size: 9px"),
    (".body", "stroke-width: 1.5"),
    (".body.table", "stroke-dasharray: 6 3"),
    (".inner", "fill: none; stroke-width: 1"),
    (".edge", "fill: none; stroke-width: 1.5"),
    (".edge.table", "stroke-dasharray: 5 4"),
)


def _style() -> str:
    dark = "\n".join(f" {rule}" for rule in _coloured(DARK))
    fixed = [f".{ROOT_CLASS} {what} {{ {how} }}" for what, how in _FIXED]
    return "\n".join(
        ("", _FITTED, *fixed, *_coloured(LIGHT), f"@media screen and (prefers-color-scheme: dark) {{\n{dark}\n}}", "")
    )


def _coloured(colours: Mapping[str, str]) -> Iterator[str]:
    """The rules that differ between light and dark."""
    rules = [
        ("text", f"fill: {colours['ink']}"),
        *((f".{what}", f"fill: {colours['muted']}") for what in ("part-title", "kind", "detail", "side", "legend")),
        (".paper", f"fill: {colours['paper']}"),
        (".frame", f"fill: {colours['frame']}; stroke: {colours['rule']}"),
        (".rows", f"stroke: {colours['frame']}"),  # a halo: the edge passes behind the number
        (".edge", f"stroke: {colours['edge']}"),
        (".arrow", f"fill: {colours['edge']}"),
    ]
    for role in ROLES:
        line = f"stroke: {colours[f'{role}-line']}"
        rules += [(f".{role} .body", f"fill: {colours[role]}; {line}"), (f".{role} .inner", line)]
    return (f".{ROOT_CLASS} {what} {{ {how} }}" for what, how in rules)


# --- elements ------------------------------------------------------------------------------------------------------

_NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _root(width: float, height: float) -> ET.Element:
    return ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "class": ROOT_CLASS,
            "role": "img",
            "width": _px(width),
            "height": _px(height),
            "viewBox": f"0 0 {_px(width)} {_px(height)}",
        },
    )


def _add(parent: ET.Element, tag: str, classes: str = "", text: str | None = None, **values: float | str) -> ET.Element:
    """An element with its text; ElementTree escapes it, and no sign of it is obeyed or breaks XML."""
    given = {name: value if isinstance(value, str) else _px(value) for name, value in values.items()}
    element = ET.SubElement(parent, tag, {"class": classes, **given} if classes else given)
    if text is not None:
        element.text = _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", visible_lines(text))
    return element


def _px(value: float) -> str:
    """At most one digit behind the point: more cannot be seen."""
    return f"{round(value, 1) + 0.0:g}"


def _at(point: tuple[float, float]) -> str:
    return f"{_px(point[0])} {_px(point[1])}"
