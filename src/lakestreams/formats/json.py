"""JSON objects with a declared schema, bare or behind a schema registry's five-byte prefix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestreams.errors import InvalidFormat
from lakestreams.formats.base import Field, Parsed
from lakestreams.formats.exact import exactly
from lakestreams.formats.kinds import BASE64, UNITS
from lakestreams.formats.numbers import as_written
from lakestreams.formats.places import Fields, Path, Places, paths_of
from lakestreams.formats.schema import parse_ddl
from lakestreams.spark import F

if TYPE_CHECKING:
    from pyspark.sql import Column

_ALL, _RECORD, _END, _CORRUPT = "_ls_all", "_ls_record", "_ls_end", "_ls_corrupt"
_PLAIN, _LISTED = "_ls_plain", "_ls_listed"
_PREFIX_BYTES = 5
_WHITE = " \t\r\n"
# Single quotes and NaN are not JSON; Spark accepts both by default.
_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
# Nulls are written, times in UTC and to the microsecond: equal values are equal bytes, whatever the session's settings.
_WRITTEN = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_BYTE_ORDER_MARK = "\ufeff"
_NOT_UTF8 = "not valid UTF-8"
_PREFIXED = "begins with a schema registry's prefix (Confluent's wire format: 0x00 and a 4-byte id)"
_PREFIXED_JSON = f"{_PREFIXED}; RegistryJson reads a JSON object behind one"
_PREFIXED_OTHER = f"{_PREFIXED}, and what follows is no JSON object; Avro and Protobuf are not read"
_WRAPPER = ("payload", "schema")
_WRAPPED = "in Connect's wrapper (schema and payload), in which no declared column is; ConnectJson reads it"


def read_object(raw: Column, kind: str, named: str | None = None) -> Column:
    """One from_json a record, for `the_object` and `object_error`.

    The text is read as the only element of a list with a mark behind it: from_json stops after one value and does
    not say whether anything follows, and some faults null a whole row without a word; both lose the mark. List and mark
    are all that a map holds: text that closes the list and opens another one is seen by its size.

    Args:
        raw: the binary column.
        kind: the Spark SQL type of the object, a struct.
        named: the same type with the names that the object's fields are to have, if they are others.
    """
    text = F.concat(F.lit(f'{{"{_ALL}":{{"{_RECORD}":['), raw.cast("string"), F.lit(f'],"{_END}":[]}}}}'))
    found = F.from_json(text, f"`{_ALL}` map<string, array<{kind}>>, `{_CORRUPT}` string", _OPTIONS)
    if named is None or named == kind:
        return found
    return found.cast(f"struct<`{_ALL}`: map<string, array<{named}>>, `{_CORRUPT}`: string>")


def _is_flat(raw: Column) -> Column:
    """Whether bytes begin with a brace and end with the only closing one.

    Then there is nothing behind the object, which is all that from_json would not tell of it: it stops at that brace, or
    says that it has not found it. Wrapping it as `read_object` does costs as much again.
    """
    text = raw.cast("string")
    inner = F.substring(raw, F.lit(1), F.octet_length(raw) - 1).cast("string")  # of bytes: of text it counts characters
    return text.startswith("{") & text.endswith("}") & ~F.contains(inner, F.lit("}"))


def the_object(read: Column) -> Column:
    """The object that `read_object` found; what it holds counts only where `object_error` is null."""
    return F.get(read[_ALL][_RECORD], F.lit(0))


def object_error(raw: Column, read: Column, unfit: str) -> Column:
    """What keeps bytes from being one object; null where nothing does, and where the bytes are null.

    Args:
        raw: the binary column.
        read: the column that holds `read_object`.
        unfit: the message for an object that is broken or not of the type it was read as.
    """
    text = raw.cast("string")
    found = read[_ALL]
    whole = (F.size(found) == 2) & found[_END].isNotNull() & (F.size(found[_RECORD]) == 1)
    complete = whole & read[_CORRUPT].isNull()
    bad = ~F.coalesce(complete & the_object(read).isNotNull(), F.lit(False))
    behind = F.ltrim(F.substring(raw, _PREFIX_BYTES + 1, 100).cast("string"), F.lit(_WHITE))
    prefixed = F.when(_framed(raw), F.when(behind.startswith("{"), _PREFIXED_JSON).otherwise(_PREFIXED_OTHER))
    return F.when(
        raw.isNotNull(),
        F.when(~F.is_valid_utf8(text), F.coalesce(prefixed, F.lit(_NOT_UTF8)))
        .when(bad & _framed(raw), prefixed)
        .when(bad & text.startswith(_BYTE_ORDER_MARK), F.lit("begins with a byte-order mark; write UTF-8 without one"))
        .when(bad & ~F.ltrim(text, F.lit(_WHITE)).startswith("{"), F.lit("not a JSON object"))
        .when(bad, F.lit(unfit)),
    )


def write_object(value: Column) -> Column:
    """A struct as one JSON object in UTF-8: compact, its columns in their order, nulls included; null for a null."""
    return F.to_json(value, _WRITTEN).cast("binary")


@dataclass(frozen=True, init=False)
class Declared:
    """What the formats with a declared schema have in common.

    Args:
        schema: Spark DDL of the columns.
        fields: column to the name of its JSON field, where that is another one; a list of names is a field inside
            objects.

    Attributes:
        schema: as it was given.
        named: the columns of `fields`, each with the names that lead to it.
    """

    schema: str
    named: tuple[tuple[str, Path], ...]

    def __init__(self, schema: str, fields: Fields | None = None) -> None:
        """Reads the schema once, so that a wrong one is refused where it is written."""
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "named", paths_of(fields))
        object.__setattr__(self, "_places", Places.of(parse_ddl(schema), self.named))

    @property
    def places(self) -> Places:
        """Where in the JSON object the columns stand."""
        places: Places = self._places  # type: ignore[attr-defined]
        return places

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns of the schema."""
        return self.places.fields

    def _exactly(self, raw: Column, found: Sequence[Column], value: Column, error: Column) -> Parsed:
        """The columns of their declared types out of those that were read, or what does not fit.

        Args:
            raw: the record's bytes.
            found: the columns as they were read.
            value: a struct of them; null where `error` is set.
            error: what is wrong with the record as a whole.
        """
        parsed = as_written(raw, found, Parsed(value, error), self.fields, self.places.paths)
        return exactly(parsed, self.fields)

    @property
    def columns(self) -> str:
        """The columns as text, equal for equal schemas however they are written."""
        return self.places.describe()


@dataclass(frozen=True, init=False)
class Json(Declared):
    """A JSON object read by a declared schema.

    Fields that the object lacks are null; fields that the schema lacks are not read (the raw bytes stay in bronze).
    An error is anything that is not one complete JSON object of the declared types: broken or truncated JSON, text
    after the object, an array or number as root, a value of another type, invalid UTF-8, nesting beyond Jackson's
    limits; and an object in Connect's wrapper in which no declared column is.

    Args:
        schema: Spark DDL, such as `ms bigint, page string`.
        fields: column to JSON field where the names differ: `{"user_id": "user-id", "city": ["address", "city"]}`.
    """

    def read(self, raw: Column) -> Column:
        """One from_json a record: of the bytes as they are where that tells all, else as `read_object` does."""
        members, named = self.places.members, self.places.safe_members
        listed = read_object(raw, f"struct<{members}>", f"struct<{named}>")
        if self.places.nests:
            return listed
        plain = F.from_json(raw.cast("string"), f"struct<{members}, `{_CORRUPT}`: string>", _OPTIONS)
        if self.places.renamed:
            plain = plain.cast(f"struct<{named}, `{_CORRUPT}`: string>")
        return F.when(_is_flat(raw), F.struct(plain.alias(_PLAIN), F.lit(None).alias(_LISTED))).otherwise(
            F.struct(F.lit(None).alias(_PLAIN), listed.alias(_LISTED))
        )

    def parse(self, raw: Column, read: Column | None = None) -> Parsed:
        """The one object, or what is wrong with it."""
        found = self.read(raw) if read is None else read
        unfit, places = f"does not fit {self.schema}", self.places
        if places.nests:
            own = the_object(found)
            error = F.coalesce(object_error(raw, found, unfit), self._wrapped(raw, places.nothing_of(own)))
            value = F.when(raw.isNotNull() & error.isNull(), places.struct(own))
            return self._exactly(raw, places.columns(own), value, error)
        plain, listed = found[_PLAIN], found[_LISTED]
        broken = F.when(~F.is_valid_utf8(raw.cast("string")), F.lit(_NOT_UTF8)).when(
            plain[_CORRUPT].isNotNull(), F.lit(unfit)
        )
        error = F.when(plain.isNotNull(), broken).otherwise(object_error(raw, listed, unfit))
        nothing = places.nothing_of(plain) & places.nothing_of(the_object(listed))
        error = F.coalesce(error, self._wrapped(raw, nothing))
        value = F.when(plain.isNotNull(), F.struct(*places.columns(plain))).otherwise(places.struct(the_object(listed)))
        pairs = zip(places.columns(plain), places.columns(the_object(listed)), strict=True)
        found_there = [F.coalesce(*pair) for pair in pairs]
        return self._exactly(raw, found_there, F.when(raw.isNotNull() & error.isNull(), value), error)

    def _wrapped(self, raw: Column, nothing: Column) -> Column:
        """An error where no declared column has a value and the object is Connect's wrapper of another one.

        It reads the text once more, but only of objects in which nothing was found.
        """
        if {path[0] for path in self.places.paths} & set(_WRAPPER):
            return F.lit(None).cast("string")
        keys = F.array_sort(F.json_object_keys(raw.cast("string")))
        wrapper = F.array(*map(F.lit, _WRAPPER))
        return F.when(raw.isNotNull() & nothing, F.when(keys == wrapper, F.lit(_WRAPPED)))

    def write(self, value: Column) -> Column:
        """The struct as one object. Not a number and infinities, which JSON has not, become texts that are not read."""
        ours = [field.name for field in self.fields if any(one in field.member.declared for one in (*UNITS, BASE64))]
        if ours:
            msg = f"{', '.join(ours)} of {self.describe()}: {', '.join(UNITS)} and {BASE64} are read only"
            raise InvalidFormat(msg, hint="declare timestamp, date or decimal, or make the number in a map_values")
        return write_object(self.places.written(value))

    def describe(self) -> str:
        """The format with its columns."""
        return f"json({self.columns})"


@dataclass(frozen=True, init=False)
class RegistryJson(Declared):
    """A JSON object behind the prefix that schema registries define: a zero byte and a four-byte schema id.

    The id is not looked up: the declared schema decides what is read, as with `Json`.

    Args:
        schema: Spark DDL, such as `ms bigint, page string`.
        fields: column to JSON field where the names differ, as for `Json`.
    """

    @property
    def _inner(self) -> Json:
        return Json(self.schema, dict(self.named))

    def read(self, raw: Column) -> Column:
        """One from_json of what is behind the prefix."""
        return self._inner.read(_behind_prefix(raw))

    def parse(self, raw: Column, read: Column | None = None) -> Parsed:
        """Checks the prefix, then reads what is behind it."""
        inner = self._inner.parse(_behind_prefix(raw), self.read(raw) if read is None else read)
        unframed = F.when(
            raw.isNotNull() & ~_framed(raw), F.lit("no registry prefix (0x00 and four bytes) before the JSON")
        )
        return Parsed(value=inner.value, error=F.coalesce(unframed, inner.error))

    def describe(self) -> str:
        """The format with its columns."""
        return f"registry_{self._inner.describe()}"


def _framed(raw: Column) -> Column:
    return (F.octet_length(raw) > _PREFIX_BYTES) & (F.hex(F.substring(raw, 1, 1)) == "00")


def _behind_prefix(raw: Column) -> Column:
    return F.when(_framed(raw), F.substring(raw, _PREFIX_BYTES + 1, 2_147_483_647))
