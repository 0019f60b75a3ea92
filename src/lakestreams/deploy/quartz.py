"""Quartz cron expressions, which Databricks schedules are written in; the CLI takes any text for one.

Fields: seconds, minutes, hours, day of month, month, day of week and, if given, year. One of the two days is `?`.
"""

from __future__ import annotations

import re
from typing import Final

_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_FIELDS: Final[tuple[tuple[str, int, int, tuple[str, ...]], ...]] = (
    ("seconds", 0, 59, ()),
    ("minutes", 0, 59, ()),
    ("hours", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 1, 7, _DAYS),
    ("year", 1970, 2099, ()),
)
_DAY_OF_MONTH, _DAY_OF_WEEK = 3, 5
# What only a field of days may say: the last day, the nearest weekday; the last Friday, the second Friday.
_SPECIAL: Final = {
    _DAY_OF_MONTH: re.compile(r"L(-([12]?\d|30))?|LW|([1-9]|[12]\d|3[01])W"),
    _DAY_OF_WEEK: re.compile(rf"L|({'|'.join(_DAYS)}|[1-7])(L|#[1-5])"),
}
_LARGEST_STEP: Final = (59, 59, 23, 31, 12, 7)
"""Of each field; Quartz refuses larger ones."""


def fault(expression: str) -> str | None:
    """What is wrong with an expression, or None."""
    fields = expression.split()
    if len(fields) not in (len(_FIELDS) - 1, len(_FIELDS)):
        return f"it has {len(fields)} fields; six or seven are read, the first one being seconds"
    if (fields[_DAY_OF_MONTH] == "?") == (fields[_DAY_OF_WEEK] == "?"):
        return "exactly one of day of month and day of week is ?"
    for place, text in enumerate(fields):
        if place in _SPECIAL and "," in text and re.search(r"[L#](-\d+|\d|W)?(,|$)", text.upper()):
            return f"{text!r}: L and # stand alone in a field of days"
        wrong = next((part for part in text.split(",") if not _is_part(place, part.upper())), None)
        if wrong is not None:
            return f"{wrong!r} is no value of {_FIELDS[place][0]}"
    return None


def _is_part(place: int, part: str) -> bool:
    if part == "?":
        return place in _SPECIAL
    if place in _SPECIAL and _SPECIAL[place].fullmatch(part):
        return True
    _, low, high, names = _FIELDS[place]
    span, slash, step = part.partition("/")
    largest = (*_LARGEST_STEP, high)[place]
    if slash and not (step.isdecimal() and 0 < int(step) <= largest):
        return False
    if span == "*" or (slash and not span):
        return True
    ends = [_number(text, names) for text in span.split("-")]
    return len(ends) in (1, 2) and all(end is not None and low <= end <= high for end in ends)


def _number(text: str, names: tuple[str, ...]) -> int | None:
    if text in names:
        return names.index(text) + 1
    return int(text) if text.isdecimal() else None
