"""JSON objects with a declared schema, bare or behind a schema registry's five-byte prefix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import sqlglot
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from sqlglot import expressions as exp

from lakestreams.errors import InvalidFormat
from lakestreams.formats.base import Field, Parsed

if TYPE_CHECKING:
    from pyspark.sql import Column

_CORRUPT = "_ls_corrupt"
_PREFIX_BYTES = 5
# Single quotes and Java-style comments are not JSON; Spark accepts the former by default.
_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "allowSingleQuotes": "false"}
_SPARK_TYPES = {"int", "integer", "bigint", "long", "smallint", "short", "tinyint", "byte", "float", "real", "double",
                "string", "boolean", "date", "timestamp", "timestamp_ntz", "decimal", "dec", "numeric", "binary",
                "array", "map", "struct"}  # fmt: skip


def parse_ddl(ddl: str) -> tuple[Field, ...]:
    """Reads a Spark DDL column list without a Spark session.

    Args:
        ddl: such as `ms int, page string, tags array<string>`.

    Raises:
        InvalidFormat: if it is no column list, names a column twice, or has no column.
    """
    try:
        table = sqlglot.parse_one(f"CREATE TABLE t ({ddl})", dialect="spark")
    except sqlglot.errors.ParseError as error:
        msg = f"the schema {ddl!r} cannot be read: {error.errors[0].get('description', 'syntax error')}"
        raise InvalidFormat(msg) from None
    schema = table.find(exp.Schema)
    columns = schema.expressions if schema is not None else []
    if not columns or not all(isinstance(column, exp.ColumnDef) and column.kind for column in columns):
        msg = f"the schema {ddl!r} is not a list of `name type` columns"
        raise InvalidFormat(msg)
    fields = tuple(Field(column.name, _spark_type(column.kind, ddl)) for column in columns)
    names = [field.name.lower() for field in fields]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        msg = f"the schema {ddl!r} names {', '.join(doubled)} twice"
        raise InvalidFormat(msg, hint="name each column once (Spark does not tell capitals apart)")
    return fields


def _spark_type(kind: exp.DataType, ddl: str) -> str:
    text: str = kind.sql(dialect="spark").lower()
    head = text.split("<", maxsplit=1)[0].split("(", maxsplit=1)[0].strip()
    if head not in _SPARK_TYPES:
        msg = f"the schema {ddl!r} has the unknown type {text!r}"
        raise InvalidFormat(msg, hint=f"one of {', '.join(sorted(_SPARK_TYPES))}")
    return text


@dataclass(frozen=True)
class Json:
    """A JSON object read by a declared schema.

    Fields that the object lacks are null; fields that the schema lacks are not read (the raw bytes stay in bronze).
    An error is anything that is not one complete JSON object of the declared types: broken or truncated JSON, text
    after the object, an array or number as root, a value of another type, invalid UTF-8, nesting beyond Jackson's
    limits.

    Args:
        schema: Spark DDL, such as `ms bigint, page string`.
    """

    schema: str

    def __post_init__(self) -> None:
        """Reads the schema once, so that a wrong one is refused where it is written."""
        object.__setattr__(self, "_fields", parse_ddl(self.schema))

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns of the schema."""
        fields: tuple[Field, ...] = self._fields  # type: ignore[attr-defined]
        return fields

    @property
    def nullable_fields(self) -> bool:
        """A JSON field may be null or missing."""
        return True

    def parse(self, raw: Column) -> Parsed:
        """One from_json per record; a second look only at objects that came out all null."""
        text = raw.cast("string")
        ddl = ", ".join(f"`{field.name}` {field.type}" for field in self.fields) + f", `{_CORRUPT}` string"
        read = F.from_json(text, ddl, _OPTIONS)
        every_field_null = reduce(and_, (read[field.name].isNull() for field in self.fields))
        trimmed = F.trim(text)
        message = (
            F.when(~F.is_valid_utf8(text), F.lit("not valid UTF-8"))
            .when(~(trimmed.startswith("{") & trimmed.endswith("}")), F.lit("not a JSON object"))
            .when(read.isNull() | read[_CORRUPT].isNotNull(), F.lit(f"does not fit {self.schema}"))
            # nesting or numbers beyond Jackson's limits null every field without a word: ask a second parser
            .when(every_field_null & F.json_object_keys(text).isNull(), F.lit("JSON beyond the parser's limits"))
        )
        error = F.when(raw.isNotNull(), message)
        typed = F.struct(*(read[field.name].alias(field.name) for field in self.fields))
        return Parsed(value=F.when(raw.isNotNull() & error.isNull(), typed), error=error)

    def describe(self) -> str:
        """The format with its columns."""
        return f"json({', '.join(f'{field.name} {field.type}' for field in self.fields)})"


@dataclass(frozen=True)
class RegistryJson:
    """A JSON object behind the prefix that schema registries define: a zero byte and a four-byte schema id.

    The id is not looked up: the declared schema decides what is read, as with `Json`.

    Args:
        schema: Spark DDL, such as `ms bigint, page string`.
    """

    schema: str

    def __post_init__(self) -> None:
        """Reads the schema once."""
        object.__setattr__(self, "_json", Json(self.schema))

    @property
    def _inner(self) -> Json:
        inner: Json = self._json  # type: ignore[attr-defined]
        return inner

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns of the schema."""
        return self._inner.fields

    @property
    def nullable_fields(self) -> bool:
        """A JSON field may be null or missing."""
        return True

    def parse(self, raw: Column) -> Parsed:
        """Checks the prefix, then reads what is behind it."""
        framed = (F.octet_length(raw) > _PREFIX_BYTES) & (F.hex(F.substring(raw, 1, 1)) == "00")
        body = F.when(framed, F.substring(raw, _PREFIX_BYTES + 1, 2_147_483_647))
        inner = self._inner.parse(body)
        unframed = F.when(raw.isNotNull() & ~framed, F.lit("no registry prefix (0x00 and four bytes) before the JSON"))
        return Parsed(value=inner.value, error=F.coalesce(unframed, inner.error))

    def describe(self) -> str:
        """The format with its columns."""
        return f"registry_{self._inner.describe()}"
