"""Records that name their writers' schemas, in a prefix or in a header: which schema each names, and the bytes behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakestreams.formats.decoding import Decoded, bytes_of
from lakestreams.formats.headers import Heads, Named, named, shown
from lakestreams.formats.writers import LARGEST_ID, PREFIX, UNFRAMED, SchemaName, UnknownIds, unknown

Behind = Callable[[bytes], str | None]
"""What is wrong with the bytes that stand behind a schema's name in a header; None: nothing."""


class Frames(NamedTuple):
    """Records without what names their schemas.

    Attributes:
        bodies: their bytes; null for a null record, and where there is an error.
        names: the schemas that records name.
        which: for each record the place of its schema among them; -1 where there is no body.
        errors: what is wrong with how a record names its schema, else null.
    """

    bodies: Any
    names: list[SchemaName]
    which: npt.NDArray[np.int64]
    errors: Any

    def with_errors(self, decoded: Decoded) -> Decoded:
        """What was read of the bodies, with the errors of how they name schemas."""
        return decoded._replace(errors=pc.coalesce(self.errors, decoded.errors))


def frames(
    raw: Any,
    known: Mapping[SchemaName, Any],
    kind: str,
    *,
    strict: bool,
    heads: Heads | None = None,
    behind: Behind | None = None,
) -> Frames:
    """Takes off what names the schemas.

    Args:
        raw: an array of bytes.
        known: what is known of schemas; None for one that the registry does not know, and a text for what is wrong with
            one, as a sentence goes on behind its name.
        kind: of schemas: `AVRO`, `JSON` or `PROTOBUF`.
        strict: whether a schema that is not among the known ones is asked for; else its records are refused.
        heads: the headers that name schemas. A record that has one has no prefix.
        behind: of Protobuf: looks at what stands behind a schema's name in a header, and before the record without one.

    Raises:
        UnknownIds: if a record names such a schema.
    """
    raw = raw.cast(pa.binary())
    there = raw.is_valid().to_numpy(zero_copy_only=False)
    which = np.full(len(raw), -1, np.int64)
    errors: dict[int, str] = {}
    headed = np.zeros(len(raw), bool) if heads is None else _headed(heads)
    names, bodies = _by_prefix(raw, np.flatnonzero(there & ~headed), which, errors)
    if heads is not None:
        said = _by_header(heads, np.flatnonzero(there & headed), behind, errors)
        if said.behind is not None:
            bodies = pc.binary_join_element_wise(said.behind, bodies, pa.scalar(b"", pa.binary()))
        known_places = {name: number for number, name in enumerate(names)}
        for name, rows in said.rows.items():
            which[rows] = known_places.setdefault(name, len(known_places))
        names = list(known_places)
    missing = [one for one in names if one not in known and (isinstance(one, str) or 0 < one <= LARGEST_ID)]
    if missing and strict:
        raise UnknownIds(missing)
    for number, one in enumerate(names):
        wrong = known.get(one)
        if wrong is None or isinstance(wrong, str):
            mine = np.flatnonzero(which == number)
            reason = unknown(one, kind) if wrong is None else f"schema {one} {wrong}"
            errors |= dict.fromkeys(mine.tolist(), reason)
            which[mine] = -1
    told = [errors.get(row) for row in range(len(raw))] if errors else [None] * len(raw)
    kept = pc.if_else(pa.array(which >= 0), bodies, pa.scalar(None, pa.binary()))
    return Frames(kept, names, which, pa.array(told, pa.string()))


def _by_prefix(
    raw: Any, rows: npt.NDArray[np.int64], which: npt.NDArray[np.int64], errors: dict[int, str]
) -> tuple[list[SchemaName], Any]:
    """Which schemas these records name in their prefixes; and all records, these without their prefixes."""
    offsets, data = bytes_of(raw)
    sizes = np.diff(offsets)
    framed = sizes[rows] >= PREFIX
    framed[framed] = data[offsets[rows[framed]]] == 0
    errors |= dict.fromkeys(rows[~framed].tolist(), UNFRAMED)
    rows = rows[framed]
    at, ids, kept = offsets[rows], np.zeros(len(rows), np.int64), np.ones(len(data), bool)
    kept[at] = False
    for place in range(1, PREFIX):
        ids = (ids << 8) | data[at + place]
        kept[at + place] = False
    found, which[rows] = np.unique(ids, return_inverse=True)
    sizes[rows] -= PREFIX
    behind = np.zeros(len(raw) + 1, np.int32)
    np.cumsum(sizes, out=behind[1:])
    buffers = [None, pa.py_buffer(behind), pa.py_buffer(data[kept])]
    return list(found.tolist()), pa.Array.from_buffers(pa.binary(), len(raw), buffers)


def _headed(heads: Heads) -> npt.NDArray[np.bool_]:
    """Which records have a header that names a schema, right or wrong."""
    found: npt.NDArray[np.bool_] = heads.values.is_valid().to_numpy(zero_copy_only=False).copy()
    found[list(heads.faults)] = True
    return found


class _Said(NamedTuple):
    """What headers say.

    Attributes:
        rows: the records that name each schema.
        behind: what stands behind the schemas' names, an element for each record; None if nothing does.
    """

    rows: dict[SchemaName, npt.NDArray[np.int64]]
    behind: Any


def _by_header(heads: Heads, rows: npt.NDArray[np.int64], behind: Behind | None, errors: dict[int, str]) -> _Said:
    """What the headers of these records say; others have an error. Equal headers are looked at once."""
    encoded = heads.values.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    codes = encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False).astype(np.int64)
    for row in heads.faults.keys() & set(rows.tolist()) if heads.faults else ():
        errors[row] = heads.faults[row]
        codes[row] = len(values)
    found: dict[SchemaName, list[npt.NDArray[np.int64]]] = {}
    places = [b""] * (len(values) + 1)
    for code, value in enumerate(values):
        said, mine = _said(heads.name, value, behind), rows[codes[rows] == code]
        if isinstance(said, str):
            errors |= dict.fromkeys(mine.tolist(), said)
        elif mine.size:
            found.setdefault(said.schema, []).append(mine)
            places[code] = said.behind
    parts = pa.array(places, pa.binary()).take(pa.array(codes)) if any(places) else None
    return _Said({name: np.concatenate(each) for name, each in found.items()}, parts)


def _said(name: str, value: bytes, behind: Behind | None) -> Named | str:
    """What a header says, or what is wrong with it."""
    one = named(value)
    if one is None:
        return f"header {name}: {shown(value)} is neither 0x00 and an id of four bytes nor 0x01 and a GUID of sixteen"
    wrong = behind(one.behind) if behind else f"{len(one.behind)} bytes behind the schema" if one.behind else None
    return one if wrong is None else f"header {name}: {shown(value)}: {wrong}"


__all__ = ["Behind", "Frames", "frames"]
