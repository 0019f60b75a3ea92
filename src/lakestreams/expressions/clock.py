"""Texts that Spark completes by the clock where it wants a time: 'now', 'today' and the like, and '12:30', which has no date.

They are refused where they become a date or timestamp: in a cast, in a function of times, and next to a time in a
comparison or a choice. Of the words only a text that no record has a part in is taken so. A time of day is one in a
record's text, too, which nobody can see here: docs/expressions.md says what to write for such a column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from sqlglot import exp

from lakestreams.expressions import functions
from lakestreams.expressions.bounds import text_of
from lakestreams.expressions.text import Fault, short

KindOf = Callable[[exp.Expr], str]
"""The SQL type of a column reference; empty where it is not known."""

_BLANKS: Final = r"[\s\x00-\x20\x7f-\x9f]*"  # Spark trims control characters as well
_WORD: Final = re.compile(rf"(?i){_BLANKS}(now|today|tomorrow|yesterday|epoch)\b")
# No date begins so. What is no time behind it is none with a date either.
_TIME_OF_DAY: Final = re.compile(rf"{_BLANKS}(T\d|\d{{1,2}}:)")
_TIME: Final = re.compile(r"(?i)\b(date|timestamp\w*)\b")
_TIME_FUNCTIONS: Final = functions.GROUPS["Date and time"] | {"date", "timestamp"}
# of which the result is no time, whatever they are of
_NO_TIMES: Final = frozenset(
    """date_diff date_format date_part datediff datepart day dayname dayofmonth dayofweek dayofyear from_unixtime hour
    make_dt_interval make_interval make_ym_interval minute month monthname months_between quarter second timestampdiff
    to_unix_timestamp unix_date unix_micros unix_millis unix_seconds unix_timestamp weekday weekofyear year""".split()  # noqa: SIM905 - reads better
)
# With a format a text without a date is on 1970-01-01.
_WITH_FORMAT: Final = frozenset(
    """to_date to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp try_to_date try_to_timestamp
    unix_timestamp""".split()  # noqa: SIM905 - reads better
)
# All arguments of these get one type.
_CHOICES: Final = functions.GROUPS["Choice"] | {
    "array", "array_append", "array_contains", "array_insert", "array_position", "array_prepend", "array_remove",
    "greatest", "least",
}  # fmt: skip
# The result of these is one of their arguments, or has it in it, or differs from it by blanks and capitals.
_PASS_ON: Final = (
    *_CHOICES, "btrim", "element_at", "get", "lcase", "lower", "ltrim", "map", "named_struct", "rtrim", "string", "struct", "trim",
    "try_element_at", "ucase", "upper",
)  # fmt: skip
_PAIRS: Final = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Between, exp.Add, exp.Sub,
)  # fmt: skip


def may_ask(tree: exp.Expr) -> bool:
    """Whether any text in an expression is a word or a time of day: others need not be judged."""
    return any(_is(_WORD, node) or _is(_TIME_OF_DAY, node) for node in tree.walk())


def fault(tree: exp.Expr, kind_of: KindOf = lambda _: "") -> Fault | None:
    """The first part of an expression that asks for the clock; None if none does.

    Args:
        tree: the expression.
        kind_of: the types of columns; without them only what is a time in any case counts as one.
    """
    for node in tree.walk():
        for group in _groups(node):
            words = [one for one in group if _is_word(one)]
            times = [] if _has_format(node) else [text for one in group for text in _times_of_day(one)]
            if not (words or times) or not (_wants_time(node) or any(_is_time(one, kind_of) for one in group)):
                continue
            written = short((words or times)[0].sql(dialect="spark"))
            if words:
                why = f"{written} asks for the current time, which is another one in each run"
                hint = "compare or combine a time with a column; if a text is meant, write cast(... as string)"
                return Fault(why, hint)
            why = f"{written} has no date; Spark takes the current one, which is another one in each run"
            hint = "write the date, too, as in '2024-02-29 12:30'; compare times of day as date_format(at, 'HH:mm') > '12:30'"
            return Fault(why, hint)
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
    return not any(node.find_all(exp.Column, exp.Dot)) and any(_is(_WORD, one) for one in node.walk())


def _is(pattern: re.Pattern[str], node: exp.Expr) -> bool:
    text = text_of(node)
    return text is not None and pattern.match(text) is not None


def _has_format(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and _name(node) in _WITH_FORMAT and len(node.expressions) > 1


def _times_of_day(node: exp.Expr) -> Iterator[exp.Expr]:
    """The texts of times without a date that a part may be, or have in it. What is joined is judged whole."""
    if text_of(node) is not None:
        if _is(_TIME_OF_DAY, node):
            yield node
        return
    inner: list[exp.Expr] = []
    if isinstance(node, exp.Case):
        inner = [*_groups(node)][-1]
    elif isinstance(node, exp.Bracket | exp.Cast | exp.TryCast | exp.Dot):
        inner = [node.this]
    elif isinstance(node, exp.Paren | exp.Trim) or (isinstance(node, exp.Anonymous) and _name(node) in _PASS_ON):
        inner = list(node.iter_expressions())
    for one in inner:
        yield from _times_of_day(one)


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


__all__ = ["KindOf", "fault", "may_ask"]
