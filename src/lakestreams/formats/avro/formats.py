"""Avro as formats of sources and outputs: bare, and by the schemas of a registry that records name."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from lakestreams.errors import InvalidFormat
from lakestreams.formats.avro.columns import fields_of, inner
from lakestreams.formats.avro.schema import Record, Type, parse
from lakestreams.formats.base import Field, require_text
from lakestreams.formats.encoding import by_workers
from lakestreams.formats.writers import AVRO, TEST_ID, UNKNOWN_IDS, SchemaName, Texts, Written, knowing, prefix_of

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.formats.avro.decode import Decoder
    from lakestreams.formats.decoding import Decoded
    from lakestreams.formats.headers import Heads

Known: TypeAlias = "tuple[tuple[SchemaName | None, Texts | str | None], ...]"
"""Schemas by their names; None for one that the registry does not know, a text for why it cannot be had. Under no name
stands that of bytes without a prefix."""


@dataclass(frozen=True)
class AvroFormat(ABC):
    """What formats of Avro have in common.

    Attributes:
        schema: the declared schema as JSON.
        column: what the column of a schema that is no record is called.
    """

    schema: str
    column: str = "value"

    def __post_init__(self) -> None:
        """Reads the schema once, so that a wrong one is refused where it is written."""
        require_text(self.schema)
        object.__setattr__(self, "_type", parse(self.schema))
        object.__setattr__(self, "_fields", fields_of(self.type, self.column))

    @property
    def type(self) -> Type:
        """The declared schema."""
        found: Type = self._type  # type: ignore[attr-defined]
        return found

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns of the schema."""
        found: tuple[Field, ...] = self._fields  # type: ignore[attr-defined]
        return found

    def decode(self, raw: Any, heads: Heads | None = None) -> Decoded:
        """Decodes the records of a batch in parallel, by their writers' schemas.

        Args:
            raw: an array of bytes.
            heads: the headers that name the schemas, if one has such a header.

        Raises:
            UnknownIds: if the format is strict, and a record names a schema that it does not know.
        """
        return decoder(self.schema, self.column, self._written(), self._is_strict()).decode(raw, heads)

    def write(self, value: Column) -> Column:
        """The struct by the declared schema. A value that it does not take, such as a null, ends the run.

        Behind a registry the id is 0, and whoever writes the topic puts the schema's own in its place.
        """
        return by_workers("Avro", partial(encoder, self.schema, self.column, self._prefix()))(value)

    def describe(self) -> str:
        """The format with its columns, and a digest of the schema's text, defaults included."""
        columns = ", ".join(f"{one.name} {one.member.declared}" for one in self.fields)
        return f"{self._word()}({columns}; schema {_digest(*self._decisive())})"

    def encoded(self, value: Any) -> bytes:
        """A value as bytes: a mapping of the columns; of the one column of a schema that is no record its value alone."""
        is_row = isinstance(value, Mapping) and value.keys() == {one.name for one in self.fields}
        row = value if is_row or isinstance(inner(self.type), Record) else {self.column: value}
        return encoder(self.schema, self.column, self._prefix(TEST_ID))(row)

    @abstractmethod
    def _written(self) -> Known:
        """The writers' schemas."""

    def _decisive(self) -> tuple[str | None, ...]:
        """The texts that decide what bytes mean."""
        return (self.schema,)

    def _is_strict(self) -> bool:
        return False

    @abstractmethod
    def _prefix(self, number: int = 0) -> bytes:
        """What stands before a value, with a schema's id where there is one."""

    @abstractmethod
    def _word(self) -> str:
        """The format's name, as `describe` says it."""


@dataclass(frozen=True)
class Avro(AvroFormat):
    """Avro's binary encoding by a declared schema, without anything before it.

    A record's fields are the columns; of any other schema the value is the one column. Anything that is not one value of
    the schema is an error: truncated, more bytes behind it, a symbol or branch that there is not, invalid UTF-8, a decimal
    of more digits, a time beyond the years 1 to 9999.

    Args:
        schema: the schema as JSON; bytes are read and written by it.
        column: what the column of a schema that is no record is called.
        written_by: the schema that wrote the bytes, if that is another one.

    Raises:
        InvalidFormat: if it is no schema, or a table has no column for one of its types.
    """

    written_by: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """As for every Avro, with the other schema."""
        super().__post_init__()
        if self.written_by is not None:
            require_text(self.written_by)
            parse(self.written_by)

    def _written(self) -> Known:
        return ((None, (self.written_by or self.schema,)),)

    def _decisive(self) -> tuple[str | None, ...]:
        return (self.schema, self.written_by)

    def _prefix(self, number: int = 0) -> bytes:
        del number
        return b""

    def _word(self) -> str:
        return "avro"


@dataclass(frozen=True)
class RegistryAvro(AvroFormat):
    """Avro whose records name the schema that wrote them, as schema registries define it.

    Before the record stand a zero byte and the schema's four-byte id; or a header says the id or the GUID.
    Each record is read by its own writer's schema and resolved to the declared one, by the rules of Avro's specification.

    Args:
        schema: the schema that records are read as, as JSON.
        column: what the column of a schema that is no record is called.
        subject: under which an output's schema is registered; by default the topic's name with `-key` or `-value`.
        register: whether a run registers an output's schema; else the subject must have it.
    """

    subject: str | None = field(default=None, kw_only=True)
    register: bool = field(default=False, kw_only=True)
    _known: Known = field(default=(), init=False, compare=False, repr=False)
    _strict: bool = field(default=False, init=False, compare=False, repr=False)

    @property
    def registered(self) -> Written:
        """The schema that outputs write by."""
        return Written(AVRO, (self.schema,))

    def knowing(self, known: Mapping[SchemaName, Texts | str | None], *, strict: bool) -> Self:
        """The same format with what is known of the writers' schemas, as `RegistryFormat` says it."""
        return knowing(self, known, strict=strict)

    def _written(self) -> Known:
        return self._known if self._known or self._strict else ((TEST_ID, (self.schema,)),)

    def _is_strict(self) -> bool:
        return self._strict

    def _prefix(self, number: int = 0) -> bytes:
        return prefix_of(number)

    def _word(self) -> str:
        return "registry_avro" if self.subject is None else f"registry_avro of {self.subject}"


def _digest(*texts: str | None) -> str:
    plain = [json.loads(text) if text and text.lstrip()[:1] in ("{", "[", '"') else text for text in texts]
    return hashlib.sha256(json.dumps(plain, sort_keys=False).encode()).hexdigest()[:8]


@lru_cache(maxsize=64)
def decoder(schema: str, column: str, written: Known, strict: bool) -> Decoder:
    """What reads by these schemas; in a Python worker of Spark it is made once for many batches."""
    from lakestreams.formats.avro.decode import Decoder  # noqa: PLC0415 - declaring needs neither numpy nor Arrow

    return Decoder(parse(schema), column, {name: _parsed(texts) for name, texts in written}, strict=strict)


def _parsed(texts: Texts | str | None) -> Type | str | None:
    """A writer's schema, or what is wrong with it: one that a registry took harms its own records alone."""
    if texts is None or isinstance(texts, str):
        return texts
    try:
        return parse(texts[-1], texts[:-1])
    except InvalidFormat as error:
        return error.message


@lru_cache(maxsize=64)
def encoder(schema: str, column: str, prefix: bytes) -> Callable[[Any], bytes]:
    """What writes values of the columns by a schema."""
    from lakestreams.formats.avro.encode import writer_of  # noqa: PLC0415 - as above

    kind = parse(schema)
    write, whole = writer_of(kind), isinstance(inner(kind), Record)

    def encoded(value: Any) -> bytes:
        out = bytearray(prefix)
        write(value if whole else value[column], out)
        return bytes(out)

    return encoded


__all__ = ["UNKNOWN_IDS", "Avro", "AvroFormat", "Known", "RegistryAvro", "Texts", "decoder", "encoder"]
