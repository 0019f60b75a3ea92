"""Repairs of quarantined records as lines of a file: written for whoever mends them, read before a replay.

A line is a JSON object: `topic`, `partition`, `offset`, `attempt` (the one in quarantine; left out: the last one), and what is
to be put in the place of what the record had: `key` and `value` as text or null, or `key_base64` and `value_base64`, and
`timestamp_ms`. What is not named stays as it was.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lakestreams.errors import RepairUnfit

_PLACE: Final = {"topic": str, "partition": int, "offset": int}
_BASE64: Final = "_base64"
_KNOWN: Final = (*_PLACE, "attempt", "key", "value", f"key{_BASE64}", f"value{_BASE64}", "timestamp_ms")
_MOST_SHOWN = 20


@dataclass(frozen=True)
class Repair:
    """What is to be put in the place of a record's key, value or timestamp; what is not named stays.

    Attributes:
        topic, partition, offset: the record.
        attempt: which of its attempts in quarantine was looked at; None: the last one.
        changes: `key` and `value` (bytes, or None for null), `timestamp_ms`.
    """

    topic: str
    partition: int
    offset: int
    attempt: int | None = None
    changes: Mapping[str, bytes | int | None] = field(default_factory=dict)

    @property
    def place(self) -> tuple[str, int, int]:
        """The record."""
        return self.topic, self.partition, self.offset


def parse(text: str, name: str) -> tuple[Repair, ...]:
    """The repairs of a file.

    Args:
        text: its lines; empty ones do not matter.
        name: the file's name, for messages.

    Raises:
        RepairUnfit: with every line that cannot be used.
    """
    repairs: dict[tuple[str, int, int], Repair] = {}
    faults: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            one = _repair(line)
            if one.place in repairs:
                msg = "the record has a repair in a line above"
                raise ValueError(msg)
            repairs[one.place] = one
        except ValueError as error:
            faults.append(f"{name}:{number}: {error}")
    if not repairs and not faults:
        faults.append(f"{name} has no line")
    if faults:
        more = [f"and {len(faults) - _MOST_SHOWN} lines more"] if len(faults) > _MOST_SHOWN else []
        raise RepairUnfit("\n".join([*faults[:_MOST_SHOWN], *more]))
    return tuple(repairs.values())


def line(record: Mapping[str, Any]) -> dict[str, Any]:
    """A quarantined record as `parse` takes it: the object of a line, which anybody may now edit.

    Args:
        record: columns of the quarantine, `key` and `value` as bytes.
    """
    fields = {name: record[name] for name in (*_PLACE, "attempt")}
    for name in ("key", "value"):
        fields |= shown(name, record[name])
    return fields


def shown(name: str, raw: bytes | bytearray | None) -> dict[str, str | None]:
    """Bytes under a name as text, or as base64 where they are none."""
    if raw is None:
        return {name: None}
    try:
        return {name: bytes(raw).decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}{_BASE64}": base64.b64encode(bytes(raw)).decode("ascii")}


def _repair(text: str) -> Repair:
    """One line.

    Raises:
        ValueError: saying what is wrong with it.
    """
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"is no JSON: {error}"
        raise ValueError(msg) from None
    if not isinstance(fields, dict):
        msg = "is no JSON object"
        raise ValueError(msg)  # noqa: TRY004 - of the file, like the other faults
    for name in fields:
        if name not in _KNOWN:
            near = difflib.get_close_matches(name, _KNOWN, n=1)
            msg = f"has {name!r}" + (f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(_KNOWN)}")
            raise ValueError(msg)
    for name, kind in _PLACE.items():
        _require(fields, name, kind)
    for name in ("attempt", "timestamp_ms"):
        if name in fields:
            _require(fields, name, int)
    changes = {**_bytes(fields, "key"), **_bytes(fields, "value")}
    if "timestamp_ms" in fields:
        changes["timestamp_ms"] = fields["timestamp_ms"]
    return Repair(fields["topic"], fields["partition"], fields["offset"], fields.get("attempt"), changes)


def _require(fields: Mapping[str, Any], name: str, kind: type) -> None:
    value = fields.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        what = "a whole number" if kind is int else "a text"
        msg = f"has no {name!r}" if name not in fields else f"{name!r} is not {what}"
        raise ValueError(msg)  # noqa: TRY004 - of the file, like the other faults


def _bytes(fields: Mapping[str, Any], name: str) -> dict[str, bytes | int | None]:
    """What a line says of a key or value; nothing if it does not name it."""
    encoded = f"{name}{_BASE64}"
    if name in fields and encoded in fields:
        msg = f"has both {name!r} and {encoded!r}"
        raise ValueError(msg)
    if name in fields:
        if fields[name] is not None and not isinstance(fields[name], str):
            msg = f"{name!r} is neither text nor null; an object is written as text, with its quotes escaped"
            raise ValueError(msg)
        return {name: None if fields[name] is None else fields[name].encode("utf-8")}
    if encoded not in fields:
        return {}
    try:
        return {name: base64.b64decode(fields[encoded], validate=True)}
    except (binascii.Error, TypeError, ValueError):
        msg = f"{encoded!r} is no base64"
        raise ValueError(msg) from None
