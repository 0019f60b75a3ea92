"""Values of declared types out of what from_json has read: exact, or the column and the value that are not.

Spark's from_json wraps small integers, rounds decimals and drops their commas, makes infinity of what is beyond a double, and guesses at times. So it
is asked for wider types and for the texts of times and decimals (`physical`), and `exactly` makes the declared types of them, by the rules of
`leaves`. Where a schema has no such type it is asked for the types themselves, and nothing is added to what is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final

from lakestreams.formats import leaves
from lakestreams.formats.base import Field, Parsed
from lakestreams.formats.kinds import UNITS, Array, Kind, Leaf, Map, Member, Struct
from lakestreams.spark import F
from lakestreams.sql import quoted

_SHOWN: Final = 60  # characters of a value in a message


def physical(kind: Kind) -> str:
    """The Spark SQL type that from_json is asked for."""
    if isinstance(kind, Struct):
        return "struct<" + ", ".join(f"{member.name}: {physical(member.kind)}" for member in kind.members) + ">"
    if isinstance(kind, Array):
        return f"array<{physical(kind.element)}>"
    return f"map<string, {physical(kind.value)}>" if isinstance(kind, Map) else _physical_leaf(kind)


def exactly(parsed: Parsed, fields: Sequence[Field]) -> Parsed:
    """The columns of their declared types, or what does not fit.

    Args:
        parsed: a struct of the columns with their `physical` types, and what is wrong with the record as a whole.
    """
    members = [field.member for field in fields]
    if all(not _doubt(member, "v.x") and _value(member.kind, "v.x", count()) == "v.x" for member in members):
        return parsed
    at = {member.name: f"v.{quoted(member.name)}" for member in members}
    numbers = count()
    values = ", ".join(f"'{member.name}', {_value(member.kind, at[member.name], numbers)}" for member in members)
    misfits = [misfit for member in members for misfit in _misfits(member, at[member.name], member.name)]
    error = f"coalesce({', '.join(misfits)}, CAST(NULL AS STRING))"
    both = f"CASE WHEN v IS NOT NULL THEN named_struct('v', named_struct({values}), 'e', {error}) END"
    # one text inside a lambda: the record's value stands in it once, and Python asks the JVM once
    found = F.get(F.call_function("transform", F.array(parsed.value), F.expr(f"v -> {both}")), F.lit(0))
    return Parsed(F.when(found["e"].isNull(), found["v"]), F.coalesce(parsed.error, found["e"]))


def _physical_leaf(kind: Leaf) -> str:
    if kind.declared == "tinyint":  # of which from_json wraps those from 128 to 255
        return "smallint"
    if kind.declared in UNITS:
        return "int" if kind.declared == "date_days" else "bigint"
    is_text = kind.declared in ("date", "timestamp", "timestamp_ntz") or kind.declared.startswith("decimal")
    return "string" if is_text else kind.declared


def _value(kind: Kind, x: str, numbers: count[int]) -> str:
    """SQL of the value of what from_json has read: `x` itself where that is it."""
    if isinstance(kind, Struct):
        inside = {member.name: f"{x}.{quoted(member.name)}" for member in kind.members}
        values = {member.name: _value(member.kind, inside[member.name], numbers) for member in kind.members}
        if values == inside:
            return x
        parts = ", ".join(f"'{name}', {value}" for name, value in values.items())
        return f"CASE WHEN {x} IS NOT NULL THEN named_struct({parts}) END"
    if isinstance(kind, Array | Map):
        e = f"x{next(numbers)}"
        value = _value(kind.element if isinstance(kind, Array) else kind.value, e, numbers)
        if value == e:
            return x
        return (
            f"transform({x}, {e} -> {value})"
            if isinstance(kind, Array)
            else f"transform_values({x}, (k, {e}) -> {value})"
        )
    if kind.declared in UNITS:
        return leaves.of_number(kind.declared, x)
    if kind.declared == "tinyint":
        return f"try_cast({x} AS TINYINT)"
    return leaves.value_of(kind, x) if _physical_leaf(kind) == "string" and kind.declared != "string" else x


def _misfits(member: Member, x: str, path: str) -> list[str]:
    """SQL of messages, each null where its value fits; of objects one for each member, by its path."""
    kind = member.kind
    if not isinstance(kind, Struct):
        doubt = _doubt(member, x)
        return [f"CASE WHEN {doubt} THEN {_message(member, x, path)} END"] if doubt else []
    missing = [f"CASE WHEN {x} IS NULL THEN {_missing(path)} END"] if member.required else []
    inside = ((one, f"{x}.{quoted(one.name)}", f"{path}.{one.name}") for one in kind.members)
    return missing + [f"CASE WHEN {x} IS NOT NULL THEN {one} END" for args in inside for one in _misfits(*args)]


def _doubt(member: Member, x: str) -> str:
    """SQL of whether a value does not fit; empty where every one does."""
    return _either(f"{x} IS NULL" if member.required else "", _unfit(member.kind, x, count()))


def _unfit(kind: Kind, x: str, numbers: count[int]) -> str:
    if isinstance(kind, Struct):
        inside = ((member, f"{x}.{quoted(member.name)}") for member in kind.members)
        doubts = (
            _either(f"{at} IS NULL" if member.required else "", _unfit(member.kind, at, numbers))
            for member, at in inside
        )
        some = " OR ".join(filter(None, doubts))
        return some and f"({x} IS NOT NULL AND ({some}))"
    if isinstance(kind, Array | Map):
        e = f"x{next(numbers)}"
        doubt = _unfit(kind.element if isinstance(kind, Array) else kind.value, e, numbers)
        listed = x if isinstance(kind, Array) else f"map_values({x})"
        some = doubt and f"exists({listed}, {e} -> coalesce({doubt}, false))"
        twice = f"size(array_distinct(map_keys({x}))) < size(map_keys({x}))" if isinstance(kind, Map) else ""
        return _either(twice, some)
    if kind.declared in ("double", "float"):
        return f"coalesce(abs({x}) = CAST('Infinity' AS {kind.declared}), false)"
    value = _value(kind, x, numbers)
    return "" if value == x else f"({x} IS NOT NULL AND {value} IS NULL)"


def _message(member: Member, x: str, path: str) -> str:
    """`path: value is no type`: the value short, as JSON where it has parts, without signs that a terminal obeys."""
    kind = member.kind
    if not isinstance(kind, Leaf):
        written = f"to_json({x})"
    elif _physical_leaf(kind) == "string":
        quote = "'\"'"
        written = f"concat({quote}, {x}, {quote})"
    else:
        written = f"CAST({x} AS STRING)"
    shown = f"regexp_replace(left({written}, {_SHOWN}), '[^ -~]', '?')"
    said = (
        f"concat('{path}: ', {shown}, ' is no {leaves.described(kind) if isinstance(kind, Leaf) else kind.declared}')"
    )
    return f"CASE WHEN {x} IS NULL THEN {_missing(path)} ELSE {said} END" if member.required else said


def _missing(path: str) -> str:
    return f"'{path}: null or missing, but declared not null'"


def _either(one: str, other: str) -> str:
    return f"({one} OR {other})" if one and other else one or other


__all__ = ["exactly", "physical"]
