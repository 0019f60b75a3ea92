"""JSON objects with a declared schema, bare or behind a schema registry's five-byte prefix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lakestreams.errors import InvalidFormat
from lakestreams.formats.base import Field, require_text
from lakestreams.formats.json_text import exact_json
from lakestreams.formats.kinds import BASE64, UNITS
from lakestreams.formats.objects import Located, Objects, Row, names
from lakestreams.formats.places import Fields, Path, Places, paths_of
from lakestreams.formats.schema import parse_ddl
from lakestreams.formats.writers import PREFIX

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.formats.decoding import Decoded

_WRAPPER = ["payload", "schema"]
_UNFRAMED = "no registry prefix (0x00 and four bytes) before the JSON"
_WRAPPED = "in Connect's wrapper (schema and payload), in which no declared column is; ConnectJson reads it"


def write_object(value: Column, *, nulls: bool = True) -> Column:
    """A struct as one JSON object in UTF-8: compact, its columns in their order; null for a null.

    Args:
        nulls: whether members that are null are written.
    """
    return exact_json(value, nulls=nulls).cast("binary")


@dataclass(frozen=True, init=False)
class Declared(ABC):
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
        require_text(schema)
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

    def decode(self, raw: Any) -> Decoded:
        """Reads an array of bytes."""
        return decoder(self)(raw)

    @abstractmethod
    def objects(self) -> Objects:
        """What reads single records."""

    def require_writable(self) -> None:
        """Refuses to write types that are only read.

        Raises:
            InvalidFormat: for a column whose number has a unit.
        """
        ours = [field.name for field in self.fields if any(one in field.member.declared for one in (*UNITS, BASE64))]
        if ours:
            msg = f"{', '.join(ours)} of {self.describe()}: {', '.join(UNITS)} and {BASE64} are read only"
            raise InvalidFormat(msg, hint="declare timestamp, date or decimal, or make the number in a map_values")

    @abstractmethod
    def describe(self) -> str:
        """One line that is equal for equal formats."""

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

    def objects(self) -> Objects:
        """What reads single records."""
        return objects_of(self.places, self.schema)

    def write(self, value: Column) -> Column:
        """The struct as one object. Not a number and infinities, which JSON has not, become texts that are not read."""
        self.require_writable()
        return write_object(self.places.written(value))

    def describe(self) -> str:
        """The format with its columns."""
        return f"json({self.columns})"


@dataclass(frozen=True, init=False)
class RegistryJson(Declared):
    """A JSON object after the prefix that schema registries define: a zero byte and a four-byte schema id.

    The id is not looked up: the declared schema decides what is read, as with `Json`.

    Args:
        schema: Spark DDL, such as `ms bigint, page string`.
        fields: column to JSON field where the names differ, as for `Json`.
    """

    @property
    def _inner(self) -> Json:
        return Json(self.schema, dict(self.named))

    def decode(self, raw: Any) -> Decoded:
        """Checks the prefix, then reads what is behind it."""
        from lakestreams.formats.decoding import behind_prefix  # noqa: PLC0415 - declaring needs no Arrow

        return behind_prefix(raw, decoder(self), PREFIX, _UNFRAMED)

    def objects(self) -> Objects:
        """What reads single records, behind the prefix."""
        return self._inner.objects()

    def describe(self) -> str:
        """The format with its columns."""
        return f"registry_{self._inner.describe()}"


def objects_of(places: Places, schema: str) -> Objects:
    """What reads plain objects, of which a message says that they do not fit this schema."""
    mine = {path[0] for path in places.paths} & set(_WRAPPER)

    def judged(value: dict[str, Any], shaped: dict[str, Any]) -> tuple[Row, str | None]:
        if not mine and not any(one is not None for one in places.of_row(shaped)):
            return shaped, _WRAPPED if sorted(names(value)) == _WRAPPER else None
        return shaped, None

    return Objects(places.fields, places.paths, places.shape, judged, f"does not fit {schema}", Located)


@lru_cache(maxsize=64)
def decoder(how: Declared) -> Callable[[Any], Decoded]:
    """What reads arrays of bytes by a format; in a Python worker of Spark it is made once for many batches."""
    from lakestreams.formats.blocks import Blocks  # noqa: PLC0415 - declaring needs no Arrow

    return Blocks(how.objects()).decode
