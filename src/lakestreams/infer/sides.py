"""Which format the keys or the values of a sample have, and its columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from lakestreams.formats.avro.glue import version_of
from lakestreams.infer.objects import is_most, json_side
from lakestreams.infer.registered import Schemas, framed
from lakestreams.infer.side import Side

_SHOWN: Final = 5
_SIZES: Final = {2: "short", 4: "int", 8: "long", 16: "uuid"}


def side(
    records: Sequence[bytes | None],
    name: str,
    schemas: Schemas | None,
    subject: str,
    heads: Sequence[bytes | None] = (),
) -> Side:
    """What fits most of the records that are not null.

    Args:
        records: keys, or values.
        name: of the column of a format that has one.
        schemas: the registry; None: there is none.
        subject: under which the registry has schemas of this side, as a rule.
        heads: the header of each record that may name its schema; by default no record has one.
    """
    pairs = zip(records, heads or [None] * len(records), strict=True)
    both = [(one, head) for one, head in pairs if one is not None]
    raw = [one for one, _ in both]
    if not raw:
        return Side("text", name, notes=("every record is null: the format is a guess",))
    found = framed(both, name, schemas, subject) or _of_glue(raw) or json_side(raw, name) or _of_bytes(raw, name)
    if found is not None:
        return found
    sizes = Counter(map(len, raw))
    size, count = sizes.most_common(1)[0]
    told = f"all of {size} bytes" if count == len(raw) else f"of {min(sizes)} to {max(sizes)} bytes"
    return Side(
        "", notes=(f"neither text nor JSON, and no registry's prefix: {told}; Avro or Protobuf need their schema",)
    )


def _of_glue(raw: Sequence[bytes]) -> Side | None:
    """Records behind AWS Glue's header, whose schemas only Glue has."""
    versions = Counter(version for one in raw if (version := version_of(one)) is not None)
    if not is_most(versions.total(), raw):
        return None
    told = ", ".join(sorted(str(version) for version, _ in versions.most_common(_SHOWN)))
    return Side(
        "",
        notes=(f"behind AWS Glue's header, by schema versions {told}: glue_avro reads Avro by those that it is given",),
    )


def _of_bytes(raw: Sequence[bytes], name: str) -> Side | None:
    sizes = Counter(map(len, raw))
    size, count = sizes.most_common(1)[0]
    is_text = sum(_is_text(one) for one in raw)
    if is_most(is_text, raw):
        return Side("text", name)
    if size in _SIZES and is_most(count, raw):
        told = {
            "short": "two bytes: a whole number",
            "int": "four bytes: a whole number",
            "long": "eight bytes: a whole number",
            "uuid": "sixteen bytes: a UUID",
        }
        return Side(_SIZES[size], name, notes=(told[_SIZES[size]],))
    return None


def _is_text(raw: bytes) -> bool:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return False
    return all(sign.isprintable() or sign in "\r\n\t" for sign in text)


__all__ = ["side"]
