"""What a drawing writes into each box: few lines, short enough for it, with their widths estimated without a font.

The whole of a node's options is in its text (`Node.details`); a box has what one looks for in a drawing (`Node.box`).
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lakestreams.topology.partitions import task_count
from lakestreams.visible import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakestreams.topology.node import Node

Style = Literal["heading", "name", "kind", "detail", "count"]

FONT_PX: Mapping[Style, float] = {"heading": 16.0, "name": 13.0, "kind": 11.0, "detail": 11.0, "count": 11.0}
WIDEST_PX = 280.0
_BOLD = ("heading", "name", "count")
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
    lines = [_line(node.name, "name"), _line(node.caption, "kind"), *(_line(detail, "detail") for detail in node.box)]
    count = _count(node, partitions)
    return [*lines, _line(count, "count")] if count else lines


def _count(node: Node, partitions: Mapping[str, int]) -> str | None:
    """The partitions that a node has of its own, else the tasks in which it gathers rows."""
    own = node.partition_count(partitions)
    if own is None and node.gathers:
        return _counted(task_count(node, partitions), "task")
    return _counted(own, "partition")


def _counted(count: int | None, what: str) -> str | None:
    return None if count is None else f"{count} {what}{'' if count == 1 else 's'}"


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
