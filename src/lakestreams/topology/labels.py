"""What a drawing writes into each box: few lines, short enough for it, with their widths estimated without a font.

The whole of a node's options is in its text (`Node.details`); a box has what one looks for in a drawing.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from lakestreams.topology.derived import Aggregate, Suppress
from lakestreams.topology.endpoints import DeltaSink, KafkaSink, Source
from lakestreams.topology.joins import (
    ForeignKeyJoin,
    ForeignKeyStreamJoin,
    StreamGlobalJoin,
    StreamTableJoin,
    WindowedJoin,
)
from lakestreams.topology.mappers import ByName
from lakestreams.topology.node import Join, Node
from lakestreams.topology.partitions import task_count
from lakestreams.topology.steps import Repartition
from lakestreams.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Style = Literal["heading", "name", "kind", "detail", "count"]

FONT_PX: Mapping[Style, float] = {"heading": 16.0, "name": 13.0, "kind": 11.0, "detail": 11.0, "count": 11.0}
WIDEST_PX = 280.0
_BOLD = ("heading", "name", "count")
_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))
# Shares of the font's size, as wide as the widest of the fonts that a browser may take (DejaVu Sans, Verdana).
_NARROW, _WIDE = frozenset("fijlrtIJ.,:;|!'()[]{}/\\ -`"), frozenset("mwMWOQ@%&_+=<>~#")
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


@dataclass(frozen=True)
class Line:
    """A line of a box as it is shown, and its width in pixels."""

    text: str
    style: Style
    width: float


def lines_of(node: Node, partitions: Mapping[str, int]) -> list[Line]:
    """The lines of a node's box, from above: its name, its kind, the options one looks for, and its count.

    Args:
        node: the node.
        partitions: topic to partition count, of the topics where it is known.
    """
    lines = [_line(node.name, "name"), _line(", ".join(_kind(node)), "kind")]
    lines.extend(_line(detail, "detail") for detail in _details(node))
    count = _count(node, partitions)
    return [*lines, _line(count, "count")] if count else lines


# --- words ---------------------------------------------------------------------------------------------------------


def _kind(node: Node) -> Iterator[str]:
    yield node.word.replace("_", " ") if isinstance(node, Source) else node.word
    if isinstance(node, Join):
        yield node.shape
    if isinstance(node, DeltaSink):
        yield node.mode
    if isinstance(node, KafkaSink):
        yield node.content
    if node.makes_key:
        yield "new key"


def _details(node: Node) -> Iterator[str]:
    if isinstance(node, Source):
        if node.delta is not None:
            yield f"delta {node.delta}"
            yield from (f"changes {node.changes}",) if node.kind != "stream" else ()
        elif node.topic != node.name:
            yield f"topic {node.topic}"
        if node.history_ms is not None:
            yield f"versioned, history {span(node.history_ms)}"
    elif isinstance(node, Join):
        yield from _join_details(node)
    elif isinstance(node, Aggregate):
        yield from _aggregate_details(node)
    elif isinstance(node, Suppress):
        yield "until window closes" if node.until_ms is None else f"until {span(node.until_ms)}"
        if node.max_records is not None:
            yield f"max_records {node.max_records}, then {node.when_full}"
    elif isinstance(node, DeltaSink):
        for layout, names in (("cluster by", node.cluster_by), ("partition by", node.partition_by)):
            if names:
                yield f"{layout} {', '.join(names)}"
    elif isinstance(node, KafkaSink):
        yield "at least once"


def _join_details(join: Join) -> Iterator[str]:
    if isinstance(join, WindowedJoin):
        if join.before_ms == join.after_ms:
            yield f"within {span(join.before_ms)}, grace {span(join.grace_ms)}"
        else:
            yield f"before {span(join.before_ms)}, after {span(join.after_ms)}"
            yield f"grace {span(join.grace_ms)}"
        if join.how != "inner":
            yield f"unmatched {join.emit_unmatched}"
        if join.rules != "strict":
            yield f"rules {join.rules}"
    elif isinstance(join, StreamTableJoin) and join.right.history_ms is not None:
        grace = "" if join.grace_ms is None else f", grace {span(join.grace_ms)}"
        yield f"as of event time{grace}"
    elif isinstance(join, StreamTableJoin) and join.races:
        bounds = (("waits", join.wait_ms), ("amends within", join.amend_ms))
        yield ", ".join(f"{word} {span(ms)}" for word, ms in bounds if ms is not None)
    elif isinstance(join, StreamGlobalJoin | ForeignKeyJoin) and isinstance(join.left_on, ByName):
        yield f"left_on {', '.join(join.left_on.names)}"
    elif isinstance(join, ForeignKeyStreamJoin) and isinstance(join.right_on, ByName):
        yield f"right_on {', '.join(join.right_on.names)}"


def _aggregate_details(node: Aggregate) -> Iterator[str]:
    yield "grouped by key" if node.group is None else "grouped by a new key"
    if node.windows is not None:
        size_ms, advance_ms, grace_ms = node.windows.size_ms, node.windows.advance_ms, node.windows.grace_ms
        if advance_ms == size_ms:
            yield f"windows of {span(size_ms)}, grace {span(grace_ms)}"
        else:
            yield f"windows of {span(size_ms)} every {span(advance_ms)}"
            yield f"grace {span(grace_ms)}"
    if node.emit != "every_change":
        yield f"emit {node.emit}"


def _count(node: Node, partitions: Mapping[str, int]) -> str | None:
    if isinstance(node, Source):
        return None if node.delta is not None else _counted(partitions.get(node.topic), "partition")
    if isinstance(node, KafkaSink):
        return _counted(partitions.get(node.name), "partition")
    if isinstance(node, Repartition):
        return _counted(node.partitions, "partition")
    if isinstance(node, StreamGlobalJoin):  # it runs where the stream's records lie: each task has the whole table
        return _counted(task_count(replace(node, right=node.left), partitions), "task")
    if node.gathers:
        return _counted(task_count(node, partitions), "task")
    return None


def _counted(count: int | None, what: str) -> str | None:
    return None if count is None else f"{count} {what}{'' if count == 1 else 's'}"


def span(ms: int) -> str:
    """A duration in the largest unit that gives a whole number, such as `5 min` or `1500 ms`."""
    unit, unit_ms = next(((unit, unit_ms) for unit, unit_ms in _UNITS_MS if ms and ms % unit_ms == 0), ("ms", 1))
    return f"{ms // unit_ms} {unit}"


# --- widths --------------------------------------------------------------------------------------------------------


def _line(text: str, style: Style) -> Line:
    shown = shortened(printable(text), WIDEST_PX, style)
    return Line(shown, style, width_of(shown, style))


def printable(text: str) -> str:
    """The text on one line: runs of blanks and line breaks are one space, what would be obeyed or not seen is written out."""
    return visible(" ".join(text.split()))


def shortened(text: str, width: float, style: Style) -> str:
    """The text if it fits, else its beginning and end: both tell names of one topology apart."""
    if width_of(text, style) <= width:
        return text
    kept = len(text)
    while kept > 2 and width_of(_cut(text, kept), style) > width:
        kept -= 1
    return _cut(text, kept)


def _cut(text: str, kept: int) -> str:
    head, tail = text[: (kept + 1) // 2], text[len(text) - kept // 2 :]
    while tail and (_is_attached(tail[0]) or head[-1:] == "\N{ZERO WIDTH JOINER}"):  # no half of a sign made of several
        head, tail = head.rstrip("\N{ZERO WIDTH JOINER}"), tail[1:]
    return f"{head}{_ELLIPSIS}{tail}"


def width_of(text: str, style: Style) -> float:
    """An estimate that is rather too wide than too narrow, in pixels."""
    return sum(map(_em, text)) * FONT_PX[style] * (1.12 if style in _BOLD else 1.0)


def _em(sign: str) -> float:
    if _is_attached(sign):
        return 0.0
    if unicodedata.east_asian_width(sign) in "WF":
        return 1.35 if unicodedata.category(sign) == "So" else 1.0
    if sign in _NARROW:
        return 0.4
    if sign in _WIDE:
        return 0.95
    return 0.72 if sign.isupper() else 0.63


def _is_attached(sign: str) -> bool:
    return unicodedata.category(sign) in ("Mn", "Me", "Cf") or unicodedata.combining(sign) > 0
