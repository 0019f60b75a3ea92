"""Records of Protobuf as rows of the columns: each field once, in whatever order the bytes have it.

Rules of the specification: of a field that comes twice the last value counts, messages that come twice are merged, of a
oneof the last member counts, lists of numbers may be packed or not, and fields that are not declared are passed over.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, TypeAlias

from lakestreams.formats.protobuf.schema import DATE, FIXED32, LENGTH, TIMESTAMP, WRAPPED, Enum, Member, Message, Type
from lakestreams.formats.protobuf.wire import ENDS, FIXED, OF_NUMBER, WORDS, Bad, length, skip, tag, varint

One: TypeAlias = "Callable[[bytes, int, int], tuple[Any, int]]"
Make: TypeAlias = "Callable[[Any], Any]"

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
SECONDS: Final = (-62_135_596_800, 253_402_300_799)  # of the years 1 to 9999
_NANOS: Final = 10**9
_ZEROS: Final = {"string": "", "bytes": b"", "bool": False, "double": 0.0, "float": 0.0}


class Reader:
    """Reads records of one message."""

    def __init__(self, message: Message) -> None:
        self._fields = {one.number: _Field(one) for one in message.members}

    def read(self, raw: bytes) -> dict[str, Any]:
        """The columns of a record.

        Raises:
            Bad: if the bytes are no record of the message.
        """
        return self.message(raw, 0, len(raw))

    def message(self, data: bytes, at: int, end: int) -> dict[str, Any]:
        """The fields of a message that stands between two places."""
        found: dict[int, Any] = {}
        fields = self._fields
        while at < end:
            head = data[at]
            if (
                head < 0x80 and head & 7 <= FIXED32 and (field := fields.get(head >> 3)) is not None
            ):  # as most are; 0 is no field's number
                number, wire, at = head >> 3, head & 7, at + 1
            else:
                number, wire, at = tag(data, at, end)
                field = fields.get(number)
            if field is None:
                at = skip(data, at, end, wire, number)
                continue
            try:
                at = field.take(found, data, at, end, wire)
            except Bad as error:
                raise error.within(field.label) from None
            if field.oneof is not None:
                for other in field.others(fields):
                    found.pop(other, None)
        row = {}
        for number, field in fields.items():
            try:
                row[field.name] = field.column(found.get(number))
            except Bad as error:
                raise error.within(field.label) from None
        return row


class _Field:
    """One field: what of it is collected, and the column that is made of that."""

    def __init__(self, member: Member) -> None:
        self._member, self._wire, self._is_list = member, member.wire, member.repeated
        self.name, self.number, self.oneof = member.name, member.number, member.oneof
        self.label = f"{member.name}{'[]' if member.repeated else '{}' if member.key else ''}"
        self._is_message = isinstance(member.type, Message) and member.key is None
        self._whole = _whole(member.type) if self._is_message else None
        self._entry = _Entry(member) if member.key is not None else None
        self._one = None if self._is_message or self._entry is not None else _one_of(member.type)
        self._absent = absent(member)
        self._others: tuple[int, ...] | None = None

    def others(self, fields: dict[int, _Field]) -> tuple[int, ...]:
        """The other members of the same oneof."""
        if self._others is None:
            self._others = tuple(n for n, one in fields.items() if one.oneof == self.oneof and n != self.number)
        return self._others

    def take(self, values: dict[int, Any], data: bytes, at: int, end: int, wire: int) -> int:
        """Collects a value; gives where the bytes go on."""
        if wire != self._wire:
            if self._is_list and wire == LENGTH and self._one is not None:
                return self._take_packed(values.setdefault(self.number, []), data, at, end)
            raise Bad(f"{WORDS[wire]} where the declared schema has {WORDS[self._wire]}")
        if self._one is not None:
            value, at = self._one(data, at, end)
            if self._is_list:
                values.setdefault(self.number, []).append(value)
            else:
                values[self.number] = value
            return at
        start, at = length(data, at, end)
        if self._entry is not None:
            key, value = self._entry.read(data[start:at])
            values.setdefault(self.number, {})[key] = value
        elif self._is_list:
            values.setdefault(self.number, []).append(self._of(data[start:at]))
        else:  # bytes of messages behind each other are their fields merged
            values.setdefault(self.number, []).append(data[start:at])
        return at

    def _take_packed(self, values: list[Any], data: bytes, at: int, end: int) -> int:
        at, behind = length(data, at, end)
        while at < behind:
            value, at = self._one(data, at, behind)  # type: ignore[misc]
            values.append(value)
        return behind

    def _of(self, raw: bytes) -> Any:
        return self._whole(raw) if self._whole is not None else raw

    def column(self, value: Any) -> Any:
        """The column of what was collected; None for nothing."""
        member = self._member
        if value is None:
            if member.required:
                raise Bad("required, but missing")
            return [] if member.repeated else {} if member.key is not None else self._absent
        if self._is_message and not member.repeated:
            return self._of(b"".join(value))
        return list(value.items()) if member.key is not None else value


class _Entry:
    """An entry of a map: a message of its key and its value."""

    def __init__(self, member: Member) -> None:
        self._reader = Reader(entry_of(member))
        self._whole = _whole(member.type) if isinstance(member.type, Message) else None

    def read(self, raw: bytes) -> tuple[str, Any]:
        """Key, as text, and value."""
        row = self._reader.read(raw)
        key, value = row["key"], row["value"]
        text = str(key).lower() if isinstance(key, bool) else str(key)
        return text, self._whole(b"") if value is None and self._whole is not None else value


def entry_of(member: Member) -> Message:
    """The message that each entry of a map is."""
    assert member.key is not None  # noqa: S101 - only maps have entries
    return Message("entry", (Member(1, "key", member.key), Member(2, "value", member.type)))


def absent(member: Member) -> Any:
    """The column of a field that is not there."""
    if member.default is not None:
        return Decimal(member.default) if member.type in ("uint64", "fixed64") else member.default  # type: ignore[arg-type]
    if member.has_presence or isinstance(member.type, Message):
        return None
    if isinstance(member.type, Enum):
        return name_of(dict(member.type.names), 0)
    return _ZEROS.get(member.type, Decimal(0) if member.type in ("uint64", "fixed64") else 0)


def _one_of(kind: Type) -> One:
    """What reads one value of a scalar type or an enum."""
    if isinstance(kind, Enum):
        return _enum(dict(kind.names))
    if kind in ("string", "bytes"):
        return _text if kind == "string" else _bytes
    assert isinstance(kind, str)  # noqa: S101 - messages are read by `_whole`
    if kind in FIXED:
        return _fixed(kind)
    judge = OF_NUMBER[kind]
    is_wide = kind == "uint64"

    def read(data: bytes, at: int, end: int) -> tuple[Any, int]:
        number, at = varint(data, at, end)
        value = judge(number)
        return Decimal(value) if is_wide else value, at

    return read


def _fixed(kind: str) -> One:
    how, size, is_wide = FIXED[kind], FIXED[kind].size, kind == "fixed64"

    def read(data: bytes, at: int, end: int) -> tuple[Any, int]:
        if at + size > end:
            raise Bad(ENDS)
        (value,) = how.unpack_from(data, at)
        return Decimal(value) if is_wide else value, at + size

    return read


def _enum(names: dict[int, str]) -> One:
    judge = OF_NUMBER["int32"]

    def read(data: bytes, at: int, end: int) -> tuple[Any, int]:
        number, at = varint(data, at, end)
        return name_of(names, judge(number)), at

    return read


def name_of(names: dict[int, str], number: int) -> str:
    """The name of a number; one without a name is its digits, which no name begins with."""
    return names.get(number, str(number))


def _text(data: bytes, at: int, end: int) -> tuple[str, int]:
    start, at = length(data, at, end)
    try:
        return data[start:at].decode(), at
    except UnicodeDecodeError:
        raise Bad("not valid UTF-8") from None


def _bytes(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    start, at = length(data, at, end)
    return data[start:at], at


def _whole(message: Type) -> Make:
    """What makes a column of a message's bytes."""
    assert isinstance(message, Message)  # noqa: S101 - the caller looks
    reader = Reader(message)
    if message.name == TIMESTAMP:
        return lambda raw: _timestamp(reader.read(raw))
    if message.name == DATE:
        return lambda raw: _date(reader.read(raw))
    if message.name in WRAPPED:
        (inner,) = message.members
        return lambda raw: reader.read(raw)[inner.name]
    return reader.read


def _timestamp(row: dict[str, Any]) -> dt.datetime:
    seconds, nanos = row["seconds"], row["nanos"]
    if not SECONDS[0] <= seconds <= SECONDS[1] or not 0 <= nanos < _NANOS:
        raise Bad(f"{seconds} s and {nanos} ns are no time of a year 1 to 9999")
    if nanos % 1000:
        raise Bad(f"{nanos} ns are no whole microseconds")
    return _EPOCH + dt.timedelta(seconds=seconds, microseconds=nanos // 1000)


def _date(row: dict[str, Any]) -> dt.date:
    try:
        return dt.date(row["year"], row["month"], row["day"])
    except ValueError:
        raise Bad(f"{row['year']}-{row['month']}-{row['day']} is no day of a year 1 to 9999") from None


__all__ = ["SECONDS", "Reader", "absent", "entry_of", "name_of"]
