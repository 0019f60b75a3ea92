"""Columns of Arrow from records of Avro: each by the schema that wrote it, all by the one that is declared."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakestreams.formats.avro import columns
from lakestreams.formats.avro.cursor import Cursor, Numbers
from lakestreams.formats.avro.resolution import Reader, Unresolvable, reader_of
from lakestreams.formats.avro.schema import Record, Type
from lakestreams.formats.decoding import Decoded, bytes_of, struct_type
from lakestreams.formats.writers import AVRO, LARGEST_ID, PREFIX, UNFRAMED, UnknownIds, unknown


class Decoder:
    """Reads batches.

    Args:
        read: the declared schema.
        column: what the column is called where that is no record.
        written: the writers' schemas by their ids; what is wrong with one that cannot be used; None under an id that the
            registry does not know. Under no id stands the schema of records without a prefix.
        strict: whether an id that is not among them is asked for; else its records are refused.
    """

    def __init__(
        self, read: Type, column: str, written: Mapping[int | None, Type | str | None], *, strict: bool = True
    ) -> None:
        fields = columns.fields_of(read, column)
        self._kind = struct_type(fields)
        self._is_record = isinstance(columns.inner(read), Record)
        self._framed, self._strict = None not in written, strict
        self._readers: dict[int | None, Reader | str] = {
            number: _reader(number, one, read) for number, one in written.items()
        }

    @property
    def kind(self) -> pa.DataType:
        """The type of the values."""
        return self._kind

    def decode(self, raw: pa.Array) -> Decoded:
        """Reads records of binary type.

        Raises:
            UnknownIds: if a record refers to a schema that this decoder was not told of.
        """
        offsets, data = bytes_of(raw)
        starts, ends = offsets[:-1], offsets[1:]
        cursor = Cursor(data, starts, ends)
        there = np.flatnonzero(raw.is_valid().to_numpy(zero_copy_only=False))
        parts, order = [], np.full(len(raw), -1, np.int64)
        before = 0
        for number, rows in self._by_schema(cursor, there):
            reader = self._readers.get(number, _unknown(number))
            if isinstance(reader, str):
                cursor.fail(rows, reader)
                continue
            parts.append(self._struct(reader.read(cursor, rows)))
            behind = cursor.left(rows)
            own = rows[(behind > 0) & ~cursor.failed[rows]]
            cursor.fail(own, [f"{size} bytes behind the record" for size in cursor.left(own).tolist()])
            order[rows] = before + np.arange(rows.size)
            before += rows.size
        order[cursor.failed] = -1
        value = (
            pa.concat_arrays(parts).take(pa.array(order, mask=order < 0)) if parts else pa.nulls(len(raw), self._kind)
        )
        return Decoded(value, pa.array([cursor.faults.get(row) for row in range(len(raw))], pa.string()))

    def _struct(self, found: pa.Array) -> pa.StructArray:
        """The columns: those of a record, or the one of any other value; a null value has no columns."""
        if self._is_record:
            return found
        whole = pa.StructArray.from_arrays([found], fields=list(self._kind))
        return pc.if_else(found.is_valid(), whole, pa.scalar(None, self._kind)) if found.null_count else whole

    def _by_schema(self, cursor: Cursor, rows: Numbers) -> list[tuple[int | None, Numbers]]:
        if not self._framed:
            return [(None, rows)] if rows.size else []
        short = cursor.left(rows) < PREFIX
        unframed = short | (cursor.data[cursor.places[rows]] != 0)
        cursor.fail(rows[unframed], UNFRAMED)
        rows = rows[~unframed]
        if not rows.size:
            return []
        prefix = cursor.fixed(rows, PREFIX, "value", "the prefix").astype(np.int64)
        ids = (prefix[:, 1] << 24) | (prefix[:, 2] << 16) | (prefix[:, 3] << 8) | prefix[:, 4]
        found = np.unique(ids).tolist()
        unknown = [number for number in found if number not in self._readers and 0 < number <= LARGEST_ID]
        if unknown and self._strict:
            raise UnknownIds(unknown)
        return [(number, rows[ids == number]) for number in found]


def _reader(number: int | None, written: Type | str | None, read: Type) -> Reader | str:
    """What reads the records of a schema, or why none of them can be read."""
    if written is None:
        return _unknown(number)
    if isinstance(written, str):
        return f"schema {number} cannot be used: {written}"
    try:
        return reader_of(written, read)
    except Unresolvable as error:
        return str(error) if number is None else f"schema {number} cannot be read as declared: {error}"


def _unknown(number: int | None) -> str:
    return unknown(number, AVRO)


__all__ = ["LARGEST_ID", "PREFIX", "Decoder", "UnknownIds"]
