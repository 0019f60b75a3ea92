"""Values of JSON in the shape that a schema declares: lists, objects and signs of the right sort, or the record is unfit.

Times and decimals come out as texts, numbers as they are; `exact` judges them one by one, so that a message can name them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from lakestreams.formats import leaves
from lakestreams.formats.jsontext import Number, Repeated, compact
from lakestreams.formats.kinds import UNITS, Array, Kind, Leaf, Map, Struct
from lakestreams.formats.numbers import AsDouble, double_text, nearest_float

Read: TypeAlias = Callable[[Any], Any]

# What is read before it is judged: a tinyint beyond its range is named, a larger number is unfit.
_BITS: Final = {"tinyint": 16, "smallint": 16, "int": 32, "bigint": 64, "date_days": 32}


class Unfit(Exception):
    """The record has something of another sort than the schema says."""


class Pairs(list[tuple[str, Any]]):
    """The entries of a map, of which some may have the same name."""

    __slots__ = ()


def shape_of(kind: Kind) -> Read:
    """The function from a value of JSON, which is not null, to the value in this shape.

    Raises:
        Unfit: the function, if it is of another sort.
    """
    if isinstance(kind, Struct):
        return _struct(kind)
    if isinstance(kind, Array):
        return _array(shape_of(kind.element))
    return _map(shape_of(kind.value)) if isinstance(kind, Map) else _leaf(kind)


def is_text(kind: Leaf) -> bool:
    """Whether values of this type are read as texts first."""
    return kind.declared in ("date", "timestamp", "timestamp_ntz") or kind.declared.startswith("decimal")


def text(value: Any) -> str:
    """Any value as text: a text itself, all else as JSON, in which numbers are as a double writes them."""
    if type(value) is str:
        return value
    if type(value) is Number:
        return AsDouble.of(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    made = compact(value, double_text)
    return made if made == compact(value) else AsDouble.to(made, None)


def _struct(kind: Struct) -> Read:
    members = [(member.field, member.name, shape_of(member.kind)) for member in kind.members]
    fields = {field: read for field, _, read in members}

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Unfit
        if type(value) is Repeated:  # of a name the last value counts, but none may be of another sort
            for field, one in value.pairs:
                if one is not None and field in fields:
                    fields[field](one)
        get = value.get
        return {name: None if (one := get(field)) is None else inner(one) for field, name, inner in members}

    return read


def _array(element: Read) -> Read:
    def read(value: Any) -> list[Any]:
        if type(value) is not list:
            raise Unfit
        return [None if one is None else element(one) for one in value]

    return read


def _map(value: Read) -> Read:
    def read(items: Any) -> Pairs:
        if not isinstance(items, dict):
            raise Unfit
        entries = items.pairs if type(items) is Repeated else items.items()
        return Pairs([(name, None if one is None else value(one)) for name, one in entries])

    return read


def _leaf(kind: Leaf) -> Read:
    declared = kind.declared
    if declared == "string" or is_text(kind):
        return text
    if declared == "boolean":
        return _boolean
    if declared == "binary":
        return _binary
    if declared in ("double", "float"):
        return _double if declared == "double" else _float
    return _whole(64 if declared in UNITS and declared != "date_days" else _BITS[declared])


def _whole(bits: int) -> Read:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def read(value: Any) -> int:
        if type(value) is int and low <= value <= high:
            return value
        if value == "-0" and type(value) is Number:
            return 0
        raise Unfit

    return read


def _double(value: Any) -> float:
    if type(value) is Number:
        return float(value)
    if type(value) is not int:
        raise Unfit
    return float(str(value))  # infinity for what is beyond


def _float(value: Any) -> float:
    if type(value) is Number:
        return nearest_float(value)
    if type(value) is not int:
        raise Unfit
    return nearest_float(str(value))


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise Unfit


def _binary(value: Any) -> bytes:
    data = leaves.binary(value) if type(value) is str else None
    if data is None:
        raise Unfit
    return data


__all__ = ["Pairs", "Read", "Unfit", "is_text", "shape_of", "text"]
