"""Formats whose records name the schema that wrote them, and how a run says what it knows of those schemas."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from lakestreams.formats.decoding import Decoded
    from lakestreams.formats.headers import Heads

SchemaName: TypeAlias = "int | str"
"""What a record calls its schema: a registry's id, or a GUID as text."""
Texts: TypeAlias = "tuple[str, ...]"
"""A schema's text behind the texts of those that it refers to; of Protobuf each of those behind the name of its import."""

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"
"""Kinds of schemas, as registries call them."""
WORDS: Final = {AVRO: "Avro", JSON: "JSON", PROTOBUF: "Protobuf"}
ENDINGS: Final = {AVRO: ".avsc", JSON: ".json", PROTOBUF: ".proto"}
"""How files of schemas are named, by kind."""
KEYS: Final = {AVRO: "registry_avro", JSON: "json_schema", PROTOBUF: "registry_protobuf"}
"""Which format reads by schemas of a kind, as files name it."""

UNKNOWN_IDS: Final = "LAKESTREAMS_UNKNOWN_SCHEMA_IDS"
"""By this text the error of a strict format is known when Spark has wrapped it."""
TEST_ID: Final = 1
"""Under this id the declared schema stands where no registry is, which is in tests."""
LARGEST_ID: Final = 2**31 - 1
"""Ids are Java's numbers, from 1 on; others are not asked for."""
PREFIX: Final = 5
"""Bytes before a record behind a registry: a zero and the schema's id."""
UNFRAMED: Final = "no registry prefix (0x00 and four bytes) before the record"
HEADERS: Final = {"key": "__key_schema_id", "value": "__value_schema_id"}
"""Headers in which newer serializers name the schema, so that there is no prefix."""


def prefix_of(number: int) -> bytes:
    """What stands before a record whose schema has this id."""
    return b"\0" + number.to_bytes(PREFIX - 1, "big")


class UnknownIds(Exception):
    """Records name these schemas, of which it is not known what they are."""

    def __init__(self, ids: list[SchemaName]) -> None:
        super().__init__(f"{UNKNOWN_IDS} {ids}")
        self.ids = ids


@dataclass(frozen=True)
class Written:
    """A schema as a registry holds it.

    Attributes:
        kind: `AVRO`, `JSON` or `PROTOBUF`.
        texts: its text behind those that it refers to.
    """

    kind: str
    texts: Texts


@runtime_checkable
class RegistryFormat(Protocol):
    """A format of records that name their schema in a schema registry, in a prefix or in a header."""

    @property
    def subject(self) -> str | None:
        """The subject of an output's schema; None for the topic's name with `-key` or `-value`."""
        ...

    @property
    def register(self) -> bool:
        """Whether a run registers an output's schema; else the subject must have it."""
        ...

    @property
    def registered(self) -> Written:
        """The schema that outputs write by."""
        ...

    def knowing(self, known: Mapping[SchemaName, Texts | str | None], *, strict: bool) -> Self:
        """The same format with what is known of the writers' schemas.

        Args:
            known: the schemas of its kind by their names; None for one that the registry does not know, or a text that says
                why it cannot be had.
            strict: whether a schema that is not known ends the statement, so that it can be asked for; else the record is
                refused.
        """
        ...

    def decode(self, raw: Any, heads: Heads | None = None) -> Decoded:
        """Reads an array of bytes, as every format.

        Args:
            raw: the bytes.
            heads: the headers that name schemas, if a record has one.

        Raises:
            UnknownIds: if the format is strict, and a record names a schema that it does not know.
        """
        ...


_Format = TypeVar("_Format")


def knowing(how: _Format, known: Mapping[SchemaName, object], *, strict: bool) -> _Format:
    """A copy of a format with what it keeps of the writers' schemas, by their names."""
    fitted = copy(how)
    ordered = sorted(known.items(), key=lambda one: (isinstance(one[0], str), one[0]))
    object.__setattr__(fitted, "_known", tuple(ordered))
    object.__setattr__(fitted, "_strict", strict)
    return fitted


def unknown(name: SchemaName, kind: str) -> str:
    """What is wrong with a record whose schema the registry does not know."""
    return (
        f"schema {name}: the registry has no {WORDS[kind]} schema of this {'GUID' if isinstance(name, str) else 'id'}"
    )


def unusable(why: str) -> str:
    """What is wrong with a record whose schema cannot be used, behind the schema's name."""
    return f"cannot be used: {why}"


def with_known_schemas(
    how: RegistryFormat, known: Mapping[SchemaName, Written | str | None], *, strict: bool
) -> RegistryFormat:
    """The format with the schemas of its own kind; one of another kind is as good as none."""
    kind = how.registered.kind

    def own(one: Written | str | None) -> Texts | str | None:
        if isinstance(one, Written):
            return one.texts if one.kind == kind else None
        return one

    return how.knowing({name: own(one) for name, one in known.items()}, strict=strict)


__all__ = [
    "AVRO",
    "ENDINGS",
    "HEADERS",
    "JSON",
    "KEYS",
    "LARGEST_ID",
    "PREFIX",
    "PROTOBUF",
    "TEST_ID",
    "UNFRAMED",
    "UNKNOWN_IDS",
    "RegistryFormat",
    "SchemaName",
    "Texts",
    "UnknownIds",
    "Written",
    "knowing",
    "prefix_of",
    "unknown",
    "unusable",
    "with_known_schemas",
]
