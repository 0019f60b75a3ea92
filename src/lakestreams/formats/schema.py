"""The declared schema of a format: Spark DDL with the units of numbers that are times, read without a Spark session."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import sqlglot
from sqlglot import expressions as exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import TokenType

from lakestreams.errors import InvalidFormat
from lakestreams.formats.base import Field
from lakestreams.formats.kinds import BASE64, UNITS, Array, Kind, Leaf, Map, Member, Struct
from lakestreams.formats.places import RESERVED_PREFIX
from lakestreams.nesting import MOST_LEVELS, with_stack

if TYPE_CHECKING:
    from sqlglot.dialects.dialect import Dialect

_SPARK_TYPES = {"int", "bigint", "smallint", "tinyint", "float", "double", "string", "boolean", "date", "timestamp",
                "timestamp_ntz", "decimal", "binary", "array", "map", "struct"}  # fmt: skip
_MAX_PRECISION = 38
_SHOWN = 60
_IN_QUOTES = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|\"(?:[^\"\\]|\\.)*\"")
_NO_NUMBERS = re.compile(r"\((?!\s*\d+\s*(?:,\s*\d+\s*)?\))")
"""A round bracket of anything but numbers. Of types in round brackets each level takes the parser twice the time."""
# Types of sqlglot that Spark lacks stand for ours: its parser takes no name for a type that it does not know.
_STAND_INS: Final = {
    "TIMESTAMP_S": TokenType.TIMESTAMP_S,
    "TIMESTAMP_MS": TokenType.TIMESTAMP_MS,
    "TIMESTAMP_US": TokenType.TIMESTAMP_NS,
    "DATE_DAYS": TokenType.DATE32,
    "DECIMAL_BASE64": TokenType.DECIMAL256,
}
_OURS: Final = {token.name: word.lower() for word, token in _STAND_INS.items()}


class _Ddl(Spark):
    """Spark's DDL, with the types of `UNITS` on top."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's words and ours."""

        KEYWORDS: ClassVar[dict[str, TokenType]] = {**Spark.Tokenizer.KEYWORDS, **_STAND_INS}


def parse_ddl(ddl: str) -> tuple[Field, ...]:
    """Reads a Spark DDL column list without a Spark session.

    Args:
        ddl: such as `ms int, page string, tags array<string>, at timestamp_ms`.

    Raises:
        InvalidFormat: if it is no column list, names a column twice, or has no column.
    """
    dialect: type[Dialect] = _Ddl
    if _NO_NUMBERS.search(_IN_QUOTES.sub("``", ddl)):
        msg = f"the schema {ddl[:_SHOWN]!r} has something else than numbers in round brackets"
        raise InvalidFormat(msg, hint="write decimal(10, 2), but array<int> and struct<a: int>")
    try:
        statements = with_stack(lambda: sqlglot.parse(f"CREATE TABLE t ({ddl})", dialect=dialect))
    except sqlglot.errors.SqlglotError as error:
        msg = f"the schema {ddl!r} cannot be read: {str(error).splitlines()[0]}"
        raise InvalidFormat(msg) from None
    except RecursionError:
        raise _too_deep(ddl) from None
    create = statements[0] if len(statements) == 1 else None
    schema = create.this if isinstance(create, exp.Create) else None
    if not isinstance(schema, exp.Schema) or not schema.expressions:
        msg = f"the schema {ddl!r} is not a list of `name type` columns"
        raise InvalidFormat(msg)
    return tuple(
        Field(member.name, member.kind.spark, member.kind, required=member.required)
        for member in _members(schema.expressions, ddl, 1)
    )


def _too_deep(ddl: str) -> InvalidFormat:
    msg = f"the schema {ddl[:_SHOWN]!r}... nests deeper than {MOST_LEVELS} levels"
    return InvalidFormat(msg, hint="declare what lies so deep as string: it is read as JSON text")


def _members(columns: Sequence[exp.Expression], ddl: str, level: int) -> tuple[Member, ...]:
    members = []
    for column in columns:
        if not isinstance(column, exp.ColumnDef) or not isinstance(column.kind, exp.DataType):
            msg = f"the schema {ddl!r} is not a list of `name type` columns"
            raise InvalidFormat(msg)
        kinds = [constraint.kind for constraint in column.constraints]
        if not all(isinstance(kind, exp.NotNullColumnConstraint | exp.CommentColumnConstraint) for kind in kinds):
            msg = f"the schema {ddl!r} says more of {column.name!r} than its type"
            raise InvalidFormat(msg)
        if column.name.lower().startswith(RESERVED_PREFIX):
            msg = f"the schema {ddl!r} names {column.name!r}; names that begin with {RESERVED_PREFIX} are taken"
            raise InvalidFormat(msg, hint="choose another column name")
        required = any(
            isinstance(kind, exp.NotNullColumnConstraint) and not kind.args.get("allow_null") for kind in kinds
        )
        kind = _kind(column.kind, ddl, level)
        Field(column.name, kind.spark)  # refuses names that tables cannot carry
        members.append(Member(column.name, column.name, kind, required=required))
    names = [member.name.lower() for member in members]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        msg = f"the schema {ddl!r} names {', '.join(doubled)} twice"
        raise InvalidFormat(msg, hint="name each column once (Spark does not tell capitals apart)")
    return tuple(members)


def _kind(kind: exp.DataType, ddl: str, level: int) -> Kind:
    """The type; names inside structs keep their capitals, since JSON tells them apart."""
    if level > MOST_LEVELS:
        raise _too_deep(ddl)
    inner = kind.expressions
    if kind.this == exp.DataType.Type.STRUCT and inner:
        return Struct(_members(inner, ddl, level + 1))
    if kind.this == exp.DataType.Type.ARRAY and len(inner) == 1:
        return Array(_kind(inner[0], ddl, level + 1))
    if kind.this == exp.DataType.Type.MAP and len(inner) == 2:
        if _kind(inner[0], ddl, level + 1).spark != "string":
            msg = f"the schema {ddl!r} has a map whose keys are no strings"
            raise InvalidFormat(msg, hint="the names of a JSON object are strings: map<string, ...>")
        return Map(_kind(inner[1], ddl, level + 1))
    ours = _OURS.get(str(getattr(kind.this, "name", "")))
    if ours in UNITS and not inner:
        return Leaf(UNITS[ours], ours)
    text: str = kind.sql(dialect="spark").lower()
    head, _, arguments = text.partition("(")
    if ours == BASE64 and arguments:
        head, text = "decimal", f"decimal({arguments}"
    known = head in _SPARK_TYPES and head not in {"array", "map", "struct"} and "<" not in text
    if known and arguments:
        numbers = [int(number) for number in arguments.rstrip(")").split(",") if number.strip().isdigit()]
        precision, scale = (*numbers, 0, 0)[:2]
        known = head == "decimal" and 0 < precision <= _MAX_PRECISION and scale <= precision
    if not known:
        msg = f"the schema {ddl!r} has the unknown type {text!r}"
        raise InvalidFormat(msg, hint=f"one of {', '.join(sorted(_SPARK_TYPES | {*UNITS, BASE64}))}")
    return Leaf(text, text.replace("decimal", BASE64) if ours == BASE64 else text)


__all__ = ["parse_ddl"]
