"""Expected next to got: rows in aligned columns, the first one that differs marked and reported in words.

Values are compared by their text here: 1 and 1.0 are equal, 1 and true and "1" are not, and null is not "null".
"""

from __future__ import annotations

import base64
import json
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from lakestreams.visible import visible, visible_json

if TYPE_CHECKING:
    from lakestreams.testing.results import Result

BEFORE: Final = 3  # rows shown around the first difference
AFTER: Final = 9
HEAD: Final = ("key", "value", "timestamp")
WHOLE: Final = (*HEAD, "kind", "cause", "contributors")
FIRST, FURTHER = "> ", "! "  # what marks a row that differs

Rows = Sequence[Sequence[Any]]


def assert_results(got: Sequence[Result], expected: Sequence[Result | tuple[Any, ...]]) -> None:
    """Compares what an output gave with what it should have given, in order.

    Args:
        got: what `TopologyTestDriver.read` returned.
        expected: for each result a tuple (key, value, timestamp); or a Result, then everything else is compared, too,
            in every row.

    Raises:
        AssertionError: showing both in aligned columns; `>` marks the first row that differs, `!` each further one.
    """
    __tracebackhide__ = True
    wholly = not all(isinstance(one, tuple) for one in expected)
    head = WHOLE if wholly else HEAD
    found = difference(head, [_expected(one, head) for one in expected], rows_of(got, head))
    if found is not None:
        raise AssertionError(found)


def rows_of(results: Sequence[Result], head: Sequence[str]) -> list[list[Any]]:
    """Results as rows of these columns."""
    return [[getattr(one, name) for name in head] for one in results]


def _expected(one: Result | tuple[Any, ...], head: Sequence[str]) -> Sequence[Any]:
    if not isinstance(one, tuple):
        return rows_of([one], head)[0]
    if len(one) != len(head):
        msg = f"{one!r} is not a tuple (key, value, timestamp), or stands among Results"
        raise TypeError(msg)
    return one


def difference(
    head: Sequence[str], expected: Rows, got: Rows, words: tuple[str, str] = ("expected", "got")
) -> str | None:
    """Both lists of rows side by side; None if they are equal.

    Args:
        head: the columns' names.
        expected, got: rows of values, a value a column.
        words: what the two are called.
    """
    head = [visible(name) for name in head]
    wanted, found = ([tuple(text_of(value) for value in row) for row in rows] for rows in (expected, got))
    if wanted == found:
        return None
    length = max(len(wanted), len(found))
    first = next(number for number in range(length) if wanted[number : number + 1] != found[number : number + 1])
    shown = range(max(0, first - BEFORE), min(length, first + AFTER))
    empty = ("",) * len(head)
    left, right = (
        _aligned([tuple(head), *(rows[number] if number < len(rows) else empty for number in shown)])
        for rows in (wanted, found)
    )
    marks = ["  ", *(_mark(number, first, wanted, found) for number in shown)]
    lines = [f"{mark}{a} | {b}".rstrip() for mark, a, b in zip(marks, left, right, strict=True)]
    before, after = shown.start, length - shown.stop
    counts = " | ".join(f"{word} {len(rows)}" for word, rows in zip(words, (wanted, found), strict=True))
    return "\n".join(
        [
            f"{counts}: {_in_words(head, expected, got, first, words)}",
            lines[0],
            *([f"  ... {before} equal before"] if before else []),
            *lines[1:],
            *([f"  ... {after} more"] if after else []),
        ]
    )


def text_of(value: Any) -> str:
    """A value's text: JSON, with the keys of mappings sorted."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return visible_json(json.dumps(value, ensure_ascii=False))
    if isinstance(value, int | float | Decimal):
        return _number(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{text_of(key)}: {text_of(one)}" for key, one in sorted(value.items(), key=_by_text))
        return f"{{{inner}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(text_of, value))}]"
    if isinstance(value, bytes | bytearray):
        return text_of({"base64": base64.b64encode(value).decode()})
    if isinstance(value, date):  # and datetime
        return text_of(value.isoformat())
    return repr(value)


def _by_text(item: tuple[Any, Any]) -> str:
    return text_of(item[0])


def _number(value: float | Decimal) -> str:
    exact = Decimal(str(value))
    if not exact.is_finite():
        return str(value)
    if exact == exact.to_integral_value():
        return str(int(exact))
    return format(exact, "f").rstrip("0")  # normalize() would round to the 28 digits of Python's context


def _mark(number: int, first: int, wanted: Sequence[object], actual: Sequence[object]) -> str:
    if wanted[number : number + 1] == actual[number : number + 1]:
        return "  "
    return FIRST if number == first else FURTHER


def _in_words(head: Sequence[str], expected: Rows, got: Rows, first: int, words: tuple[str, str]) -> str:
    """What the first difference is."""
    if first >= len(expected) or first >= len(got):
        return f"row {first + 1} is only in {words[first >= len(expected)]}"
    pairs = zip(head, expected[first], got[first], strict=True)
    parts = [part for name, wanted, found in pairs for part in _parts(name, wanted, found)]
    told = "; ".join(f"{name} {words[0]} {wanted}, {words[1]} {found}" for name, wanted, found in parts)
    return f"first in row {first + 1}: {told}"


def _parts(name: str, wanted: Any, actual: Any) -> list[tuple[str, str, str]]:
    """The innermost parts that differ."""
    if isinstance(wanted, Mapping) and isinstance(actual, Mapping):
        keys = dict.fromkeys([*wanted, *actual])
        inner = [(f"{name}.{visible(str(key))}", wanted.get(key, _NOTHING), actual.get(key, _NOTHING)) for key in keys]
        return [part for one in inner for part in _parts(*one)]
    texts = text_of(wanted), text_of(actual)
    return [] if texts[0] == texts[1] else [(name, *texts)]


class _Nothing:
    """Stands for a column that one side does not have."""

    def __repr__(self) -> str:
        return "nothing"


_NOTHING: Final = _Nothing()


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(_width(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)) for row in rows
    ]


def _width(text: str) -> int:
    """Columns of a terminal: wide characters take two."""
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)
