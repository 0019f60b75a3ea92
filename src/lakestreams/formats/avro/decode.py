"""Columns of Arrow from records of Avro: each by the schema that wrote it, all by the one that is declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakestreams.formats.avro import columns
from lakestreams.formats.avro.cursor import Cursor, Numbers
from lakestreams.formats.avro.resolution import Reader, Unresolvable, reader_of
from lakestreams.formats.avro.schema import Record, Type
from lakestreams.formats.decoding import Decoded, bytes_of, struct_type
from lakestreams.formats.framing import frames
from lakestreams.formats.headers import Heads
from lakestreams.formats.writers import AVRO, SchemaName, UnknownIds, unusable


class Decoder:
    """Reads batches.

    Args:
        read: the declared schema.
        column: what the column is called where that is no record.
        written: the writers' schemas by their names; what is wrong with one that cannot be used; None for one that the
            registry does not know. Under no name stands the schema of records without a prefix.
        strict: whether a schema that is not among them is asked for; else its records are refused.
    """

    def __init__(
        self, read: Type, column: str, written: Mapping[SchemaName | None, Type | str | None], *, strict: bool = True
    ) -> None:
        fields = columns.fields_of(read, column)
        self._kind = struct_type(fields)
        self._is_record = isinstance(columns.inner(read), Record)
        self._framed, self._strict = None not in written, strict
        self._bare = None if self._framed else _reader(None, written[None], read)
        self._readers = {name: _reader(name, one, read) for name, one in written.items() if name is not None}

    @property
    def kind(self) -> pa.DataType:
        """The type of the values."""
        return self._kind

    def decode(self, raw: pa.Array, heads: Heads | None = None) -> Decoded:
        """Reads records of binary type.

        Args:
            raw: the records.
            heads: the headers that name their schemas, if one has such a header.

        Raises:
            UnknownIds: if a record names a schema that this decoder does not know.
        """
        if not self._framed:
            return self._read(raw, [(self._bare, np.flatnonzero(raw.is_valid().to_numpy(zero_copy_only=False)))])
        found = frames(raw, self._readers, AVRO, strict=self._strict, heads=heads)
        readers = [(self._readers.get(name), np.flatnonzero(found.which == at)) for at, name in enumerate(found.names)]
        return found.with_errors(self._read(found.bodies, readers))

    def _read(self, raw: pa.Array, by_schema: Sequence[tuple[Reader | str | None, Numbers]]) -> Decoded:
        """Reads records without prefixes, each by its schema; those of a schema that cannot be used are refused."""
        offsets, data = bytes_of(raw)
        cursor = Cursor(data, offsets[:-1], offsets[1:])
        parts, order = [], np.full(len(raw), -1, np.int64)
        before = 0
        for reader, rows in by_schema:
            if not rows.size:
                continue
            if reader is None or isinstance(reader, str):
                cursor.fail(rows, str(reader))
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

    def _struct(self, values: pa.Array) -> pa.StructArray:
        """The columns: those of a record, or the one of any other value; a null value has no columns."""
        if self._is_record:
            return values
        whole = pa.StructArray.from_arrays([values], fields=list(self._kind))
        return pc.if_else(values.is_valid(), whole, pa.scalar(None, self._kind)) if values.null_count else whole


def _reader(name: SchemaName | None, written: Type | str | None, read: Type) -> Reader | str | None:
    """What reads the records of a schema, or why none of them can be read; None if the registry does not know it."""
    if written is None:
        return None
    if isinstance(written, str):
        return unusable(written)
    try:
        return reader_of(written, read)
    except Unresolvable as error:
        return str(error) if name is None else f"cannot be read as declared: {error}"
    except RecursionError:  # types that name each other, without end or nearly so
        return unusable("its types nest too deeply")


__all__ = ["Decoder", "UnknownIds"]
