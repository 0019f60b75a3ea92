"""Numbers as a `double` or a `float` has them, and as Java writes those: what a message shows, and what is exact.

A number in a column of text is taken as it was written where its own field says it. Deeper ones, which a double would write
otherwise, are refused (decision 0026).
"""

from __future__ import annotations

import re
import struct
from decimal import Decimal
from typing import Final

from lakestreams.formats.jsontext import Number

_PLAIN: Final = (1e-3, 1e7)  # between them Java writes no exponent
_MOST_DIGITS: Final = 15  # that every double holds


class AsDouble(str):
    """The text of a number that is not whole, as a double writes it.

    Attributes:
        written: the number as it stands in the record; None for an object or a list with such numbers.
    """

    __slots__ = ("written",)
    written: str | None

    @classmethod
    def of(cls, number: Number) -> AsDouble:
        """The text of one number."""
        return cls.to(double_text(number), str(number))

    @classmethod
    def to(cls, text: str, written: str | None) -> AsDouble:
        """A text that stands for what was written otherwise."""
        made = cls(text)
        made.written = written
        return made

    @property
    def is_lost(self) -> bool:
        """Whether it says another text than the record."""
        return self.written != str(self)


def double_text(number: str) -> str:
    """A number of JSON as Java writes the double that it is."""
    return "0" if number == "-0" else java_text(float(number))


def java_text(value: float) -> str:
    """A double as Java writes it in JSON: with two digits at least, the nearest ones."""
    two = f"{value:.1e}"
    return _java(value, two if float(two) == value else repr(value))


def java_float_text(value: float) -> str:
    """A float as Java writes it in JSON."""
    if abs(value) == float("inf"):
        return _java(value, "")
    shortest = (f"{value:.{digits}g}" for digits in range(1, 10))
    return _java(value, next(one for one in shortest if nearest_float(one) == value))


def nearest_float(number: str) -> float:
    """The float that is nearest to a number of JSON, infinity beyond the largest.

    By way of a double it would be rounded twice, which shows where the double lies in the middle of two floats.
    """
    value = float(number)
    try:
        found: float = struct.unpack(">f", struct.pack(">f", value))[0]
    except OverflowError:
        found = float("inf") if value > 0 else -float("inf")
    if found == value or abs(value) == float("inf"):
        return found
    other = _next_float(found, up=value > found)
    if value - found != other - value and not (abs(found) == float("inf") or abs(other) == float("inf")):
        return found
    return _nearer(number, value, found, other)


def significant(number: str) -> int:
    """How many digits of a number say something."""
    return len(re.split("[eE]", number)[0].lstrip("-").replace(".", "").strip("0"))


def is_exact(number: str) -> bool:
    """Whether a double holds all digits of a number with a point or an exponent."""
    return significant(number) <= _MOST_DIGITS


def _java(value: float, shortest: str) -> str:
    if abs(value) == float("inf"):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    sign, digits, exponent = Decimal(shortest).as_tuple()
    assert isinstance(exponent, int)  # noqa: S101 - it is a number
    text = "".join(map(str, digits)).rstrip("0") or "0"
    minus = "-" if sign else ""
    point = len(digits) + exponent  # how many digits stand before it
    if value == 0:
        return f"{minus}0.0"
    if not _PLAIN[0] <= abs(value) < _PLAIN[1]:
        return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    return f"{minus}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"


def _next_float(value: float, *, up: bool) -> float:
    (bits,) = struct.unpack(">i", struct.pack(">f", value))
    if value == 0:
        bits = 1 if up else -(2**31) + 1
    else:
        bits += 1 if up == (value > 0) else -1
    found: float = struct.unpack(">f", struct.pack(">i", bits))[0]
    return found


def _nearer(number: str, value: float, nearest: float, other: float) -> float:
    """Of two floats the one on whose side of the middle, which a double is, the number lies."""
    exact, middle = Decimal(number), Decimal(value)
    low, high = sorted((nearest, other))
    largest = struct.unpack(">f", b"\x7f\x7f\xff\xff")[0]
    if abs(low) == float("inf") or abs(high) == float("inf"):
        edge = Decimal(largest) + Decimal(2) ** 103
        beyond = abs(exact) >= edge
        return (float("inf") if beyond else largest) * (1 if value > 0 else -1)
    if exact == middle:
        return nearest
    return high if exact > middle else low


__all__ = ["AsDouble", "double_text", "is_exact", "java_float_text", "java_text", "nearest_float"]
