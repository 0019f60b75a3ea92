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


def text(found: Any) -> str:
    """Any value as text: a text itself, all else as JSON, in which numbers are as a double writes them."""
    if type(found) is str:
        return found
    if type(found) is Number:
        return AsDouble.of(found)
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, int):
        return str(found)
    made = compact(found, double_text)
    return made if made == compact(found) else AsDouble.to(made, None)


def _struct(kind: Struct) -> Read:
    members = [(member.field, member.name, shape_of(member.kind)) for member in kind.members]
    fields = {field: read for field, _, read in members}

    def read(found: Any) -> dict[str, Any]:
        if not isinstance(found, dict):
            raise Unfit
        if type(found) is Repeated:  # of a name the last value counts, but none may be of another sort
            for field, one in found.pairs:
                if one is not None and field in fields:
                    fields[field](one)
        get = found.get
        return {name: None if (one := get(field)) is None else inner(one) for field, name, inner in members}

    return read


def _array(element: Read) -> Read:
    def read(found: Any) -> list[Any]:
        if type(found) is not list:
            raise Unfit
        return [None if one is None else element(one) for one in found]

    return read


def _map(value: Read) -> Read:
    def read(found: Any) -> Pairs:
        if not isinstance(found, dict):
            raise Unfit
        entries = found.pairs if type(found) is Repeated else found.items()
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

    def read(found: Any) -> int:
        if type(found) is int and low <= found <= high:
            return found
        if found == "-0" and type(found) is Number:
            return 0
        raise Unfit

    return read


def _double(found: Any) -> float:
    if type(found) is Number:
        return 0.0 if found == "-0" else float(found)
    if type(found) is not int:
        raise Unfit
    return float(str(found))  # infinity for what is beyond


def _float(found: Any) -> float:
    if type(found) is Number:
        return 0.0 if found == "-0" else nearest_float(found)
    if type(found) is not int:
        raise Unfit
    return nearest_float(str(found))


def _boolean(found: Any) -> bool:
    if isinstance(found, bool):
        return found
    raise Unfit


def _binary(found: Any) -> bytes:
    data = leaves.binary(found) if type(found) is str else None
    if data is None:
        raise Unfit
    return data


__all__ = ["Pairs", "Read", "Unfit", "is_text", "shape_of", "text"]
