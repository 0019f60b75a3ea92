"""The rules of docs/formats.md in plain Python: what a JSON text is by a declared schema. Nothing of the product is in it.

A schema is a tree: `("int",)`, `("decimal", 10, 2)`, `("array", kind)`, `("map", kind)`, and for objects
`("struct", {name: kind})`, where a name that ends with `!` is declared `not null`.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
import re
import struct
from decimal import Decimal
from typing import Any

UTC = dt.timezone.utc  # noqa: UP017 - `dt.UTC` reads worse beside datetime
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
UNITS = {"timestamp_s": 10**6, "timestamp_ms": 10**3, "timestamp_us": 1}
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?\Z", re.ASCII)
_MOMENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6})0*)?)?(Z|[-+]\d\d(?::?\d\d)?)?\Z", re.ASCII
)


class Unfit(Exception):
    """A value that a type does not take; its argument is the path."""


class Bare(str):
    """A number or a boolean, as it was written."""

    __slots__ = ()


class Named(list[Any]):
    """An object: pairs of name and value, all of them."""


def read(raw: bytes, members: dict[str, Any]) -> dict[str, Any]:
    """The columns of a record.

    Raises:
        Unfit: with the path of the first value that does not fit, or with what is wrong with the whole.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Unfit("UTF-8") from None
    if not text.lstrip(" \t\r\n").startswith("{"):
        raise Unfit("object")
    try:
        found = json.loads(
            text.strip(" \t\r\n"), parse_int=Bare, parse_float=Bare, parse_constant=_no_json, object_pairs_hook=Named
        )
    except (ValueError, RecursionError):
        raise Unfit("JSON") from None
    return _struct(found, members, "")


def _no_json(name: str) -> Any:
    raise ValueError(name)


def _struct(found: Any, members: dict[str, Any], path: str) -> dict[str, Any]:
    last = dict(found)  # of a name that comes twice, the last value
    read_as = {}
    for declared, kind in members.items():
        name, required = declared.rstrip("!"), declared.endswith("!")
        here = f"{path}.{name}".lstrip(".")
        if required and last.get(name) is None:
            raise Unfit(here)
        read_as[name] = value(last.get(name), kind, here)
    return read_as


def value(found: Any, kind: tuple[Any, ...], path: str) -> Any:
    """The value of a declared type; null is a value of each."""
    if found is None:
        return None
    sort = kind[0]
    if sort == "struct" and isinstance(found, Named):
        return _struct(found, kind[1], path)
    if sort == "array" and isinstance(found, list) and not isinstance(found, Named):
        return [value(one, kind[1], path + "[]") for one in found]
    if sort == "map" and isinstance(found, Named):
        names = [name for name, _ in found]
        if len(set(names)) < len(names):
            raise Unfit(path)
        return {name: value(one, kind[1], path + "[]") for name, one in found}
    if sort == "string":
        return _as_text(found, path)
    if isinstance(found, list) or sort in ("struct", "array", "map"):
        raise Unfit(path)
    text = _boolean(found) if isinstance(found, bool) else str(found)
    read_as = _scalar(text, kind, bare=isinstance(found, Bare | bool))
    if read_as is None:
        raise Unfit(path)
    return read_as


def _boolean(found: bool) -> str:
    return "true" if found else "false"


def _as_text(found: Any, path: str) -> str:
    """A string; a number or a boolean as it was written. Half of a surrogate pair is no character."""
    text = _boolean(found) if isinstance(found, bool) else str(found)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unfit(path) from None
    return text


def _scalar(text: str, kind: tuple[Any, ...], *, bare: bool) -> Any:
    sort = kind[0]
    number = bare and _NUMBER.match(text) is not None
    if sort == "boolean":
        return {"true": True, "false": False}.get(text) if bare else None
    if sort in INTEGERS or sort == "date_days":
        return _integer(text, sort) if number and re.fullmatch(r"-?\d+", text) else None
    if sort in ("double", "float"):
        return _floating(text, sort) if number else None
    if sort == "decimal":
        return (
            None
            if not _NUMBER.match(text) or (bare and _is_long(text))
            else _decimal(_as_double(text) if bare else text, kind[1], kind[2])
        )
    if sort in UNITS:
        return _at(int(text) * UNITS[sort]) if number and re.fullmatch(r"-?\d+", text) else None
    if sort == "decimal_base64" and not (bare and re.search("[.eE-]", text) and text not in ("true", "false")):
        return _decimal_of_bytes(text, kind[1], kind[2])
    if bare:
        return None
    return _date(text) if sort == "date" else _moment(text, zoned=sort == "timestamp")


def _integer(text: str, sort: str) -> Any:
    number = int(text)
    if sort == "date_days":
        first, last = (dt.date(1, 1, 1) - EPOCH.date()).days, (dt.date.max - EPOCH.date()).days
        return EPOCH.date() + dt.timedelta(days=number) if first <= number <= last else None
    half = 2 ** (INTEGERS[sort] - 1)
    return number if -half <= number < half else None


def _floating(text: str, sort: str) -> Any:
    number = float(text)
    if sort == "float":
        try:
            number = struct.unpack(">f", struct.pack(">f", number))[0]
        except OverflowError:
            return None
    return None if abs(number) == float("inf") else number


def _is_long(text: str) -> bool:
    """Whether a number that is not whole has more digits than a double is sure to hold."""
    digits = re.split("[eE]", text)[0].lstrip("-").replace(".", "").strip("0")
    return re.search("[.eE]", text) is not None and len(digits) > 15


def _as_double(text: str) -> str:
    """A number that is not whole, as what a double has of it: zero, if it is smaller than any."""
    return "0" if re.search("[.eE]", text) and float(text) == 0 else text


def _decimal(text: str, precision: int, scale: int) -> Any:
    mantissa, _, exponent = text.lower().partition("e")
    if len(exponent.lstrip("+-")) > 4:
        return None
    sign, digits, power = Decimal(mantissa).as_tuple()
    written = "".join(map(str, digits)).lstrip("0")
    kept = written.rstrip("0")
    if not kept:
        return Decimal(0)
    assert isinstance(power, int)
    behind = -(power + int(exponent or 0)) - (len(written) - len(kept))
    if behind > scale or len(kept) - behind > precision - scale:
        return None
    return Decimal((sign, tuple(map(int, kept)), -behind))


def _at(micros: int) -> Any:
    try:
        return EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError:
        return None


def _base64(text: str) -> bytes | None:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data).decode() == text else None


def _decimal_of_bytes(text: str, precision: int, scale: int) -> Any:
    data = _base64(text)
    if not data or len(data) > 16:
        return None
    number = int.from_bytes(data, "big", signed=True)
    return Decimal(number).scaleb(-scale) if abs(number) < 10**precision else None


def _date(text: str) -> Any:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
        return None
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return None


def _moment(text: str, *, zoned: bool) -> Any:
    found = _MOMENT.match(text)
    if not found or (found[8] is not None) != zoned:
        return None
    *numbers, fraction, zone = found.groups()
    try:
        plain = dt.datetime(*(int(one or 0) for one in numbers), int((fraction or "0").ljust(6, "0")))  # type: ignore[arg-type, misc] # noqa: DTZ001 - the zone follows
    except ValueError:
        return None
    if not zoned:
        return plain
    digits = (zone or "").replace(":", "")
    hours, minutes = (0, 0) if digits == "Z" else (int(digits[1:3]), int(digits[3:] or 0))
    if hours * 60 + minutes > 18 * 60 or minutes > 59:
        return None
    offset = dt.timedelta(hours=hours, minutes=minutes) * (-1 if digits.startswith("-") else 1)
    return _at((plain - EPOCH.replace(tzinfo=None) - offset) // dt.timedelta(microseconds=1))


def ddl(kind: tuple[Any, ...]) -> str:
    """The schema's text."""
    sort = kind[0]
    if sort == "struct":
        inside = ", ".join(
            f"{name.rstrip('!')}: {ddl(one)}{' not null' * name.endswith('!')}" for name, one in kind[1].items()
        )
        return f"struct<{inside}>"
    if sort in ("array", "map"):
        return f"array<{ddl(kind[1])}>" if sort == "array" else f"map<string, {ddl(kind[1])}>"
    return f"{sort}({kind[1]}, {kind[2]})" if len(kind) > 1 else str(sort)


def columns(members: dict[str, Any]) -> str:
    """The schema's text of a whole record."""
    return ", ".join(
        f"{name.rstrip('!')} {ddl(kind)}{' not null' * name.endswith('!')}" for name, kind in members.items()
    )
