"""Raw bytes as Arrow columns: the fast way where it surely says the same, the exact way for all other records."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakestreams.formats.base import Field, Format, PackedFormat
from lakestreams.formats.headers import heads_of
from lakestreams.formats.kinds import Array, Kind, Map, Struct
from lakestreams.formats.leaves import sizes
from lakestreams.formats.writers import RegistryFormat

_TYPES = {
    "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip

MOST_UNPACKED: Final = 64 << 20
"""Bytes that records have when they are no longer compressed, of those that a worker reads together."""
_PIECE_BYTES: Final = (
    8 << 20
)  # of records that are looked at together; of JSON their quotes take eight times as much at most
_PIECE_ROWS: Final = 50_000


class Decoded(NamedTuple):
    """What a format makes of many records.

    Attributes:
        values: structs of the format's fields; null where the bytes are null, say so, or there is an error.
        errors: messages where the bytes cannot be read, else null.
        one_by_one: which records were read by themselves, not by columns; None: the format has one way only.
    """

    values: Any
    errors: Any
    one_by_one: Any = None


def arrow_type(kind: Kind) -> Any:
    """The type of a column in Arrow."""
    if isinstance(kind, Struct):
        return pa.struct([pa.field(member.name, arrow_type(member.kind)) for member in kind.members])
    if isinstance(kind, Array):
        return pa.list_(arrow_type(kind.element))
    if isinstance(kind, Map):
        return pa.map_(pa.string(), arrow_type(kind.value))
    return pa.decimal128(*sizes(kind.spark)) if kind.spark.startswith("decimal") else _TYPES[kind.spark]


def struct_type(fields: Sequence[Field]) -> Any:
    """The type of the values of a format."""
    return pa.struct([pa.field(field.name, arrow_type(field.member.kind)) for field in fields])


def one_by_one(
    fields: Sequence[Field], read: Callable[[bytes], tuple[dict[str, Any] | None, str | None]], raw: Any
) -> Decoded:
    """Records read one after the other.

    Args:
        fields: the columns.
        read: from bytes to the columns, or None; and to an error, or None.
        raw: an array of bytes.
    """
    rows, errors = [], []
    for one in raw.to_pylist():
        row, error = (None, None) if one is None else read(one)
        rows.append(row)
        errors.append(error)
    columns = [
        pa.array([None if row is None else row[field.name] for row in rows], arrow_type(field.member.kind))
        for field in fields
    ]
    return Decoded(structs(fields, columns, [row is None for row in rows]), pa.array(errors, pa.string()))


def structs(fields: Sequence[Field], columns: Sequence[Any], null: Any) -> Any:
    """Structs of columns, null where it is said."""
    mask = pa.array(null, pa.bool_())
    if not len(mask):
        return pa.array([], struct_type(fields))
    return pa.StructArray.from_arrays(list(columns), fields=list(struct_type(fields)), mask=mask)


def bytes_of(raw: Any) -> tuple[Any, Any]:
    """Where each record of an array begins and the last one ends, and their bytes."""
    _, offsets, data = raw.buffers()
    kind = np.int64 if pa.types.is_large_binary(raw.type) else np.int32
    if offsets is None or not len(raw):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    places = np.frombuffer(offsets, kind)[raw.offset : raw.offset + len(raw) + 1].astype(np.int64)
    found = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[places[0] : places[-1]]
    return places - places[0], found


def gathered(data: Any, starts: Any, sizes: Any) -> tuple[Any, Any]:
    """The bytes at these places, one behind the other, and where each begins among them, as Arrow has them."""
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    where = np.arange(int(offsets[-1])) + np.repeat(starts - offsets[:-1], sizes)
    return offsets, data[where]


def is_utf8(raw: bytes) -> bool:
    """Whether bytes are UTF-8."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def pieces(raw: Any) -> Iterator[Any]:
    """Slices of so many records that what is noted of them takes little."""
    lengths = pc.fill_null(pc.binary_length(raw), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return sliced(raw, np.maximum(np.cumsum(lengths) // _PIECE_BYTES, np.arange(len(raw)) // _PIECE_ROWS))


def sliced(whole: Any, number: Any) -> Iterator[Any]:
    """Slices of an array or a batch: one of the rows that have the same number; at least one."""
    cuts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(whole)]
    for start, end in itertools.pairwise(cuts):
        yield whole.slice(start, end - start)


def behind_each_other(parts: Sequence[Decoded]) -> Decoded:
    """The records of several pieces, at least one."""
    if len(parts) == 1:
        return parts[0]
    values, errors, ways = zip(*parts, strict=True)
    one_by_one = None if any(one is None for one in ways) else pa.concat_arrays(ways)
    return Decoded(pa.concat_arrays(values), pa.concat_arrays(errors), one_by_one)


def put_together(parts: Sequence[tuple[Any, Decoded]], size: int) -> Decoded:
    """The records of several parts in their places.

    Args:
        parts: places with what lies there; together each place once.
        size: how many places there are.
    """
    if len(parts) == 1:
        return parts[0][1]
    order = np.empty(size, np.int64)
    order[np.concatenate([places for places, _ in parts])] = np.arange(size)
    values = pa.concat_arrays([one.values for _, one in parts]).take(pa.array(order))
    return Decoded(values, pa.concat_arrays([one.errors for _, one in parts]).take(pa.array(order)))


def behind_prefix(raw: Any, decode: Callable[[Any], Decoded], size: int, said: str) -> Decoded:
    """What is behind a zero byte and others, `size` in all; without them there is an error."""
    records = raw.to_pylist()
    behind = [one[size:] if one is not None and len(one) > size and one[0] == 0 else None for one in records]
    found = decode(pa.array(behind, pa.binary()))
    bare = pa.array([one is not None and other is None for one, other in zip(records, behind, strict=True)], pa.bool_())
    return found._replace(errors=pc.if_else(bare, said, found.errors))


def read_batches(key: Format, value: Format, batches: Iterable[Any]) -> Iterator[Any]:
    """Batches of records with what their formats make of them, in a worker.

    Behind their columns stand `k, key_error, v, value_error, one_by_one`. The last says whether a record's key or value was
    read by itself; it is null where both formats have one way only.
    """
    for batch in itertools.chain.from_iterable(_unpackable(key, value, one) for one in batches):
        keys, values = _side(key, batch, "key"), _side(value, batch, "value")
        ways = [side.one_by_one for side in (keys, values) if side.one_by_one is not None]
        one_by_one = reduce(pc.or_, ways) if ways else pa.nulls(len(batch), pa.bool_())
        columns = [*batch.columns, keys.values, keys.errors, values.values, values.errors, one_by_one]
        names = [*batch.schema.names, "k", "key_error", "v", "value_error", "one_by_one"]
        yield pa.RecordBatch.from_arrays(columns, names=names)


def _unpackable(key: Format, value: Format, batch: Any) -> Iterator[Any]:
    """A batch in parts, each of which fits a worker together with its unpacked bytes."""
    packed = [
        how.unpacked_bytes(batch.column(side))
        for side, how in (("key", key), ("value", value))
        if isinstance(how, PackedFormat)
    ]
    return sliced(batch, np.cumsum(sum(packed)) // MOST_UNPACKED) if packed else iter((batch,))


def _side(how: Format, batch: Any, side: str) -> Decoded:
    """The keys or the values of a batch; their schemas may stand in headers."""
    raw = batch.column(side)
    if not isinstance(how, RegistryFormat) or "headers" not in batch.schema.names:
        return how.decode(raw)
    return how.decode(raw, heads_of(batch.column("headers"), side))


def text_column(fields: Sequence[Field], raw: Any, broken: str) -> Decoded:
    """UTF-8 as one column of strings."""
    try:
        text = raw.cast(pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return one_by_one(fields, lambda one: _text(one, fields[0].name, broken), raw)
    return Decoded(structs(fields, [text], text.is_null()), pa.nulls(len(raw), pa.string()))


def _text(raw: bytes, name: str, broken: str) -> tuple[dict[str, Any] | None, str | None]:
    try:
        return {name: raw.decode()}, None
    except UnicodeDecodeError:
        return None, broken


def number_column(fields: Sequence[Field], raw: Any, size: int, word: str) -> Decoded:
    """Big-endian signed numbers of so many bytes as one column."""
    name = fields[0].name

    def read(one: bytes) -> tuple[dict[str, Any] | None, str | None]:
        if len(one) != size:
            return None, f"{word} has {size} bytes, not {len(one)}"
        return {name: int.from_bytes(one, "big", signed=True)}, None

    return one_by_one(fields, read, raw)


__all__ = [
    "MOST_UNPACKED",
    "Decoded",
    "arrow_type",
    "behind_each_other",
    "behind_prefix",
    "bytes_of",
    "gathered",
    "is_utf8",
    "number_column",
    "one_by_one",
    "pieces",
    "put_together",
    "read_batches",
    "sliced",
    "struct_type",
    "structs",
    "text_column",
]
