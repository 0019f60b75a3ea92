"""Records behind a schema registry's prefix: which schema wrote each, and the bytes behind the prefix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakestreams.formats.decoding import Decoded
from lakestreams.formats.writers import LARGEST_ID, PREFIX, UNFRAMED, UnknownIds, unknown


class Frames(NamedTuple):
    """Records without their prefixes.

    Attributes:
        bodies: what stands behind each prefix; null for a null record, and where there is an error.
        ids: the id of each record that has a body.
        errors: what is wrong with a record's prefix, else null.
    """

    bodies: Any
    ids: list[int | None]
    errors: list[str | None]

    def with_errors(self, found: Decoded) -> Decoded:
        """What was read of the bodies, with the errors of the prefixes."""
        return Decoded(found.values, pc.coalesce(pa.array(self.errors, pa.string()), found.errors))


def frames(raw: Any, known: Mapping[int, Any], kind: str, *, strict: bool) -> Frames:
    """Takes the prefixes off.

    Args:
        raw: an array of bytes.
        known: what is known by id; None for an id that the registry does not know.
        kind: of schemas: `AVRO`, `JSON` or `PROTOBUF`.
        strict: whether an id that is not among the known ones is asked for; else its records are refused.

    Raises:
        UnknownIds: if a record names such an id.
    """
    records = raw.to_pylist()
    ids = [
        None if one is None or len(one) < PREFIX or one[0] else int.from_bytes(one[1:PREFIX], "big") for one in records
    ]
    named = {number for number in ids if number is not None}
    missing = sorted(number for number in named - known.keys() if 0 < number <= LARGEST_ID)
    if missing and strict:
        raise UnknownIds(missing)
    refused = {number: unknown(number, kind) for number in named if known.get(number) is None}
    errors = [
        None if one is None else UNFRAMED if number is None else refused.get(number)
        for one, number in zip(records, ids, strict=True)
    ]
    good = [one is not None and error is None for one, error in zip(records, errors, strict=True)]
    bodies = [one[PREFIX:] if is_good else None for one, is_good in zip(records, good, strict=True)]
    return Frames(
        pa.array(bodies, pa.binary()),
        [number if is_good else None for number, is_good in zip(ids, good, strict=True)],
        errors,
    )


__all__ = ["Frames", "frames"]
