"""JSON text as Python values: with numbers as they were written, names that come twice, and bounds on what is read.

The bounds are counted, so that neither the stack nor a setting of the process decides what is read. Half of a surrogate pair
in an escape is kept: who asks for texts has to look.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from lakestreams.nesting import ensure_stack

DEEPEST: Final = 1_000
"""How many lists and objects may lie in each other."""
LONGEST_NAME: Final = 50_000
MOST_DIGITS: Final = 1_000
WHITE: Final = " \t\r\n"
_SURELY_SHALLOW: Final = 100  # brackets; so few need no looking at
# A text that nobody closes is one to the end: else each quote in it would be looked behind again.
_BRACKETS_AND_TEXTS: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_SIGNS: Final = re.compile(r'[\x00-\x1f"\\]')
_SHORT: Final = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


class Number(str):
    """The text of a number with a point or an exponent, or of `-0`. All others are `int`."""

    __slots__ = ()


class Repeated(dict[str, Any]):
    """An object in which a name comes twice: its last values, and all of them as pairs."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def entries(json_object: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    """Names and values of an object, as often as they come."""
    return json_object.pairs if type(json_object) is Repeated else json_object.items()


def values(json_object: dict[str, Any], name: str) -> list[Any]:
    """The values of a name in an object, as often as it comes."""
    if type(json_object) is Repeated:
        return [one for own, one in json_object.pairs if own == name]
    return [json_object[name]] if name in json_object else []


def parsed(text: str) -> Any:
    """What a JSON text says.

    Raises:
        ValueError: if it is no JSON, or beyond a bound.
    """
    if text.count("[") + text.count("{") > _SURELY_SHALLOW:
        if _depth(text) > DEEPEST:
            msg = "nested too deep"
            raise ValueError(msg)
        ensure_stack()
    return (_LONG if len(text) > MOST_DIGITS else _SHORT_TEXT).decode(text)


def compact(value: Any, number: Any = str) -> str:
    """A value as JSON without blanks, its names in their order and as often as they come.

    Args:
        value: as `parsed` gives it.
        number: how a `Number` is written.
    """
    parts: list[str] = []
    _write(value, number, parts)
    return "".join(parts)


def in_quotes(text: str) -> str:
    """A text as JSON."""
    return '"' + _SIGNS.sub(_escaped, text) + '"'


def _write(value: Any, number: Any, parts: list[str]) -> None:
    if isinstance(value, Number):
        parts.append(number(value))
    elif isinstance(value, str):
        parts.append(in_quotes(value))
    elif isinstance(value, dict):
        sign = "{"
        for name, one in value.pairs if isinstance(value, Repeated) else value.items():
            parts.append(sign + in_quotes(name) + ":")
            _write(one, number, parts)
            sign = ","
        parts.append("{}" if sign == "{" else "}")
    elif isinstance(value, list):
        sign = "["
        for one in value:
            parts.append(sign)
            _write(one, number, parts)
            sign = ","
        parts.append("[]" if sign == "[" else "]")
    else:
        parts.append("null" if value is None else str(value).lower())  # True and False, too


def _escaped(match: re.Match[str]) -> str:
    return _SHORT.get(match[0]) or f"\\u{ord(match[0]):04X}"


def _depth(text: str) -> int:
    """How deep the text is nested, at least as far as it is JSON."""
    deepest = depth = 0
    for found in _BRACKETS_AND_TEXTS.finditer(text):
        sign = found[0][0]
        if sign in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif sign in "]}":
            depth -= 1
    return deepest


def _whole(text: str) -> int | Number:
    return Number(text) if text == "-0" else int(text)


def _whole_of_long(text: str) -> int | Number:
    if len(text.lstrip("-")) > MOST_DIGITS:
        raise ValueError(text)
    return _whole(text)


def _fraction_of_long(text: str) -> Number:
    if len(text) > MOST_DIGITS and sum(map(str.isdigit, text)) > MOST_DIGITS:
        raise ValueError(text)
    return Number(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else Repeated(pairs)


def _object_of_long(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if any(len(name) > LONGEST_NAME for name, _ in pairs):
        msg = "a name is too long"
        raise ValueError(msg)
    return _object(pairs)


def _no_json(name: str) -> Any:
    raise ValueError(name)


_SHORT_TEXT: Final = json.JSONDecoder(
    parse_int=_whole, parse_float=Number, parse_constant=_no_json, object_pairs_hook=_object
)
_LONG: Final = json.JSONDecoder(
    parse_int=_whole_of_long,
    parse_float=_fraction_of_long,
    parse_constant=_no_json,
    object_pairs_hook=_object_of_long,
)

__all__ = ["WHITE", "Number", "Repeated", "compact", "entries", "in_quotes", "parsed", "values"]
