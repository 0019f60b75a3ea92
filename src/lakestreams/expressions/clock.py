"""Texts that Spark takes for the clock: 'now', 'today', 'tomorrow', 'yesterday', 'epoch', where it wants a time.

Only a text that no record has a part in is taken so. It is refused where it becomes a date or timestamp: in a cast, in a
function of times, and next to a time in a comparison or a choice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from sqlglot import exp

from lakestreams.expressions import functions
from lakestreams.expressions.bounds import text_of
from lakestreams.expressions.text import short

KindOf = Callable[[exp.Expr], str]
"""The SQL type of a column reference; empty where it is not known."""

_WORD: Final = re.compile(r"(?i)\s*(now|today|tomorrow|yesterday|epoch)\b")
_TIME: Final = re.compile(r"(?i)\b(date|timestamp\w*)\b")
_TIME_FUNCTIONS: Final = functions.GROUPS["Date and time"] | {"date", "timestamp"}
# of which the result is no time, whatever they are of
_NO_TIMES: Final = frozenset(
    """date_diff date_format date_part datediff datepart day dayname dayofmonth dayofweek dayofyear from_unixtime hour
    make_dt_interval make_interval make_ym_interval minute month monthname months_between quarter second timestampdiff
    to_unix_timestamp unix_date unix_micros unix_millis unix_seconds unix_timestamp weekday weekofyear year""".split()  # noqa: SIM905 - reads better
)
# All arguments of these get one type.
_CHOICES: Final = functions.GROUPS["Choice"] | {
    "array", "array_append", "array_contains", "array_insert", "array_position", "array_prepend", "array_remove",
    "greatest", "least",
}  # fmt: skip
_PAIRS: Final = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Between, exp.Add, exp.Sub,
)  # fmt: skip


def has_words(tree: exp.Expr) -> bool:
    """Whether any text in an expression is one of the words: others need not be judged."""
    return any(_is_word_itself(node) for node in tree.walk())


def fault(tree: exp.Expr, kind_of: KindOf = lambda _: "") -> str | None:
    """The first part of an expression that asks for the clock, as a sentence; None if none does.

    Args:
        tree: the expression.
        kind_of: the types of columns; without them only what is a time in any case counts as one.
    """
    for node in tree.walk():
        for group in _groups(node):
            words = [one for one in group if _is_word(one)]
            if words and (_wants_time(node) or any(_is_time(one, kind_of) for one in group)):
                return f"{short(words[0].sql(dialect='spark'))} asks for the current time, which is another one in each run"
    return None


def _groups(node: exp.Expr) -> Iterator[list[exp.Expr]]:
    """The parts of a node that get one type."""
    if isinstance(node, exp.Case):
        branches = node.args["ifs"]
        if node.this is not None:
            yield [node.this, *(branch.this for branch in branches)]
        yield [
            one for one in (*(branch.args["true"] for branch in branches), node.args.get("default")) if one is not None
        ]
    elif _wants_time(node) or isinstance(node, _PAIRS) or (isinstance(node, exp.Anonymous) and _name(node) in _CHOICES):
        yield list(node.iter_expressions())


def _wants_time(node: exp.Expr) -> bool:
    if isinstance(node, exp.Cast | exp.TryCast):
        return _TIME.search(node.args["to"].sql(dialect="spark")) is not None
    return isinstance(node, exp.Extract) or (isinstance(node, exp.Anonymous) and _name(node) in _TIME_FUNCTIONS)


def _is_word(node: exp.Expr) -> bool:
    """Whether a part has one of the words and nothing of a record."""
    return not any(node.find_all(exp.Column, exp.Dot)) and has_words(node)


def _is_word_itself(node: exp.Expr) -> bool:
    text = text_of(node)
    return text is not None and _WORD.match(text) is not None


def _is_time(node: exp.Expr, kind_of: KindOf) -> bool:
    """Whether a part is, or has in it, a date or a timestamp."""
    if isinstance(node, exp.Column | exp.Dot) and (kind := kind_of(node)):
        return _TIME.search(kind) is not None
    if isinstance(node, exp.Cast | exp.TryCast):
        return _wants_time(node)
    if isinstance(node, exp.Anonymous) and _name(node) in _TIME_FUNCTIONS:
        return _name(node) not in _NO_TIMES
    if isinstance(node, exp.Case):
        return any(_is_time(one, kind_of) for one in [*_groups(node)][-1])
    passes_on = isinstance(node, exp.Paren | exp.Add | exp.Sub | exp.Bracket | exp.Dot)
    passes_on |= isinstance(node, exp.Anonymous) and _name(node) in (*_CHOICES, "element_at", "get", "try_element_at")
    return passes_on and any(_is_time(one, kind_of) for one in node.iter_expressions())


def _name(node: exp.Expr) -> str:
    return str(node.this).lower()


__all__ = ["KindOf", "fault", "has_words"]
