"""References to the environment in SQL: `sha2(user || '${PEPPER}', 256)`.

What such a reference stands for may be a secret. So SQL is kept as it is written, in messages, descriptions and the
ledger, and the values are put in where Spark gets an expression and nowhere else. A fingerprint must change with a value
all the same, so the ledger has a digest of it, slow to compute and short (decision 0025).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Self

from lakestreams.errors import ExpressionRefused
from lakestreams.kafka.references import spellings
from lakestreams.sql import literal

REFERENCE: Final = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_ROUNDS: Final = 100_000
_SHORTEST: Final = 4  # of a value that is looked for in messages; a shorter one is in any text by chance
_PLAIN: Final = re.compile(r"(?i)[-+]?[\d.,_:]{1,8}\Z|true\Z|false\Z|null\Z")


@dataclass(frozen=True)
class References:
    """What the references in SQL stand for.

    Attributes:
        values: reference as it is written, such as `${PEPPER}`, to its value.
    """

    values: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.values)

    @property
    def names(self) -> frozenset[str]:
        """The environment's names."""
        return frozenset(name_of(reference) for reference in self.values)

    def digests(self, pipeline: str) -> dict[str, str]:
        """Each reference with a digest of its value, for the ledger."""
        return {reference: digest(pipeline, reference, value) for reference, value in sorted(self.values.items())}

    def redact(self, text: str) -> str:
        """The text with each value that may be a secret replaced by its reference; also base64, URL and JSON spellings."""
        found = {
            spelt: reference
            for reference, value in self.values.items()
            if len(value) >= _SHORTEST and not _PLAIN.match(value) and value != default_of(reference)
            for spelt in (*spellings(value), literal(value)[1:-1])
        }
        for spelt in sorted(found, key=len, reverse=True):
            text = text.replace(spelt, found[spelt])
        return text


class Written(str):
    """SQL as it was written, which is all that it shows, with what its references stand for."""

    __slots__ = ("_digest", "references")
    references: References
    _digest: str | None

    def __new__(cls, text: str, references: References) -> Self:
        """The text with its values."""
        made = super().__new__(cls, text)
        made.references = References(
            {one: value for one, value in references.values.items() if one in set(references_in(text))}
        )
        made._digest = None
        return made

    @property
    def digest(self) -> str:
        """A digest of the values; empty if there are none."""
        if self._digest is None:  # slow on purpose, and asked for more than once
            self._digest = " ".join(self.references.digests("").values())
        return self._digest

    def __reduce__(self) -> tuple[object, ...]:
        """With the values: the plan that goes the same way has them, too."""
        return (Written, (str(self), References(dict(self.references.values))))


def digest(pipeline: str, reference: str, value: str) -> str:
    """A digest of a value: the same for the same pipeline, and of too few digits to tell one value from all others."""
    salt = f"lakestreams\0{pipeline}\0{reference}".encode()
    return hashlib.pbkdf2_hmac("sha256", value.encode("utf-8", "surrogatepass"), salt, _ROUNDS).hex()[:8]


def value_of(reference: str) -> str | None:
    """What a reference stands for in this process: the environment's value, or its default; None: neither is there."""
    return os.environ.get(name_of(reference)) or default_of(reference)


def name_of(reference: str) -> str:
    """The environment's name in a reference."""
    found = REFERENCE.fullmatch(reference)
    return found["name"] if found is not None else ""


def default_of(reference: str) -> str | None:
    """The default in a reference."""
    found = REFERENCE.fullmatch(reference)
    return found["default"] if found is not None else None


def references_in(text: str) -> list[str]:
    """The references of a SQL text, each once; one behind a backslash, inside quotes, is none."""
    return list(dict.fromkeys(part for part, quote, _ in _parts(text) if quote is not None))


def resolved(text: str, where: str | None = None) -> str:
    """A SQL text with its references' values. Inside quotes a value cannot end them.

    Raises:
        ExpressionRefused: if one stands in r'...' and has a quote, which nothing can write there.
    """
    if not isinstance(text, Written) or not text.references:
        return str(text)
    values = text.references.values
    return "".join(
        part if quote is None or part not in values else _fitted(part, values[part], quote, raw=raw, where=where)
        for part, quote, raw in _parts(text)
    )


def _fitted(reference: str, value: str, quote: str, *, raw: bool, where: str | None) -> str:
    if not quote:
        return value
    if quote == "`":
        return value.replace("`", "``")
    if not raw:
        return literal(value)[1:-1].replace('"', '\\"')
    if quote in value or "\n" in value:
        msg = f"what {reference} stands for has a quote or a line's end, which r{quote}...{quote} cannot hold"
        raise ExpressionRefused(msg, hint="put it into quotes without r in front", where=where)
    return value


def _parts(text: str) -> Iterator[tuple[str, str | None, bool]]:
    """The text in parts: plain ones with None, references with the quote that they stand in (or none), and whether r'...'."""
    quote, raw, at = "", False, 0
    while at < len(text):
        found = REFERENCE.match(text, at)
        if found is not None:
            yield found[0], quote, raw
            at = found.end()
            continue
        sign = text[at]
        width = 1
        if not quote:
            if sign in "'\"`":
                quote, raw = sign, sign != "`" and re.search(r"(?<![A-Za-z0-9_])[rR]\Z", text[:at]) is not None
        elif sign == "\\" and quote != "`" and not raw:
            width = 2
        elif sign == quote:
            quote = ""
        yield text[at : at + width], None, False
        at += width


__all__ = ["REFERENCE", "References", "Written", "digest", "name_of", "references_in", "resolved", "value_of"]
