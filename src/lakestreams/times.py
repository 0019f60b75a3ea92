"""Prints times and durations as people read them, with the milliseconds next to them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

# Milliseconds from 2001 to 2286 inside a sentence; in quotes they are part of a key or value.
_MOMENT: Final = re.compile(r"(?<![\w.'\"-])[1-9]\d{12}(?![\w.'\"])")
_DURATION: Final = re.compile(r"(?<![\w.'\"])(\d{4,}) ms\b")
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)")
_LATEST_MS: Final = 253_402_300_799_999  # the end of the year 9999
_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def iso(ms: int) -> str:
    """A time as ISO 8601 in UTC: `2026-01-31T12:00:00.000Z`."""
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(text: str) -> int | None:
    """The milliseconds of a time as ISO 8601 with its zone, such as `2026-01-31T12:00:00Z`; None of another text."""
    if _ISO.fullmatch(text) is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (found - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def alone(ms: int) -> str:
    """A time as ISO 8601 in UTC, without its milliseconds; as a number where it lies outside of a calendar."""
    return iso(ms) if 0 <= ms <= _LATEST_MS else str(ms)


def both(ms: int | None) -> str:
    """A time with its milliseconds: `2026-01-31T12:00:00.000Z (1769860800000)`."""
    if ms is None:
        return "-"
    return f"{alone(ms)} ({ms})" if 0 <= ms <= _LATEST_MS else str(ms)


def readable(sentence: str) -> str:
    """A sentence in which milliseconds since 1970 are times, and thousands of milliseconds are durations."""
    timed = _MOMENT.sub(lambda match: both(int(match[0])), sentence)
    return _DURATION.sub(lambda match: _units(int(match[1])), timed)


def _units(ms: int) -> str:
    unit, unit_ms = next(((unit, size) for unit, size in _UNITS if ms % size == 0), ("", 0))
    return f"{ms // unit_ms} {unit} ({ms} ms)" if unit else f"{ms} ms"
