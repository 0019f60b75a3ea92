"""Headers that name the schema of a record: where newer serializers put it, so that keys and values have no prefix.

A header holds what a prefix holds, or a GUID: a zero byte and four bytes of an id, or a byte of 1 and sixteen of a GUID.
Of Protobuf the place of the message stands behind it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakestreams.formats.writers import HEADERS, PREFIX, SchemaName

LONGEST: Final = 17
"""Bytes that name a schema, at most: a GUID behind its first byte."""
_SHOWN: Final = 40


class Heads(NamedTuple):
    """The headers of many records that name their schemas.

    Attributes:
        name: of the header.
        values: what it holds, an element for each record; null for a record without it.
        faults: what is wrong with the headers of a record, by its place.
    """

    name: str
    values: Any
    faults: dict[int, str]


class Named(NamedTuple):
    """What a header says.

    Attributes:
        schema: which schema wrote the record.
        behind: the bytes behind its name; of Protobuf the place of the message.
    """

    schema: SchemaName
    behind: bytes


def heads_of(headers: Any, side: str) -> Heads | None:
    """The headers that name the schemas of keys or values; None if no record has one.

    Args:
        headers: an array of lists of structs of a header's key and value.
        side: `key` or `value`.
    """
    name = HEADERS[side]
    if headers.null_count == len(headers):
        return None
    each = headers.flatten()
    is_own = pc.fill_null(pc.equal(pc.struct_field(each, "key"), name), False)
    places = np.flatnonzero(is_own.to_numpy(zero_copy_only=False))
    if not places.size:
        return None
    rows = pc.list_parent_indices(headers).to_numpy(zero_copy_only=False)[places]
    values = pc.struct_field(each, "value").take(pa.array(places)).cast(pa.binary())
    first = np.full(len(headers), -1, np.int64)
    first[rows[::-1]] = np.arange(len(rows))[::-1]
    found = Heads(name, values.take(pa.array(first, mask=first < 0)), {})
    for row in rows[~values.is_valid().to_numpy(zero_copy_only=False)].tolist():
        found.faults[row] = f"header {name}: null"
    for place in np.flatnonzero(first[rows] != np.arange(len(rows))).tolist():  # a record has it twice
        one, other = values[int(first[rows[place]])].as_py(), values[place].as_py()
        if one != other:
            found.faults.setdefault(int(rows[place]), f"header {name}: {shown(one)} and {shown(other)}")
    return found


def named(raw: bytes) -> Named | None:
    """What a header says; None if that is no schema."""
    if raw[:1] == b"\0" and len(raw) >= PREFIX:
        return Named(int.from_bytes(raw[1:PREFIX], "big"), raw[PREFIX:])
    if raw[:1] == b"\1" and len(raw) >= LONGEST:
        return Named(str(UUID(bytes=raw[1:LONGEST])), raw[LONGEST:])
    return None


def shown(raw: bytes | None) -> str:
    """The bytes of a header in a message."""
    text = (raw or b"").hex()
    return "0x" + (text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... of {len(raw or b'')} bytes")


__all__ = ["LONGEST", "Heads", "Named", "heads_of", "named", "shown"]
