"""Literals as SQL: texts, numbers, dates and intervals, each rewritten."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from lakestreams.expressions import functions
from lakestreams.expressions.text import NUMBER, Leaf, decimal, short, shown
from lakestreams.sql import literal

if TYPE_CHECKING:
    from lakestreams.expressions.sql import Renderer

_TYPED_LITERAL: Final = {
    "DATE": re.compile(r"\d{4}-\d{1,2}-\d{1,2}\Z"),
    "TIMESTAMP": re.compile(
        r"\d{4}-\d{1,2}-\d{1,2}([ T]\d{1,2}:\d{1,2}(:\d{1,2}(\.\d{1,6})?)?([ ]?[A-Za-z0-9:+/_-]+)?)?\Z"
    ),
    "TIMESTAMP_NTZ": re.compile(r"\d{4}-\d{1,2}-\d{1,2}([ T]\d{1,2}:\d{1,2}(:\d{1,2}(\.\d{1,6})?)?)?\Z"),
}
_INTERVAL_NUMBER = re.compile(r"-?\d{1,9}(\.\d{1,9})?\Z")


def plain(on: Renderer, node: exp.Expr) -> str:
    """The SQL of a text or a number."""
    written = str(node.this)
    if type(node) is exp.RawString or node.args.get("is_string"):
        on.leaves.append(("text", written))
        return literal(written)
    if not NUMBER.match(written):
        on.refuse(f"{short(written)} is no number")
    on.leaves.append(("number", decimal(written)))
    return written


def is_time(kind: str, node: exp.Expr) -> bool:
    """Whether a node is the text of a date or timestamp, such as stands behind the type's word."""
    pattern = _TYPED_LITERAL.get(kind)
    return pattern is not None and is_text(node) and pattern.match(str(node.this)) is not None


def interval(on: Renderer, node: exp.Expr) -> str:
    """The SQL of an interval of one unit."""
    number, unit = node.this, node.args.get("unit")
    word = str(unit.this).upper() if type(unit) is exp.Var else ""
    if (
        type(number) is not exp.Literal
        or not _INTERVAL_NUMBER.match(str(number.this))
        or word not in functions.INTERVAL_UNITS
    ):
        on.refuse(f"{shown(node)} is no plain interval", hint="write it like INTERVAL 10 MINUTES")
    written = str(number.this)
    on.leaves.extend([("name", "INTERVAL"), _interval_leaf(on, written), ("name", word)])
    return f"(INTERVAL '{written}' {word})"


def _interval_leaf(on: Renderer, written: str) -> Leaf:
    # sqlglot keeps the number of both INTERVAL 1 DAY and INTERVAL '1' DAY as a text
    return ("text", written) if re.search(rf"['\"]{re.escape(written)}['\"]", on.text) else ("number", Decimal(written))


def is_text(node: object) -> bool:
    """Whether a node is a text that is written out."""
    return type(node) is exp.RawString or (type(node) is exp.Literal and bool(node.args.get("is_string")))
