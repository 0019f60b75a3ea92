"""One value of a declared type from its text: the exact value, or None where the text does not say one.

docs/formats.md has the rules in words.
"""

from __future__ import annotations

import datetime as dt
import re
from binascii import a2b_base64
from decimal import Decimal
from typing import Any, Final

from lakestreams.formats.kinds import BASE64, Leaf
from lakestreams.formats.numbers import AsDouble, is_exact

_NUMBER: Final = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([-+]?[0-9]{1,4}))?\Z")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_TIME: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6})0*)?)?"
    r"(Z|[-+][0-9]{2}(?::?[0-9]{2})?)?\Z"
)
_ERA: Final = 400  # years, after which the calendar comes again
_DAYS_OF_ERA: Final = 146_097
_FURTHEST: Final = 18 * 60  # minutes, of a zone
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - zones are added as numbers
_MICROS: Final = (-62_135_596_800_000_000, 253_402_300_799_999_999)  # the first and the last moment of years 1 to 9999
_DAY_MICROS: Final = 86_400_000_000
_SIZES: Final = {"timestamp_s": 1_000_000, "timestamp_ms": 1_000, "timestamp_us": 1}
# of whole groups of four; the last letter has no bits that are not read
_STRICT: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?\Z")
# as Jackson reads bytes: blanks between groups, and groups behind one that is filled up
_GROUP: Final = r"[A-Za-z0-9+/]{2}(?:[A-Za-z0-9+/]{2}|[A-Za-z0-9+/]=|==)"
_LOOSE: Final = re.compile(rf"(?:[\x00-\x20]*+{_GROUP})*+[\x00-\x20]*\Z")
_BEHIND_FILLING: Final = re.compile(r"(?<==)(?=[^=])")
_MOST_BYTES: Final = 16


def value_of(leaf: Leaf) -> Any:
    """The function from a text to the value of a type: `date`, `timestamp`, `timestamp_ntz` or a decimal."""
    if leaf.declared.startswith("decimal"):
        precision, scale = sizes(leaf.spark)
        of = _from_base64 if leaf.declared.startswith(BASE64) else _decimal
        return lambda text: of(text, precision, scale)
    return {"date": _date, "timestamp": _moment, "timestamp_ntz": _wall}[leaf.declared]


def of_number(kind: str) -> Any:
    """The function from whole numbers of a unit to times: days, or microseconds, since 1970."""
    low, high = _MICROS
    if kind == "date_days":
        return lambda number: number if low // _DAY_MICROS <= number <= high // _DAY_MICROS else None
    size = _SIZES[kind]
    return lambda number: number * size if low // size <= number <= high // size else None


def bounds(kind: str) -> tuple[int, int, int]:
    """The least and the greatest number of a unit, and how many microseconds one is (of `date_days`: 1 day)."""
    size = _DAY_MICROS if kind == "date_days" else _SIZES[kind]
    return _MICROS[0] // size, _MICROS[1] // size, 1 if kind == "date_days" else size


def described(leaf: Leaf) -> str:
    """The type in a message: what a value is not."""
    examples = {
        "timestamp": "timestamp with a zone, such as 2024-03-01T12:00:00Z (for numbers: timestamp_s, timestamp_ms, timestamp_us)",
        "timestamp_ntz": "timestamp_ntz, such as 2024-03-01T12:00:00",
        "date": "date, such as 2024-03-01 (for numbers: date_days)",
    }
    return examples.get(leaf.declared, leaf.declared)


def sizes(kind: str) -> tuple[int, int]:
    """Precision and scale of `decimal(10, 2)`; Spark's own of `decimal`."""
    inside = kind.partition("(")[2].rstrip(")")
    precision, scale = (*(int(size) for size in inside.split(",")), 0)[:2] if inside else (10, 0)
    return precision, scale


def binary(text: str) -> bytes | None:
    """The bytes that Base64 says."""
    if not _LOOSE.match(text):
        return None
    return b"".join(map(a2b_base64, _BEHIND_FILLING.split(text)))


def _decimal(text: str, precision: int, scale: int) -> Decimal | None:
    """The number, if its digits fit: zeros may stand behind them, nothing is rounded."""
    if isinstance(text, AsDouble):
        if text.written is None or not is_exact(text.written):
            return None
        text = "0" if float(text.written) == 0 else text.written
    found = _NUMBER.match(text)
    if found is None:
        return None
    sign, before, behind, exponent = found.groups()
    behind = behind or ""
    digits = (before + behind).lstrip("0")
    kept = digits.rstrip("0")
    if not kept:
        return Decimal((0, (0,), -scale))
    # kept times ten to the minus `places`
    places = len(behind) - int(exponent or 0) - (len(digits) - len(kept))
    if places > scale or len(kept) - places > precision - scale:
        return None
    return Decimal((bool(sign), tuple(map(int, kept + "0" * (scale - places))), -scale))


def _from_base64(text: str, precision: int, scale: int) -> Decimal | None:
    """Up to sixteen bytes, big endian and signed, are the digits of the decimal."""
    if len(text) % 4 or not _STRICT.match(text):
        return None
    data = a2b_base64(text)
    if not 1 <= len(data) <= _MOST_BYTES:
        return None
    number = int.from_bytes(data, "big", signed=True)
    digits = str(abs(number))
    return Decimal((number < 0, tuple(map(int, digits)), -scale)) if len(digits) <= precision else None


def _date(text: str) -> dt.date | None:
    if not _DAY.match(text):
        return None
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return None


def _moment(text: str) -> int | None:
    """Microseconds since 1970 in UTC."""
    found = _TIME.match(text)
    if found is None or found[8] is None:
        return None
    local = _micros(found)
    digits = found[8].replace(":", "")
    hours, minutes = (0, 0) if digits == "Z" else (int(digits[1:3]), int(digits[3:] or 0))
    if local is None or minutes > 59 or hours * 60 + minutes > _FURTHEST:
        return None
    ahead = (hours * 60 + minutes) * 60_000_000
    moment = local + ahead if digits[0] == "-" else local - ahead
    return moment if _MICROS[0] <= moment <= _MICROS[1] else None


def _wall(text: str) -> int | None:
    """Microseconds since 1970 where the clock hangs."""
    found = _TIME.match(text)
    local = None if found is None or found[8] is not None else _micros(found)
    return local if local is not None and local >= _MICROS[0] else None


def _micros(match: re.Match[str]) -> int | None:
    """Microseconds from 1970 to a date and a time, as if both were in UTC."""
    year, month, day, hour, minute = map(int, match.group(1, 2, 3, 4, 5))
    era = 0 if year else 1  # the year 0, which a zone may bring into the year 1, is none of Python's
    try:
        there = dt.datetime(year + era * _ERA, month, day, hour, minute, int(match[6] or 0))  # noqa: DTZ001 - as above
    except ValueError:
        return None
    fraction = int((match[7] or "").ljust(6, "0"))
    gone = there - _EPOCH
    return (gone.days - era * _DAYS_OF_ERA) * _DAY_MICROS + gone.seconds * 1_000_000 + fraction


__all__ = ["binary", "bounds", "described", "of_number", "sizes", "value_of"]
