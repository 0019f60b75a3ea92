"""Durations as users write them; milliseconds inside."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

from lakestreams.errors import InvalidDuration

_UNITS_MS = {
    "ms": 1,
    "millisecond": 1,
    "s": 1_000,
    "sec": 1_000,
    "second": 1_000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
}
_MOST_DAYS = 1_000_000  # so that times and their sums stay numbers of 64 bits, and dates
_HOUR_MS = 3_600_000
_MONTHS_OR_MINUTES = "minutes are m or min; a month has no fixed length: give days, such as 30 days"
_SHORT_MS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))
_NUMBER = r"^\s*(-?\d+(?:\.\d+)?)\s*"
_MS = re.compile(_NUMBER + r"(ms)\s*$")
_TEXT = re.compile(_NUMBER + r"([a-zA-Z]+?)s?\s*$")

Duration = str | timedelta


def to_ms(duration: Duration, what: str = "duration", *, signed: bool = False, word: str | None = None) -> int:
    """Milliseconds of a duration such as `"10 minutes"`, `"1.5 s"`, `"250 ms"` or a timedelta.

    Args:
        duration: the text or timedelta.
        what: the option it belongs to, for the message.
        signed: whether it may be negative, such as `"-3 s"`: the bounds of a window may.
        word: what the option takes besides durations, for the message.

    Raises:
        InvalidDuration: if it is neither, negative without `signed`, or finer than a millisecond, or longer than a
            million days; if its unit is `M`.
    """
    shown = f"{what} {duration!r}" if word is None else f'{what} (or "{word}") {duration!r}'
    if isinstance(duration, timedelta):
        ms = Decimal(duration // timedelta(microseconds=1)) / 1_000
    else:
        # "ms" ends in an s, so it is looked up before the s is taken off
        match = _MS.match(str(duration)) or _TEXT.match(str(duration))
        # M is a month in SQL and ISO 8601; D, H and S mean there what they mean here
        if match is not None and match[2] == "M":
            text = f"{shown} may mean months or minutes"
            raise InvalidDuration(text, _MONTHS_OR_MINUTES, option=what, given=duration)
        if match is None or match[2].lower() not in _UNITS_MS:
            raise InvalidDuration(f"{shown} is not a duration", option=what, given=duration)
        ms = Decimal(match[1]) * _UNITS_MS[match[2].lower()]  # exact: in floats 1.001 s is no whole number of ms
    if (ms < 0 and not signed) or ms != int(ms):
        msg = f"{shown} must be {'' if signed else 'zero or more, '}in whole milliseconds"
        raise InvalidDuration(msg, option=what, given=duration)
    if abs(ms) > _MOST_DAYS * _UNITS_MS["day"]:
        text = f"{shown} is longer than {_MOST_DAYS:,} days, beyond any time that a record can have"
        raise InvalidDuration(text, "give fewer days, such as 36500 days", option=what, given=duration)
    return int(ms)


def retention_ms(duration: Duration, what: str) -> int:
    """Milliseconds of how long records are kept: an hour or more, or 0 for none longer than jobs need them.

    Raises:
        InvalidDuration: also if it is shorter, which is a mistyped unit: what is trimmed does not come back.
    """
    ms = to_ms(duration, what)
    if 0 < ms < _HOUR_MS:
        hint = "an hour or more, such as 30 days; 0 s trims all that no job needs any more"
        raise InvalidDuration(
            f"{what} {duration!r} is shorter than an hour, and trimming cannot be undone",
            hint,
            option=what,
            given=duration,
        )
    return ms


def in_units(ms: int) -> str:
    """A duration in the largest unit that gives a whole number, as drawings show it: `5 min`, `1500 ms`."""
    unit, unit_ms = next(((unit, unit_ms) for unit, unit_ms in _SHORT_MS if ms and ms % unit_ms == 0), ("ms", 1))
    return f"{ms // unit_ms} {unit}"


def to_text(ms: int) -> str:
    """A duration in the largest unit that it has two or more of, rounded: `90 minutes`, `3 days`, `250 ms`."""
    for unit in ("day", "hour", "minute", "second"):
        if ms >= 2 * _UNITS_MS[unit]:
            return f"{ms / _UNITS_MS[unit]:.0f} {unit}s"
    return f"{ms} ms"
