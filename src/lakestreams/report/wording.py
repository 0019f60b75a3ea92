"""Numbers, times and spans as the page and its charts write them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

DASH = "\N{EN DASH}"
_DAY_MS = 86_400_000


def count(number: float | None) -> str:
    """A whole number with its thousands apart."""
    return DASH if number is None else f"{number:,.0f}"


def short(number: float) -> str:
    """A number for an axis: at most three digits and a unit."""
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= limit * 0.9995:  # what is rounded to a thousand is one of the next unit
            return f"{number / limit:.3g}{unit}"
    return f"{number:.3g}"


def share(part: float | None) -> str:
    """A share in percent; only a whole is 100 %, only nothing is 0 %."""
    if part is None:
        return DASH
    percent = f"{part * 100:.2f}"
    if (percent == "100.00" and part < 1) or (percent == "0.00" and part > 0):
        return "> 99.99 %" if part > 0.5 else "< 0.01 %"
    return f"{percent.rstrip('0').rstrip('.')} %"


def seconds(number: float | None) -> str:
    """A duration."""
    if number is None:
        return DASH
    if number < 120:
        return f"{number:.1f} s" if number < 10 else f"{number:.0f} s"
    minutes, rest = divmod(round(number), 60)
    if minutes < 120:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours / 24:.1f} days"


def instant(ms: int | None, style: str = "%d %b %Y, %H:%M:%S") -> str:
    """A point in time, UTC."""
    if ms is None:
        return DASH
    try:
        return datetime.fromtimestamp(ms / 1_000, UTC).strftime(style)
    except (ValueError, OverflowError, OSError):  # records may say that they are of any time
        return DASH


def span(begin: int | None, end: int | None) -> str:
    """From when to when, UTC; the day once if it is one day."""
    if begin is None or end is None:
        return instant(end if begin is None else begin, "%d %b %Y, %H:%M UTC")
    same = instant(begin, "%d %b %Y") == instant(end, "%d %b %Y")
    to = "%H:%M UTC" if same else "%d %b %Y, %H:%M UTC"
    return f"{instant(begin, '%d %b %Y, %H:%M')} to {instant(end, to)}"


def axis_times(moments: Sequence[int | None]) -> list[str]:
    """The times of an axis: of the day, or the days if they are more than one day."""
    known = [one for one in moments if one is not None]
    style = "%d %b" if known and max(known) - min(known) > _DAY_MS else "%H:%M"
    return ["" if one is None else instant(one, style) for one in moments]
