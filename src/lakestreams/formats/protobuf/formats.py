"""Protobuf as formats of sources and outputs: bare, and by the schemas of a registry that records name."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from lakestreams.errors import InvalidFormat
from lakestreams.formats.base import Field, require_text
from lakestreams.formats.encoding import by_workers
from lakestreams.formats.protobuf.columns import fields_of
from lakestreams.formats.protobuf.compiling import compile_texts, message_of
from lakestreams.formats.protobuf.encode import varint, writer_of
from lakestreams.formats.protobuf.reader import Reader
from lakestreams.formats.protobuf.schema import Message
from lakestreams.formats.protobuf.wire import Bad
from lakestreams.formats.protobuf.wire import varint as number_at
from lakestreams.formats.writers import PROTOBUF, TEST_ID, SchemaName, Texts, Written, knowing, prefix_of, unusable

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.formats.decoding import Decoded
    from lakestreams.formats.framing import Frames
    from lakestreams.formats.headers import Heads
    from lakestreams.formats.protobuf.blocks import Blocks

Names: TypeAlias = "Mapping[tuple[int, ...], str]"
"""Messages of a writer's schema by their places: in the file, then in the outer message."""
Row: TypeAlias = "tuple[dict[str, Any] | None, str | None]"

_MOST_INDEXES = 50


@dataclass(frozen=True)
class ProtobufFormat(ABC):
    """What formats of Protobuf have in common.

    Attributes:
        schema: the text of a .proto file, proto3 or proto2.
        message: the message that records are, with or without its package; None for the only one of the file.
        imports: what the file imports: name of the import and text, each behind those that it imports itself.
            `google/protobuf/*.proto` and `google/type/date.proto` are known.
    """

    schema: str
    message: str | None = None
    imports: tuple[tuple[str, str], ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        """Reads the schema once, so that a wrong one is refused where it is written."""
        require_text(self.schema)
        if isinstance(self.imports, Mapping):
            object.__setattr__(self, "imports", tuple(self.imports.items()))
        object.__setattr__(self, "_type", message_of(self._texts, self.message))
        object.__setattr__(self, "_fields", fields_of(self.type))

    @property
    def _texts(self) -> Texts:
        return (*(part for one in self.imports for part in one), self.schema)

    @property
    def type(self) -> Message:
        """The declared message."""
        found: Message = self._type  # type: ignore[attr-defined]
        return found

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns: the message's fields."""
        found: tuple[Field, ...] = self._fields  # type: ignore[attr-defined]
        return found

    @abstractmethod
    def decode(self, raw: Any) -> Decoded:
        """Reads an array of bytes."""

    def write(self, value: Column) -> Column:
        """The struct as a record. A value that the message does not take, such as a null, ends the run.

        Behind a registry the id is 0, and whoever writes the topic puts the schema's own in its place.
        """
        return by_workers("Protobuf", partial(encoder, self.type, self._prefix()))(value)

    def encoded(self, value: Mapping[str, Any]) -> bytes:
        """A mapping of the columns as bytes; fields that are left out have their default."""
        unknown = sorted(value.keys() - {one.name for one in self.fields})
        if unknown:
            raise KeyError(f"{', '.join(unknown)}: no field of {self.type.short}")
        return encoder(self.type, self._prefix(TEST_ID))(value)

    def describe(self) -> str:
        """The format with its columns, and a digest of the message."""
        columns = ", ".join(f"{one.name} {one.member.declared}" for one in self.fields)
        digest = hashlib.sha256(repr(self.type).encode()).hexdigest()[:8]
        return f"{self._word()}({columns}; message {self.type.name} {digest})"

    @abstractmethod
    def _prefix(self, number: int = 0) -> bytes:
        """What stands before a record, with a schema's id where there is one."""

    @abstractmethod
    def _word(self) -> str:
        """The format's name, as `describe` says it."""


@dataclass(frozen=True)
class Protobuf(ProtobufFormat):
    """A message of Protobuf by a declared schema, without anything before it.

    The message's fields are the columns. Fields that are not declared are passed over. Anything else that is not one record
    of the message is an error: truncated, a field of another wire type, a number beyond its type, invalid UTF-8, a required
    field that is missing, a time beyond the years 1 to 9999 or finer than microseconds.

    Args:
        schema: the text of a .proto file, proto3 or proto2.
        message: the message that records are, with or without its package; None for the only one of the file.
        imports: what the file imports, by the name of the import.

    Raises:
        InvalidFormat: if it is no schema, has no such message, or a table has no column for one of its fields.
        LocalPartsMissing: if protobuf or grpcio-tools, which read the schema, are not installed.
    """

    def decode(self, raw: Any) -> Decoded:
        """Reads each record by the declared message."""
        from lakestreams.formats.decoding import one_by_one  # noqa: PLC0415 - declaring needs no Arrow

        def exactly(some: Any, _places: Any) -> Decoded:
            return one_by_one(self.fields, partial(_read, reader(self.type)), some)

        return blocks(self.type).decode(raw, exactly)

    def _prefix(self, number: int = 0) -> bytes:
        del number
        return b""

    def _word(self) -> str:
        return "protobuf"


@dataclass(frozen=True)
class RegistryProtobuf(ProtobufFormat):
    """Protobuf whose records name their schema in a registry, and the message's place in it.

    Both stand before the record, behind a zero byte, or in a header. The message must have the declared one's name, without its package. The record is read by the declared message.

    Args:
        schema: the text of a .proto file, proto3 or proto2.
        message: the message that records are, with or without its package; None for the only one of the file.
        imports: what the file imports, by the name of the import.
        subject: under which an output's schema is registered; by default the topic's name with `-key` or `-value`.
        register: whether a run registers an output's schema; else the subject must have it.

    Raises:
        InvalidFormat: as `Protobuf`.
        LocalPartsMissing: as `Protobuf`.
    """

    subject: str | None = field(default=None, kw_only=True)
    register: bool = field(default=False, kw_only=True)
    _known: tuple[tuple[SchemaName, Any], ...] = field(default=(), init=False, compare=False, repr=False)
    _strict: bool = field(default=False, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """As for every Protobuf; in its own schema the message has its place."""
        super().__post_init__()
        object.__setattr__(self, "_own", compile_texts(self._texts).names)

    @property
    def registered(self) -> Written:
        """The schema that outputs write by, and what it imports."""
        return Written(PROTOBUF, self._texts)

    def knowing(self, known: Mapping[SchemaName, Texts | str | None], *, strict: bool) -> Self:
        """The same format with what is known of the writers' schemas, as `RegistryFormat` says it.

        They are compiled here, not by workers.
        """
        return knowing(self, {name: _names(one) for name, one in known.items()}, strict=strict)

    def decode(self, raw: Any, heads: Heads | None = None) -> Decoded:
        """Takes off what names the schemas, then reads each record by the declared message.

        Args:
            raw: an array of bytes.
            heads: the headers that name the schemas, if one has such a header.

        Raises:
            UnknownIds: if the format is strict, and a record names a schema that it does not know.
        """
        from lakestreams.formats.decoding import one_by_one  # noqa: PLC0415 - declaring needs no Arrow
        from lakestreams.formats.framing import frames  # noqa: PLC0415 - as above

        known: dict[SchemaName, Any] = dict(self._known)
        if not known and not self._strict:
            known[TEST_ID] = self._own  # type: ignore[attr-defined]
        found = frames(raw, known, PROTOBUF, strict=self._strict, heads=heads, behind=_behind)
        tables = [dict(one) if isinstance(one := known.get(name), tuple) else {} for name in found.names]
        read = reader(self.type)

        def exactly(some: Any, places: Any) -> Decoded:
            schemas = iter([number for place in places if (number := int(found.which[place])) >= 0])

            def behind(body: bytes) -> Row:
                number = next(schemas)
                try:
                    at = _placed(body, found.names[number], tables[number], self.type)
                except Bad as error:
                    return None, error.said
                return _read(read, body[at:])

            return one_by_one(self.fields, behind, some)

        first = [number for number, names in enumerate(tables) if _is_first(names, self.type)]
        return found.with_errors(blocks(self.type).decode(found.bodies, exactly, _behind_zero(found, first)))

    def _prefix(self, number: int = 0) -> bytes:
        own: dict[str, tuple[int, ...]] = {name: path for path, name in self._own}  # type: ignore[attr-defined]
        path = own[self.type.name]
        indexes = b"\0" if path == (0,) else b"".join(varint(one << 1) for one in (len(path), *path))
        return prefix_of(number) + indexes

    def _word(self) -> str:
        return "registry_protobuf" if self.subject is None else f"registry_protobuf of {self.subject}"


@lru_cache(maxsize=256)
def _names(texts: Texts | str | None) -> tuple[tuple[tuple[int, ...], str], ...] | str | None:
    """A writer's messages, or what is wrong with its schema: one that a registry took harms its own records alone.

    Both are kept. Else the compiler would run for each batch because of one schema that it refuses.
    """
    if texts is None:
        return None
    try:
        return unusable(texts) if isinstance(texts, str) else compile_texts(texts).names
    except InvalidFormat as error:
        return unusable(error.message)


def places_of(raw: Sequence[tuple[SchemaName, bytes]], names: Mapping[SchemaName, Names]) -> Iterator[str | None]:
    """The message that each record says it is; None where it says none.

    Args:
        raw: the schema of each record, with what stands behind its name: the place of the message first.
        names: the messages of writers' schemas.
    """
    for schema, behind in raw:
        try:
            path, _ = _indexes(behind)
        except Bad:
            yield None
        else:
            yield names.get(schema, {}).get(path)


def _placed(body: bytes, name: SchemaName, names: Names, declared: Message) -> int:
    """Where the record begins, behind the place of its message, which must have the declared name."""
    try:
        path, at = _indexes(body)
    except Bad as error:
        raise Bad(f"no place of a message behind the registry's prefix: {error.reason}") from None
    message = names.get(path)
    if message is None:
        raise Bad(f"schema {name} has no message in the place {list(path)}")
    if message.rpartition(".")[2] != declared.short:
        raise Bad(
            f"schema {name} cannot be read as declared: written as message {message}, declared message {declared.name}"
        )
    return at


def _behind(raw: bytes) -> str | None:
    """What is wrong with what stands behind a schema's name in a header, which must be the place of a message."""
    try:
        _, at = _indexes(raw)
    except Bad as error:
        return f"no place of a message behind the schema: {error.reason}"
    return f"{len(raw) - at} bytes behind the place of the message" if at < len(raw) else None


def _is_first(names: Names, declared: Message) -> bool:
    """Whether the declared message is the first one of a writer's schema."""
    return names.get((0,), "").rpartition(".")[2] == declared.short


def _behind_zero(read: Frames, first: Sequence[int]) -> Any:
    """Where records begin whose message is the first one of its schema, which one zero says; -1 for all others."""
    import numpy as np  # noqa: PLC0415 - declaring needs no NumPy

    from lakestreams.formats.protobuf.spans import contiguous  # noqa: PLC0415 - as above

    data, start, end = contiguous(read.bodies)
    return np.where(np.isin(read.which, first) & (end > start) & (data[start] == 0), 1, -1)


def _indexes(body: bytes) -> tuple[tuple[int, ...], int]:
    """The place of a message: how many numbers, then those; 0 for the first message. All in zigzag."""
    count, at = number_at(body, 0, len(body))
    count = (count >> 1) ^ -(count & 1)
    if count == 0:
        return (0,), at
    if not 0 < count <= _MOST_INDEXES:
        raise Bad(f"{count} numbers")
    path = []
    for _ in range(count):
        one, at = number_at(body, at, len(body))
        path.append((one >> 1) ^ -(one & 1))
    return tuple(path), at


def _read(one: Reader, raw: bytes) -> Row:
    try:
        return one.read(raw), None
    except Bad as error:
        return None, error.said


@lru_cache(maxsize=64)
def reader(message: Message) -> Reader:
    """What reads records; in a Python worker of Spark it is made once for many batches."""
    return Reader(message)


@lru_cache(maxsize=64)
def blocks(message: Message) -> Blocks:
    """What reads many records at once; made once, too."""
    from lakestreams.formats.protobuf.blocks import Blocks  # noqa: PLC0415 - declaring needs no Arrow

    return Blocks(message, fields_of(message))


@lru_cache(maxsize=64)
def encoder(message: Message, prefix: bytes) -> Callable[[Any], bytes]:
    """What writes rows of the columns."""
    write = writer_of(message)
    return lambda row: prefix + write(row)


__all__ = ["Protobuf", "ProtobufFormat", "RegistryProtobuf", "places_of"]
