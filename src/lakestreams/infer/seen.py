"""What a sample's JSON values have in common: the narrowest type that holds all of them, and what there is to say of it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from math import isinf
from typing import Any, Final

from lakestreams.errors import InvalidFormat
from lakestreams.formats.base import is_column_name
from lakestreams.formats.jsontext import Number
from lakestreams.formats.places import RESERVED_PREFIX
from lakestreams.formats.schema import parse_ddl
from lakestreams.sql import quoted

# Numbers since 1970 that are times from 2001 to 2096.
_MILLIS: Final = (10**12, 4 * 10**12)
_SECONDS: Final = (10**9, 4 * 10**9)
_MICROS: Final = (10**15, 4 * 10**15)
_NAMED_AS_TIME: Final = re.compile(r"(?i)(time|date|_at|_ts|^ts|^at|at$|_s|sec|epoch|created|updated|modified)")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)\Z")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d\Z")
BARE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
_LONG: Final = 2**63
_MANY_NAMES: Final = 24  # of an object whose names are data, and mostly others in each record
_RARE: Final = 0.3
_SHOWN: Final = 40
_DEEPEST: Final = 30  # objects and lists within each other; a declaration of many more is read by nobody
_EXACT: Final = 2**53  # whole numbers up to here are doubles
_MOST_DIGITS: Final = 38  # of a decimal
_POINTED_DIGITS: Final = 15  # of a decimal that is read from a number with a point (docs/formats.md)
_DOUBLE_DIGITS: Final = 17
_LARGEST: Final = 10**308  # doubles go on for a while, which nobody needs


@dataclass
class Seen:
    """Values of one place in the records.

    Attributes:
        count: how many there were, nulls too.
        nulls: how many were null.
        example: the first one that was not.
    """

    count: int = 0
    nulls: int = 0
    example: Any = None
    _kinds: set[str] = field(default_factory=set)
    _least: int = 0
    _most: int = 0
    _decimals: int = 0
    _digits: int = 0
    _before_point: int = 0
    _exponents: bool = False
    _infinite: bool = False
    _moments: bool = True
    _days: bool = True
    members: dict[str, Seen] = field(default_factory=dict)
    element: Seen | None = None

    def add(self, value: Any) -> None:
        """Takes note of a value."""
        self.count += 1
        if value is None:
            self.nulls += 1
            return
        if self.example is None:
            self.example = value
        if isinstance(value, bool):
            self._kinds.add("boolean")
        elif isinstance(value, int):
            first = "whole" not in self._kinds
            self._kinds.add("whole")
            self._least = value if first else min(self._least, value)
            self._most = value if first else max(self._most, value)
        elif isinstance(value, Number):
            self._kinds.add("number")
            digits = value.lstrip("-").partition("e")[0].partition("E")[0]
            self._decimals = max(self._decimals, len(digits.partition(".")[2]))
            self._digits = max(self._digits, len(digits.replace(".", "").lstrip("0")))
            self._before_point = max(self._before_point, len(digits.partition(".")[0].lstrip("0")))
            self._exponents |= "e" in value.lower()
            self._infinite |= isinf(float(value))
        elif isinstance(value, str):
            self._kinds.add("text")
            self._moments &= _MOMENT.match(value) is not None
            self._days &= _DAY.match(value) is not None
        elif isinstance(value, dict):
            self._kinds.add("object")
            for name, inner in value.items():
                self.members.setdefault(name, Seen()).add(inner)
        else:
            self._kinds.add("list")
            self.element = self.element or Seen()
            for inner in value:
                self.element.add(inner)

    @property
    def present(self) -> int:
        """How many were not null."""
        return self.count - self.nulls

    @property
    def typed_by(self) -> str | None:
        """The name inside of objects with which MongoDB says the type of a value, such as `$date`; None: they are none."""
        names = list(self.members)
        return names[0] if self._kinds == {"object"} and len(names) == 1 and names[0].startswith("$") else None

    def type(self, name: str, notes: list[str], depth: int = 0) -> str:
        """The type of a column that holds these values.

        Args:
            name: of the column, which may tell what numbers mean.
            notes: gets what there is to say of the choice.
            depth: how many objects and lists they lie in.
        """
        kinds = self._kinds
        if not kinds:
            notes.append(f"{name} is null in every record" if self.count else f"{name} has no value")
            return "string"
        if kinds == {"whole"}:
            return self._whole(name, notes)
        if kinds <= {"whole", "number"}:
            return self._broken(name, notes)
        if kinds == {"boolean"}:
            return "boolean"
        if kinds == {"text"}:
            return "timestamp" if self._moments else "date" if self._days else "string"
        if kinds <= {"object", "list"} and depth == _DEEPEST:
            notes.append(f"{name} lies in {depth} others: what it holds is read as JSON text")
            return "string"
        if kinds == {"object"}:
            return self._object(name, notes, depth)
        if kinds == {"list"} and self.element is not None:
            return f"array<{self.element.type(f'{name}[]', notes, depth + 1)}>"
        notes.append(f"{name} has values of several kinds: {', '.join(sorted(kinds))}")
        return "string"

    def _whole(self, name: str, notes: list[str]) -> str:
        for (low, high), kind, word in (
            (_MILLIS, "timestamp_ms", "milliseconds"),
            (_MICROS, "timestamp_us", "microseconds"),
            (_SECONDS, "timestamp_s", "seconds"),
        ):
            is_time = kind != "timestamp_s" or _NAMED_AS_TIME.search(name)
            if low <= self._least and self._most < high and is_time:
                notes.append(f"{name} looks like {word} since 1970; bigint if it is another number")
                return kind
        if self._least >= -_LONG and self._most < _LONG:
            return "bigint"
        if self._whole_digits <= _MOST_DIGITS:
            return f"decimal({_MOST_DIGITS},0)"
        notes.append(f"{name} has {self._whole_digits} digits, which no number of a table holds: read as text")
        return "string"

    @property
    def _whole_digits(self) -> int:
        """Digits of the whole number that has most of them."""
        return max(len(str(abs(one))) for one in (self._least, self._most))

    def _broken(self, name: str, notes: list[str]) -> str:
        """The type of numbers of which some have a point or an exponent."""
        whole = max(abs(self._least), abs(self._most))
        if self._infinite or whole > _LARGEST:
            notes.append(f"{name} has numbers beyond a double: read as text")
            return "string"
        places = max(self._before_point, self._whole_digits) + self._decimals
        is_decimal = not self._exponents and places <= _MOST_DIGITS and self._digits <= _POINTED_DIGITS
        if whole > _EXACT and is_decimal:
            notes.append(
                f"{name} has whole numbers that a double would round; double, if their last digits do not matter"
            )
            return f"decimal({_MOST_DIGITS},{self._decimals})"
        if whole > _EXACT or self._digits > _DOUBLE_DIGITS:
            notes.append(f"{name} has more digits than a double, which is the nearest number that it holds")
        elif self._digits <= _POINTED_DIGITS and self._decimals <= 4:
            notes.append(
                f"{name} has at most {self._decimals} digits behind the point: decimal({max(10, self._digits + 6)},"
                f"{self._decimals}) holds them exactly"
            )
        return "double"

    def _object(self, name: str, notes: list[str], depth: int) -> str:
        if not self.members:
            notes.append(f"{name} is an empty object in every record")
            return "map<string, string>"
        shares = [one.count / max(1, self.present) for one in self.members.values()]
        if len(shares) > _MANY_NAMES and sum(shares) / len(shares) < _RARE:
            notes.append(f"{name} has {len(shares)} names, most of them rare: a map")
            return self._map(name, notes, depth)
        names = [one for one in self.members if is_name(one)]
        if len({one.lower() for one in names}) < len(names):
            notes.append(f"{name} has names that differ in capitals alone, which columns may not: a map")
            return self._map(name, notes, depth)
        inner = {one: self.members[one].type(f"{name}.{one}", notes, depth + 1) for one in names}
        left_out = [one for one in self.members if one not in inner]
        if left_out:
            notes.append(
                f"{name} has names that no column can have, which are not read: {', '.join(left_out)[:_SHOWN]}"
            )
        if not inner:
            return "map<string, string>"
        return f"struct<{', '.join(f'{spelled(one)}: {kind}' for one, kind in inner.items())}>"

    def _map(self, name: str, notes: list[str], depth: int) -> str:
        """The type of an object whose names are data."""
        every = Seen()
        for one in self.members.values():
            every.merge(one)
        return f"map<string, {every.type(f'{name}{{}}', notes, depth + 1)}>"

    def merge(self, other: Seen) -> None:
        """Takes note of everything that another one has seen."""
        if other._kinds & {"whole"}:
            first = "whole" not in self._kinds
            self._least = other._least if first else min(self._least, other._least)
            self._most = other._most if first else max(self._most, other._most)
        self.count += other.count
        self.nulls += other.nulls
        self.example = self.example if self.example is not None else other.example
        self._kinds |= other._kinds
        self._decimals = max(self._decimals, other._decimals)
        self._digits = max(self._digits, other._digits)
        self._before_point = max(self._before_point, other._before_point)
        self._exponents |= other._exponents
        self._infinite |= other._infinite
        self._moments &= other._moments
        self._days &= other._days
        for name, inner in other.members.items():
            self.members.setdefault(name, Seen()).merge(inner)
        if other.element is not None:
            self.element = self.element or Seen()
            self.element.merge(other.element)


def is_name(name: str) -> bool:
    """Whether a table can have a column of this name."""
    return is_column_name(name) and not name.lower().startswith(RESERVED_PREFIX)


def spelled(name: str) -> str:
    """A name as columns are declared: in quotes where a schema would take it for something else."""
    if not BARE.match(name):
        return quoted(name)
    try:
        (field,) = parse_ddl(f"{name} string")
    except (InvalidFormat, ValueError):
        return quoted(name)
    return name if field.name == name else quoted(name)


def shown(value: Any) -> str:
    """An example on one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


__all__ = ["BARE", "Seen", "is_name", "shown", "spelled"]
