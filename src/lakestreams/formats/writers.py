"""Formats whose records name the schema that wrote them, and how a run says what it knows of those schemas."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Final, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

Texts: TypeAlias = "tuple[str, ...]"
"""A schema's text behind the texts of those that it refers to; of Protobuf each of those behind the name of its import."""

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"
"""Kinds of schemas, as registries call them."""
WORDS: Final = {AVRO: "Avro", JSON: "JSON", PROTOBUF: "Protobuf"}

UNKNOWN_IDS: Final = "LAKESTREAMS_UNKNOWN_SCHEMA_IDS"
"""By this text the error of a strict format is known when Spark has wrapped it."""
TEST_ID: Final = 1
"""Under this id the declared schema stands where no registry is, which is in tests."""
LARGEST_ID: Final = 2**31 - 1
"""Ids are Java's numbers, from 1 on; others are not asked for."""
PREFIX: Final = 5
"""Bytes before a record behind a registry: a zero and the schema's id."""
UNFRAMED: Final = "no registry prefix (0x00 and four bytes) before the record"


class UnknownIds(Exception):
    """Records refer to schemas of these ids, of which it is not known what they are."""

    def __init__(self, ids: list[int]) -> None:
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
    """A format of records behind a schema registry's prefix."""

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

    def knowing(self, known: Mapping[int, Texts | None], *, strict: bool) -> Self:
        """The same format with what is known of the writers' schemas.

        Args:
            known: the schemas of its kind by their ids; None for one that the registry does not know.
            strict: whether an id that is not known ends the statement, so that it can be asked for; else the record is
                refused.
        """
        ...


_Format = TypeVar("_Format")


def knowing(how: _Format, known: Mapping[int, object], *, strict: bool) -> _Format:
    """A copy of a format with what it keeps of the writers' schemas, by their ids."""
    fitted = copy(how)
    object.__setattr__(fitted, "_known", tuple(sorted(known.items())))
    object.__setattr__(fitted, "_strict", strict)
    return fitted


def unknown(number: int | None, kind: str) -> str:
    """What is wrong with a record whose id the registry does not know."""
    return f"schema {number}: the registry has no {WORDS[kind]} schema of this id"


def told_to(how: RegistryFormat, known: Mapping[int, Written | None], *, strict: bool) -> RegistryFormat:
    """The format with the schemas of its own kind; one of another kind is as good as none."""
    kind = how.registered.kind
    own = {number: one.texts if one is not None and one.kind == kind else None for number, one in known.items()}
    return how.knowing(own, strict=strict)


__all__ = [
    "AVRO",
    "JSON",
    "LARGEST_ID",
    "PREFIX",
    "PROTOBUF",
    "TEST_ID",
    "UNFRAMED",
    "UNKNOWN_IDS",
    "RegistryFormat",
    "Texts",
    "UnknownIds",
    "Written",
    "knowing",
    "told_to",
    "unknown",
]
