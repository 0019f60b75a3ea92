"""Values of declared types out of what `shapes` has read: exact, or the column and the value that are not."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import Any, Final

from lakestreams.formats import leaves
from lakestreams.formats.jsontext import compact, entries, in_quotes, values
from lakestreams.formats.kinds import UNITS, Array, Kind, Leaf, Map, Member, Struct
from lakestreams.formats.numbers import AsDouble, java_float_text, java_text
from lakestreams.formats.shapes import Pairs, Read, Unfit, is_text, shape_of

_SHOWN: Final = 60  # characters of a value in a message
_NOT_SHOWN: Final = re.compile("[^ -~]")
_SORTS: Final = {Struct: "JSON object", Map: "JSON object", Array: "JSON array"}
_INFINITE: Final = (float("inf"), -float("inf"))
_SAID: Final = "is a number that was written otherwise; declare decimal(p, s) or double, or write it in quotes"


class Misfit(Exception):
    """A value that its type does not take."""


def exact_of(kind: Kind) -> Read | None:
    """The function from a value in its shape, which is not null, to the exact one; None where that is the same.

    Raises:
        Misfit: the function, if there is no such value.
    """
    if isinstance(kind, Struct):
        return _struct(kind)
    if isinstance(kind, Array):
        inner = exact_of(kind.element)
        return None if inner is None else lambda x: [None if one is None else inner(one) for one in x]
    return _map(exact_of(kind.value)) if isinstance(kind, Map) else _leaf(kind)


def misfit(member: Member, x: Any, path: str) -> str | None:
    """What is wrong with a column's value, by the path of the first one that does not fit."""
    if x is None:
        return f"{path}: null or missing, but declared not null" if member.required else None
    if isinstance(member.kind, Struct):
        inside = (misfit(one, x[one.name], f"{path}.{one.name}") for one in member.kind.members)
        return next((found for found in inside if found is not None), None)
    exact = exact_of(member.kind)
    if exact is None:
        return None
    try:
        exact(x)
    except Misfit:
        kind = member.kind
        said = leaves.described(kind) if isinstance(kind, Leaf) else kind.declared
        return f"{path}: {shown(_written(kind, x))} is no {said}"
    return None


def unfit(kind: Kind, json_value: Any, path: str) -> str | None:
    """What of a value of JSON is of another sort than its type, by the path of the first one."""
    if json_value is None:
        return None
    if isinstance(kind, Struct) and isinstance(json_value, dict):
        inside = (
            (one.kind, value, f"{path}.{one.field}") for one in kind.members for value in values(json_value, one.field)
        )
    elif isinstance(kind, Array) and isinstance(json_value, list):
        inside = ((kind.element, value, f"{path}[{place}]") for place, value in enumerate(json_value))
    elif isinstance(kind, Map) and isinstance(json_value, dict):
        inside = ((kind.value, value, f"{path}[{shown(in_quotes(name))}]") for name, value in entries(json_value))
    else:
        return _unfit(kind, json_value, path)
    return next((said for one in inside if (said := unfit(*one)) is not None), None)


def has_strings(kind: Kind) -> bool:
    """Whether any part of it is text that is taken as it is."""
    if isinstance(kind, Struct):
        return any(has_strings(member.kind) for member in kind.members)
    if isinstance(kind, Array):
        return has_strings(kind.element)
    return isinstance(kind, Map) or kind.declared == "string"


def lost(kind: Kind, x: Any) -> bool:
    """Whether a string in a value, which is not null, is a number or has one that was written otherwise."""
    if isinstance(kind, Struct):
        return any(x[one.name] is not None and lost(one.kind, x[one.name]) for one in kind.members)
    if isinstance(kind, Array):
        return any(one is not None and lost(kind.element, one) for one in x)
    if isinstance(kind, Map):
        return any(one is not None and lost(kind.value, one) for _, one in x)
    return kind.declared == "string" and type(x) is AsDouble and x.is_lost


def lost_number(name: str, kind: Kind, x: Any) -> str:
    """The message for such a column."""
    json = x if isinstance(kind, Leaf) else as_json(kind, x)
    return f"{name}: {shown(json)} {_SAID}"


def shown(text: str) -> str:
    """The beginning of a text without signs that a terminal obeys."""
    return _NOT_SHOWN.sub("?", text[:_SHOWN])


def as_json(kind: Kind, x: Any) -> str:
    """A value in its shape as JSON, without the nulls of objects."""
    if isinstance(kind, Struct):
        there = ((one, x[one.name]) for one in kind.members if x[one.name] is not None)
        return _braces((one.name, as_json(one.kind, value)) for one, value in there)
    if isinstance(kind, Map):
        return _braces((name, "null" if one is None else as_json(kind.value, one)) for name, one in x)
    if isinstance(kind, Array):
        return "[" + ",".join("null" if one is None else as_json(kind.element, one) for one in x) + "]"
    if isinstance(x, str):
        return in_quotes(x)
    if isinstance(x, float):
        return java_float_text(x) if kind.declared == "float" else java_text(x)
    return in_quotes(base64.b64encode(x).decode()) if isinstance(x, bytes) else str(x).lower()


def _unfit(kind: Kind, json_value: Any, path: str) -> str | None:
    try:
        shape_of(kind)(json_value)
    except Unfit:
        said = leaves.described(kind) if isinstance(kind, Leaf) else _SORTS[type(kind)]
        return f"{path}: {shown(compact(json_value))} is no {said}"
    return None


def _braces(entries: Iterable[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{in_quotes(name)}:{value}" for name, value in entries) + "}"


def _written(kind: Kind, x: Any) -> str:
    if not isinstance(kind, Leaf):
        return as_json(kind, x)
    if isinstance(x, str):
        return f'"{x}"'
    return str(x).replace("inf", "Infinity") if isinstance(x, float) else str(x)


def _struct(kind: Struct) -> Read | None:
    members = [(member.name, exact_of(member.kind), member.required) for member in kind.members]
    if all(inner is None and not required for _, inner, required in members):
        return None

    def exact(x: Any) -> dict[str, Any]:
        fields = {}
        for name, inner, required in members:
            one = x[name]
            if one is None and required:
                raise Misfit
            fields[name] = one if one is None or inner is None else inner(one)
        return fields

    return exact


def _map(inner: Read | None) -> Read:
    def exact(x: Any) -> Any:
        if len(dict(x)) < len(x):
            raise Misfit
        return x if inner is None else Pairs([(name, None if one is None else inner(one)) for name, one in x])

    return exact


def _leaf(kind: Leaf) -> Read | None:
    if kind.declared in ("double", "float"):
        return _finite
    if kind.declared in UNITS:
        return _fits(leaves.of_number(kind.declared))
    if kind.declared == "tinyint":
        return _fits(lambda x: x if -128 <= x <= 127 else None)
    return _fits(leaves.value_of(kind)) if is_text(kind) else None


def _finite(x: float) -> float:
    if x in _INFINITE:
        raise Misfit
    return x


def _fits(of: Read) -> Read:
    def exact(x: Any) -> Any:
        value = of(x)
        if value is None:
            raise Misfit
        return value

    return exact


__all__ = ["Misfit", "as_json", "exact_of", "has_strings", "lost", "lost_number", "misfit", "shown", "unfit"]
