"""JSON whose records name a JSON Schema of a registry, as Confluent's serializers of JSON Schema write it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from lakestreams.errors import InvalidFormat
from lakestreams.formats.base import require_text
from lakestreams.formats.encoding import unwritable
from lakestreams.formats.json import Declared, decoder, objects_of, write_object
from lakestreams.formats.json_schema.columns import fields_of, is_schema, nulls_of, parsed, schema_of
from lakestreams.formats.places import Fields, Places, paths_of
from lakestreams.formats.schema import parse_ddl
from lakestreams.formats.writers import JSON, PREFIX, TEST_ID, SchemaName, Texts, Written, knowing, unusable
from lakestreams.spark import F

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.formats.decoding import Decoded
    from lakestreams.formats.headers import Heads
    from lakestreams.formats.objects import Objects


@dataclass(frozen=True, init=False)
class JsonSchema(Declared):
    """A JSON object that names a JSON Schema of a registry, in the prefix that registries define or in a header.

    The object is read by the declared columns and the rules of `Json`, whoever wrote it. What its writer's schema says
    beyond that is not checked.

    Args:
        schema: the columns as Spark DDL, such as `id bigint, note string`; or a JSON Schema of an object.
        fields: column to the name of its JSON field, where that is another one, as for `Json`. Behind a JSON Schema a
            field of the object itself.
        subject: under which an output's schema is registered; by default the topic's name with `-key` or `-value`.
        register: whether a run registers an output's schema; else the subject must have it.

    Raises:
        InvalidFormat: if it is no such schema, or a table has no column for a part of it.
    """

    subject: str | None
    register: bool
    _known: tuple[tuple[SchemaName, bool | str], ...] = field(default=(), init=False, compare=False, repr=False)
    _strict: bool = field(default=False, init=False, compare=False, repr=False)

    def __init__(
        self, schema: str, fields: Fields | None = None, *, subject: str | None = None, register: bool = False
    ) -> None:
        """Reads the schema once, so that a wrong one is refused where it is written."""
        require_text(schema)
        named = paths_of(fields)
        for name, given in (("schema", schema), ("named", named), ("subject", subject), ("register", register)):
            object.__setattr__(self, name, given)
        if is_schema(schema):
            deep = [column for column, path in named if len(path) > 1]
            if deep:
                msg = f"fields: {', '.join(deep)}: a JSON Schema says itself what is inside of objects"
                raise InvalidFormat(msg, hint="name a property of the object itself")
            found = fields_of(schema, {path[0]: column for column, path in named})
        else:
            found = parse_ddl(schema)
        object.__setattr__(self, "_places", Places.of(found, named))

    @property
    def registered(self) -> Written:
        """The schema that outputs write by: the given one, or one that says the columns."""
        if is_schema(self.schema):
            return Written(JSON, (self.schema,))
        members = [(path, one.member) for path, one in zip(self.places.paths, self.places.fields, strict=True)]
        return Written(JSON, (schema_of(members),))

    def knowing(self, known: Mapping[SchemaName, Texts | str | None], *, strict: bool) -> Self:
        """The same format with what is known of the writers' schemas, as `RegistryFormat` says it."""
        told = {name: unusable(one) if isinstance(one, str) else one is not None for name, one in known.items()}
        return knowing(self, told, strict=strict)

    def decode(self, raw: Any, heads: Heads | None = None) -> Decoded:
        """Takes off what names the schemas, then reads the objects.

        Args:
            raw: an array of bytes.
            heads: the headers that name the schemas, if one has such a header.

        Raises:
            UnknownIds: if the format is strict, and a record names a schema that it does not know.
        """
        from lakestreams.formats.framing import frames  # noqa: PLC0415 - declaring needs no Arrow

        known: dict[SchemaName, bool | str | None] = {name: one or None for name, one in self._known}
        if not known and not self._strict:
            known[TEST_ID] = True
        found = frames(raw, known, JSON, strict=self._strict, heads=heads)
        return found.with_errors(decoder(self)(found.bodies))

    def objects(self) -> Objects:
        """What reads single records, behind the prefix."""
        return objects_of(self.places, self.columns if is_schema(self.schema) else self.schema)

    def write(self, value: Column) -> Column:
        """The struct as one object behind a prefix. A null in a column that is `not null` ends the run.

        The id is 0, and whoever writes the topic puts the schema's own in its place.

        Raises:
            InvalidFormat: for a type that is only read, and for a JSON Schema that has properties of both kinds: some
                that must be there and may be null, others that may be missing and must not be null.
        """
        self.require_writable()
        nulls = nulls_of(self.schema) if is_schema(self.schema) else True
        if nulls is None:
            msg = f"{self.describe()} is read only: some nulls would have to be written, and others left out"
            raise InvalidFormat(msg, hint="let every property that may be missing be null, too")
        raw = F.concat(F.lit(bytearray(PREFIX)), write_object(self.places.written(value), nulls=nulls))
        for one in (one.name for one in self.fields if one.required):
            wrong = unwritable(f"json_schema: {one}: null, but declared not null").cast("binary")
            raw = F.when(value.isNotNull() & value[one].isNull(), wrong).otherwise(raw)
        return raw

    def describe(self) -> str:
        """The format with its columns, and a digest of the JSON Schema if there is one."""
        word = "json_schema" if self.subject is None else f"json_schema of {self.subject}"
        return f"{word}({self.columns}{_digest(self.schema) if is_schema(self.schema) else ''})"


def _digest(text: str) -> str:
    return "; schema " + hashlib.sha256(json.dumps(parsed(text)).encode()).hexdigest()[:8]


__all__ = ["JsonSchema"]
