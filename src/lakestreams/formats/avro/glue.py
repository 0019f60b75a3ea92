"""Avro behind the header of AWS Glue's Schema Registry, by declared schemas: Glue itself is asked nothing."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from lakestreams.errors import InvalidFormat
from lakestreams.formats.avro.formats import Avro
from lakestreams.formats.base import Field

if TYPE_CHECKING:
    from lakestreams.formats.decoding import Decoded

_MARK, _PLAIN, _ZLIB = 3, 0, 5
_HEADER: Final = 18  # the mark, how what follows is compressed, the sixteen bytes of a schema version
_MOST_BYTES: Final = 64 << 20
_CHUNK: Final = 1 << 20
_HINT: Final = "versions: {SCHEMA VERSION ID: schema}; aws glue get-schema-version prints both"
_IN_TESTS: Final = UUID(int=0)


@dataclass(frozen=True)
class GlueAvro:
    """Avro behind the header of AWS Glue's Schema Registry: the id of the schema version that wrote it; compressed or not.

    Each record is read by its own version and resolved to the declared schema, as by `RegistryAvro`. Versions are declared:
    a record of another one is an error.

    Args:
        schema: the schema that records are read as, as JSON.
        column: what the column of a schema that is no record is called.
        versions: id of a schema version (a UUID) to its schema as JSON.

    Raises:
        InvalidFormat: if one is no schema or no UUID, none is given, or a table has no column for a type of the first.
    """

    schema: str
    column: str = "value"
    versions: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Reads the schemas once, so that a wrong one is refused where it is written."""
        given = tuple(self.versions.items() if isinstance(self.versions, Mapping) else self.versions)
        readers = {_IN_TESTS: Avro(self.schema, self.column)}
        for name, text in given:
            try:
                readers[UUID(name)] = Avro(self.schema, self.column, written_by=text)
            except ValueError:
                raise InvalidFormat(f"{name!r} is no UUID of a schema version", hint=_HINT) from None
        if len(readers) <= len(given) or not given:
            raise InvalidFormat("versions: each schema version that writes records, once", hint=_HINT)
        object.__setattr__(self, "versions", given)
        object.__setattr__(self, "_readers", readers)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns of the schema."""
        return self._known[_IN_TESTS].fields

    @property
    def _known(self) -> dict[UUID, Avro]:
        found: dict[UUID, Avro] = self._readers  # type: ignore[attr-defined]
        return found

    def decode(self, raw: Any) -> Decoded:
        """Takes off the headers, and reads the records of each version in parallel.

        Records that are many bytes when they are no longer compressed are read one part after the other.
        """
        import numpy as np  # noqa: PLC0415 - declaring needs no Arrow

        from lakestreams.formats.decoding import MOST_UNPACKED, behind_each_other, sliced  # noqa: PLC0415 - as above

        number = np.cumsum(self.unpacked_bytes(raw)) // MOST_UNPACKED
        return behind_each_other([self._part(one) for one in sliced(raw, number)])

    def unpacked_bytes(self, raw: Any) -> Any:
        """How many bytes each record has when it is no longer compressed, as `PackedFormat` says it."""
        import numpy as np  # noqa: PLC0415 - as above

        return np.array([_unpacked_size(one) for one in raw.to_pylist()], np.int64)

    def _part(self, raw: Any) -> Decoded:
        from lakestreams.formats.decoding import put_together  # noqa: PLC0415 - as above

        behind: dict[bytes | None, tuple[list[int], list[bytes]]] = {}
        for place, one in enumerate(raw.to_pylist()):
            places, bodies = behind.setdefault(None if one is None else one[:_HEADER], ([], []))
            places.append(place)
            bodies.append(b"" if one is None else one[_HEADER:])
        parts = [(places, self._behind(head, bodies)) for head, (places, bodies) in behind.items()]
        return put_together(parts, len(raw)) if parts else self._known[_IN_TESTS].decode(raw)

    def _behind(self, head: bytes | None, bodies: list[bytes]) -> Decoded:
        """What stands behind one header."""
        import pyarrow as pa  # noqa: PLC0415 - declaring needs no Arrow
        import pyarrow.compute as pc  # noqa: PLC0415 - as above

        from lakestreams.formats.decoding import Decoded, struct_type  # noqa: PLC0415 - as above

        version = None if head is None else version_of(head)
        how = None if version is None else self._known.get(version)
        if head is None or how is None:
            said = None if head is None else _refused(head, version)
            nothing = pa.nulls(len(bodies), struct_type(self.fields))
            return Decoded(nothing, pa.array([said] * len(bodies), pa.string()))
        if head[1] == _PLAIN:
            return how.decode(pa.array(bodies, pa.binary()))
        unpacked = [_unpacked(one) for one in bodies]
        found = how.decode(pa.array([body for body, _ in unpacked], pa.binary()))
        torn = pa.array([said for _, said in unpacked], pa.string())
        return Decoded(found.values, pc.coalesce(torn, found.errors))

    def encoded(self, value: Any) -> bytes:
        """A value as bytes, in tests: by the declared schema, as a version of zeros."""
        return bytes((_MARK, _PLAIN)) + _IN_TESTS.bytes + self._known[_IN_TESTS].encoded(value)

    def describe(self) -> str:
        """The format with its columns, and digests of the schema and of the versions."""
        versions = sorted((str(version), one.describe()) for version, one in self._known.items())
        return f"glue_{self._known[_IN_TESTS].describe()} of {hashlib.sha256(json.dumps(versions).encode()).hexdigest()[:8]}"


def version_of(raw: bytes) -> UUID | None:
    """The schema version that a record's header names; None if it has no such header."""
    is_headed = len(raw) >= _HEADER and raw[0] == _MARK and raw[1] in (_PLAIN, _ZLIB)
    return UUID(bytes=raw[2:_HEADER]) if is_headed else None


def _refused(head: bytes, version: UUID | None) -> str:
    """What is wrong with records of a header that nothing is declared for."""
    if version is not None:
        return f"schema version {version}: it is not among the declared versions"
    if len(head) < _HEADER or head[0] != _MARK:
        return "no header of AWS Glue (0x03, compression, sixteen bytes) before the record"
    return f"compression {head[1]} of AWS Glue's header is not known"


def _unpacked_size(raw: bytes | None) -> int:
    """The bytes of a record when it is no longer compressed; of one that has too many the most that are read."""
    if raw is None or len(raw) < _HEADER or raw[:2] != bytes((_MARK, _ZLIB)):
        return len(raw or b"")
    unpacking, size, left = zlib.decompressobj(), 0, raw[_HEADER:]
    try:
        while left and size < _MOST_BYTES:
            size += len(unpacking.decompress(left, _CHUNK))
            left = unpacking.unconsumed_tail
    except zlib.error:
        return len(raw)
    return min(size, _MOST_BYTES)


def _unpacked(body: bytes) -> tuple[bytes | None, str | None]:
    """What zlib has compressed, or what is wrong with it."""
    unpacked = zlib.decompressobj()
    try:
        found = unpacked.decompress(body, _MOST_BYTES)
    except zlib.error as error:
        return None, f"not compressed as its header says: {error}"
    if unpacked.unconsumed_tail:
        return None, f"more than {_MOST_BYTES} bytes when it is no longer compressed"
    if not unpacked.eof or unpacked.unused_data:
        return None, f"compressed, and {'bytes behind it' if unpacked.eof else 'it ends within it'}"
    return found, None


__all__ = ["GlueAvro", "version_of"]
