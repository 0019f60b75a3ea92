"""Many records of Protobuf at once, a field of all of them after the other, in the order in which writers put fields.

What is not surely read like that is left to `reader`, which defines the result: fields in another order or twice, two members
of a oneof, groups, and every record that is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakestreams.formats.base import Field
from lakestreams.formats.decoding import (
    Decoded,
    arrow_type,
    behind_each_other,
    gathered,
    is_utf8,
    pieces,
    put_together,
    structs,
)
from lakestreams.formats.protobuf.columns import kind_of
from lakestreams.formats.protobuf.reader import SECONDS, absent, entry_of, name_of
from lakestreams.formats.protobuf.schema import (
    DATE,
    FIXED32,
    FIXED64,
    LENGTH,
    TIMESTAMP,
    VARINT,
    WRAPPED,
    Enum,
    Member,
    Message,
    Type,
)
from lakestreams.formats.protobuf.spans import (
    DEAD,
    DONE,
    Mask,
    Numbers,
    Spans,
    contiguous,
    packed,
    tags,
    value,
)

_ONE_BY_ONE: Final = 64  # records: so many are read one by one as quickly
_ROUNDS: Final = 256  # values of a list, or fields that are passed over, that are read like this
_TAGS: Final = 1 << 14
_NUMBERS: Final = {
    "double": "<f8", "float": "<f4", "sfixed32": "<i4", "sfixed64": "<i8", "fixed32": "<u4", "fixed64": "<u8",
}  # fmt: skip

Data = npt.NDArray[np.uint8]


class Read(NamedTuple):
    """What was read of some values: a column, and of which values it is sure."""

    column: Any
    sure: Mask


class Blocks:
    """Reads arrays of records of one message.

    Args:
        message: the declared one.
        fields: its columns.
    """

    def __init__(self, message: Message, fields: tuple[Field, ...]) -> None:
        self._fields = fields
        self._message = _Fields(message)

    def decode(self, raw: Any, exactly: Callable[[Any, Numbers], Decoded], behind: Numbers | None = None) -> Decoded:
        """Reads every record.

        Args:
            raw: an array of bytes.
            exactly: reads some of them one by one; gets these, and their places.
            behind: how many bytes stand before each record; less than 0: unknown. By default none.
        """
        skipped = np.zeros(len(raw), np.int64) if behind is None else behind
        found, first = [], 0
        for piece in pieces(raw):
            places = np.arange(first, first + len(piece))
            found.append(self._piece(piece, places, skipped[places], exactly))
            first += len(piece)
        return behind_each_other(found)

    def _piece(self, raw: Any, places: Numbers, behind: Numbers, exactly: Callable[[Any, Numbers], Decoded]) -> Decoded:
        if len(raw) <= _ONE_BY_ONE:
            return exactly(raw, places)._replace(one_by_one=raw.is_valid())
        there = np.flatnonzero(raw.is_valid().to_numpy(zero_copy_only=False) & (behind >= 0))
        data, start, end = contiguous(raw)
        columns, sure = self._message.read(data, (start + behind)[there], end[there])
        kept = np.flatnonzero(sure)
        parts = []
        if len(kept):
            own = [columns[one.name].take(pa.array(kept)) for one in self._fields]
            made = structs(self._fields, own, np.zeros(len(kept), bool))
            parts.append((there[kept], Decoded(made, pa.nulls(len(kept), pa.string()))))
        done = np.zeros(len(raw), bool)
        done[there[kept]] = True
        rest = np.flatnonzero(~done)
        if len(rest) or not parts:
            parts.append((rest, exactly(raw.take(pa.array(rest)), places[rest])))
        return put_together(parts, len(raw))._replace(one_by_one=pc.and_not(raw.is_valid(), pa.array(done)))


class _Fields:
    """The fields of a message, in the order of their numbers."""

    def __init__(self, message: Message) -> None:
        self._fields = [_Field(one) for one in sorted(message.members, key=lambda one: one.number)]
        self._names = [one.name for one in message.members]
        self._known = np.zeros(_TAGS, bool)  # tags of declared fields, of whatever wire type
        for one in message.members:
            self._known[one.number << 3 : (one.number + 1) << 3] = True

    def read(self, data: Data, at: Numbers, end: Numbers) -> tuple[dict[str, Any], Mask]:
        """The columns of messages that stand between these places, and of which messages they are sure."""
        walk = _Walk(data, at, end, self._known)
        columns = {}
        chosen: dict[int, Mask] = {}
        for field in self._fields:
            column, there = field.read(walk)
            columns[field.name] = column
            if field.oneof is not None:
                before = chosen.setdefault(field.oneof, np.zeros(len(at), bool))
                walk.leave(np.flatnonzero(before & there))
                before |= there
        return {name: columns[name] for name in self._names}, walk.tag == DONE


class _Walk:
    """How far each of some messages is read."""

    def __init__(self, data: Data, at: Numbers, end: Numbers, known: npt.NDArray[np.bool_]) -> None:
        self.data, self.end, self._known = data, end, known
        self.tag, self.at = tags(data, at, end)
        self._pass_over(np.arange(len(at)))

    def take(self, tag: int) -> tuple[Numbers, Spans]:
        """The value behind a tag, of the messages whose next field it is; they go on to the next one."""
        rows = np.flatnonzero(self.tag == tag)
        found = value(self.data, self.at[rows], self.end[rows], tag & 7)
        if not found.fits.all():
            self.leave(rows[~found.fits])
            kept: list[Any] = [part[found.fits] for part in found]
            rows, found = rows[found.fits], Spans(*kept)
        self.tag[rows], self.at[rows] = tags(self.data, found.behind, self.end[rows])
        self._pass_over(rows)
        return rows, found

    def leave(self, rows: Numbers) -> None:
        """Gives messages up, which are read otherwise."""
        self.tag[rows] = DEAD

    def _pass_over(self, rows: Numbers) -> None:
        """Goes on behind fields that are not declared."""
        for _ in range(_ROUNDS):
            tag = self.tag[rows]
            unknown = (tag >= 0) & ~self._known[np.maximum(tag, 0)]
            if not unknown.any():
                return
            rows, wires = rows[unknown], tag[unknown] & 7
            self.leave(rows)  # groups stay so
            for wire in (VARINT, FIXED64, LENGTH, FIXED32):
                own = rows[wires == wire]
                if len(own):
                    found = value(self.data, self.at[own], self.end[own], wire)
                    following = tags(self.data, found.behind, self.end[own])
                    self.tag[own], self.at[own] = np.where(found.fits, following[0], DEAD), following[1]
        self.leave(rows)


class _Field:
    """One field of many messages."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self.name, self.oneof = member.name, member.oneof
        self._tag = member.number << 3 | member.wire
        self._packed = member.number << 3 | LENGTH if member.repeated and member.wire != LENGTH else 0
        self._kind = arrow_type(kind_of(member.type))
        self._is_list = member.repeated or member.key is not None
        self._entry = _Fields(entry_of(member)) if member.key is not None else None
        self._values = _values_of(member.type) if member.key is None else None

    def read(self, walk: _Walk) -> tuple[Any, Mask]:
        """The column, and which messages have the field."""
        if self._is_list:
            return self._lists(walk)
        member, size = self._member, len(walk.tag)
        rows, found = walk.take(self._tag)
        there = np.zeros(size, bool)
        there[rows] = True
        assert self._values is not None  # noqa: S101 - only maps have entries
        column, sure = self._values(walk.data, found)
        walk.leave(rows[~sure])
        if len(rows) < size:
            places = np.zeros(size, np.int64)
            places[rows] = np.arange(len(rows))
            column = column.take(pa.array(places, mask=~there))
            default = absent(member)
            if default is not None:
                column = pc.fill_null(column, pa.scalar(default, self._kind))
            if member.required:
                walk.leave(np.flatnonzero(~there))
        return column, there

    def _lists(self, walk: _Walk) -> tuple[Any, Mask]:
        owners, parts = [], []
        for _ in range(_ROUNDS):
            rows, found = walk.take(self._tag)
            if not len(rows):
                break
            owners.append(rows)
            parts.append(found)
        for _ in range(_ROUNDS if self._packed else 0):
            rows, found = walk.take(self._packed)
            if not len(rows):
                break
            inside, values, whole = packed(walk.data, found.start, found.value.astype(np.int64), self._member.wire)
            walk.leave(rows[~whole])
            owners.append(rows[inside])
            parts.append(values)
        owner = np.concatenate([np.zeros(0, np.int64), *owners])
        order = np.argsort(owner, kind="stable")
        owner = owner[order]
        joined: list[Any] = [np.concatenate(one)[order] for one in zip(_NONE, *parts, strict=True)]
        every = Spans(*joined)
        walk.leave(owner[~every.fits])
        count = np.bincount(owner, minlength=len(walk.tag))
        offsets = pa.array(np.concatenate([[0], np.cumsum(count)]), pa.int32())
        if self._entry is not None:
            return self._map(walk, owner, every, offsets), count > 0
        assert self._values is not None  # noqa: S101 - only maps have entries
        column, sure = self._values(walk.data, every)
        walk.leave(owner[~sure])
        return pa.ListArray.from_arrays(offsets, column), count > 0

    def _map(self, walk: _Walk, owner: Numbers, spans: Spans, offsets: Any) -> Any:
        assert self._entry is not None  # noqa: S101 - only maps are made here
        columns, sure = self._entry.read(walk.data, spans.start, spans.behind)
        keys, values = columns["key"], columns["value"]
        keys = (
            keys.cast(pa.string()) if not pa.types.is_decimal(keys.type) else keys.cast(pa.uint64()).cast(pa.string())
        )
        walk.leave(owner[~sure])
        codes = keys.dictionary_encode()
        pairs = owner * (len(codes.dictionary) + 1) + codes.indices.to_numpy()
        _, first, count = np.unique(pairs, return_index=True, return_counts=True)
        walk.leave(owner[first[count > 1]])  # of a key that comes twice the last value counts
        if isinstance(self._member.type, Message):
            walk.leave(
                owner[values.is_null().to_numpy(zero_copy_only=False)]
            )  # an entry without a value has an empty one
        return pa.MapArray.from_arrays(offsets, keys, values)


_NONE: Final = Spans(np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool))
Values = Callable[[Data, Spans], Read]


def _values_of(kind: Type) -> Values:
    """What makes a column of values that were found."""
    if isinstance(kind, Message):
        return partial(_messages, _Fields(kind), kind)
    if isinstance(kind, Enum):
        return partial(_enums, dict(kind.names))
    if kind in ("string", "bytes"):
        return _texts if kind == "string" else _bytes
    return partial(_fixed, kind) if kind in _NUMBERS else partial(_varying, kind)


def _messages(fields: _Fields, message: Message, data: Data, spans: Spans) -> Read:
    columns, sure = fields.read(data, spans.start, spans.behind)
    if message.name == TIMESTAMP:
        return _timestamps(columns, sure)
    if message.name == DATE:
        return _dates(columns, sure)
    if message.name in WRAPPED:
        (column,) = columns.values()
        return Read(column, sure)
    kinds = [pa.field(name, column.type) for name, column in columns.items()]
    return Read(pa.StructArray.from_arrays(list(columns.values()), fields=kinds), sure)


def _timestamps(columns: dict[str, Any], sure: Mask) -> Read:
    seconds, nanos = (columns[name].to_numpy().astype(np.int64) for name in ("seconds", "nanos"))
    fits = (seconds >= SECONDS[0]) & (seconds <= SECONDS[1]) & (nanos >= 0) & (nanos < 10**9) & (nanos % 1000 == 0)
    micros = np.where(fits, seconds, 0) * 1_000_000 + nanos // 1000
    return Read(pa.array(micros).view(pa.timestamp("us", "UTC")), sure & fits)


def _dates(columns: dict[str, Any], sure: Mask) -> Read:
    year, month, day = (columns[name].to_numpy().astype(np.int64) for name in ("year", "month", "day"))
    fits = (year >= 1) & (year <= 9999) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    months = np.where(fits, (year - 1970) * 12 + month - 1, 0).astype("M8[M]")
    days = months.astype("M8[D]") + np.where(fits, day - 1, 0).astype("m8[D]")
    fits &= days.astype("M8[M]") == months
    return Read(pa.array(days.astype(np.int64).astype(np.int32)).view(pa.date32()), sure & fits)


def _enums(names: dict[int, str], _data: Data, spans: Spans) -> Read:
    number = spans.value.view(np.int64)
    fits = (number >= -(2**31)) & (number < 2**31)
    each, places = np.unique(np.where(fits, number, 0), return_inverse=True)
    texts = pa.array([name_of(names, one) for one in each.tolist()], pa.string())
    return Read(texts.take(pa.array(places.reshape(-1))), fits)


def _varying(kind: str, _data: Data, spans: Spans) -> Read:
    bits = spans.value
    if kind == "bool":
        return Read(pa.array(bits == 1), bits <= 1)
    if kind == "uint64":
        return Read(pa.array(bits).cast(pa.decimal128(20, 0)), np.ones(len(bits), bool))
    if kind.startswith("sint"):
        number = (bits >> np.uint64(1)).view(np.int64) ^ -(bits & np.uint64(1)).view(np.int64)
        fits = bits < np.uint64(1 << 32) if kind == "sint32" else np.ones(len(bits), bool)
    else:
        number = bits.view(np.int64)
        low, high = {"int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1)}.get(kind, (-(2**63), 2**63 - 1))
        fits = (number >= low) & (number <= high)
    narrow = kind in ("int32", "sint32")
    return Read(pa.array(np.where(fits, number, 0).astype(np.int32) if narrow else number), fits)


def _fixed(kind: str, _data: Data, spans: Spans) -> Read:
    how = np.dtype(_NUMBERS[kind])
    bits = spans.value.astype("<u4") if how.itemsize == 4 else spans.value
    numbers = bits.view(how)
    if kind == "fixed32":
        numbers = numbers.astype(np.int64)
    column = pa.array(numbers)
    return Read(column.cast(pa.decimal128(20, 0)) if kind == "fixed64" else column, np.ones(len(bits), bool))


def _bytes(data: Data, spans: Spans) -> Read:
    offsets, body = gathered(data, spans.start, spans.value.astype(np.int64))
    column = pa.Array.from_buffers(pa.binary(), len(spans.value), [None, pa.py_buffer(offsets), pa.py_buffer(body)])
    return Read(column, np.ones(len(spans.value), bool))


def _texts(data: Data, spans: Spans) -> Read:
    column, sure = _bytes(data, spans)
    try:
        return Read(column.cast(pa.string()), sure)
    except pa.ArrowInvalid:
        sure = np.array([is_utf8(one) for one in column.to_pylist()], bool)
        return Read(pc.if_else(pa.array(sure), column, b"").cast(pa.string()), sure)


__all__ = ["Blocks"]
