"""Numbers in columns of strings: as they were written, or the column and the value.

A number that is not whole, Spark's from_json reads into a string by way of a double: `1.10` becomes `1.1`, `1e400` infinity. Only
a record whose text has such a number outside of quotes, and a string that may be one, is looked at: so most records cost a few
comparisons. Of a column's own field the text is taken instead; what stands deeper, or in several ways, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from itertools import count
from operator import or_
from typing import TYPE_CHECKING, Final

from lakestreams.formats.base import Field, Parsed
from lakestreams.formats.kinds import Array, Kind, Leaf, Map, Struct
from lakestreams.formats.leaves import let
from lakestreams.spark import F
from lakestreams.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.formats.places import Path

# No backslash is in the patterns that are part of SQL text (see `leaves`).
_NUMBER: Final = '(?<![A-Za-z0-9_"+.-])(-?[0-9]+([.][0-9]+)?([eE][-+]?[0-9]+)?)(?![A-Za-z0-9_"+.-])'
# Of those the ones that a double may write otherwise: with an exponent, from 10^7 on, with many digits, with a zero at the
# end, small, or -0. It is asked of every record with a string that may be a number, so it is one pass.
_NOT_PLAIN: Final = (
    '(?<![A-Za-z0-9_"+.-])-?(?:[0-9]+(?:[.][0-9]+)?[eE]|[0-9]{8,}[.]|[0-9]+[.](?:[0-9]{8}|[0-9]+0(?![0-9]))'
    "|0[.]0[0-9]|(?<=-)0(?![0-9.]))"
)
_LIKE_NUMBER: Final = r'(?s)\A(?:-?[0-9]+(?:[.][0-9]+(?:E-?[0-9]+)?)?|"-?Infinity"|[\[{].*)\z'
_BLANK: Final = "[ \t\r\n]*"
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_ @.:/#-]+\Z")
_SHOWN: Final = 60  # characters of a value in a message
_SAID: Final = "is a number that was written otherwise; declare decimal(p, s) or double, or write it in quotes"
_ESCAPE: Final = "\\u"
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF: Final = rf"(?<!\\)(?:\\\\)*+(?:{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW})"
_HALVES: Final = "half of a surrogate pair, which is no character"


def as_written(
    raw: Column, found: Sequence[Column], parsed: Parsed, fields: Sequence[Field], paths: Sequence[Path]
) -> Parsed:
    """What was read, with the numbers in strings as they were written, or what cannot be told.

    Args:
        raw: the record's bytes.
        found: the columns as they were read: those of `parsed.value`, where it has no error.
        parsed: the struct of the columns, with strings as from_json gives them, and what is wrong with the record.
        paths: of each column the names that lead to its field.
    """
    strings = [(field, column) for field, column in zip(fields, found, strict=True) if _has_strings(field.member.kind)]
    if not strings:
        return parsed
    text = raw.cast("string")
    own = [column for field, column in strings if _is_string(field)]
    nested = [column.isNotNull() for field, column in strings if not _is_string(field)]
    loose = _any([*_begin_so(own), *nested]) & text.rlike(_NOT_PLAIN)
    doubt = loose & _any([*(column.rlike(_LIKE_NUMBER) for column in own), *nested])
    fixed = F.when(doubt, _fixed(text, parsed.value, fields, paths))
    half = F.when(F.contains(text, F.lit(_ESCAPE)) & text.rlike(_HALF), F.lit(_HALVES))
    whole = half.isNull() & fixed["e"].isNull()
    return Parsed(F.when(whole, F.coalesce(fixed["v"], parsed.value)), F.coalesce(parsed.error, half, fixed["e"]))


def _is_string(field: Field) -> bool:
    return field.member.kind == Leaf("string", "string")


def _has_strings(kind: Kind) -> bool:
    if isinstance(kind, Struct):
        return any(_has_strings(member.kind) for member in kind.members)
    if isinstance(kind, Array | Map):
        return _has_strings(kind.element if isinstance(kind, Array) else kind.value)
    return kind.declared == "string"


def _begin_so(strings: Sequence[Column]) -> list[Column]:
    """Whether any string begins with a sign of a number, an object or a list; cheap, and of some others too."""
    if not strings:
        return []
    first, last = (strings[0], strings[0]) if len(strings) == 1 else (F.least(*strings), F.greatest(*strings))
    return [first < ":", last >= "{", *(column.startswith("[") for column in strings)]


def _any(flags: Sequence[Column]) -> Column:
    return reduce(or_, (F.coalesce(flag, F.lit(False)) for flag in flags))


def _fixed(text: Column, value: Column, fields: Sequence[Field], paths: Sequence[Path]) -> Column:
    """A struct of the value `v` and of what is wrong `e`."""
    numbers = count()
    values, faults = [], []
    for field, path in zip(fields, paths, strict=True):
        x = f"p.v.{quoted(field.name)}"
        doubt = _doubt(field.member.kind, x, numbers)
        written = f"CASE WHEN {doubt} THEN {_written(x, path[-1])} ELSE {x} END" if _is_string(field) else x
        values.append(f"'{field.name}', {written}")
        if doubt:
            unknown = f" AND {_written(x, path[-1])} IS NULL" if _is_string(field) else ""
            json = x if _is_string(field) else f"to_json({x})"
            shown = f"regexp_replace(left({json}, {_SHOWN}), '[^ -~]', '?')"
            faults.append(f"CASE WHEN {doubt}{unknown} THEN concat('{field.name}: ', {shown}, ' {_SAID}') END")
    both = f"named_struct('v', named_struct({', '.join(values)}), 'e', coalesce({', '.join(faults)}))"
    made = "IF(t = '-0', '0', IF(abs(CAST(t AS DOUBLE)) = CAST('Infinity' AS DOUBLE), concat('\"', CAST(CAST(t AS DOUBLE) AS STRING), '\"'), CAST(CAST(t AS DOUBLE) AS STRING)))"
    tokens = f"filter(regexp_extract_all(p.r, '{_NUMBER}', 1), t -> t = '-0' OR t RLIKE '[.eE]')"
    lost = f"filter(transform({tokens}, t -> named_struct('t', t, 'made', {made})), d -> d.made != d.t)"
    judged = f"p -> CASE WHEN p.v IS NOT NULL THEN {let('lost', lost, both)} END"
    return F.get(
        F.call_function("transform", F.array(F.struct(text.alias("r"), value.alias("v"))), F.expr(judged)), F.lit(0)
    )


def _written(x: str, name: str) -> str:
    """SQL of the text in a field of this name, a number or one in quotes; null if it stands there in several ways."""
    if not _PLAIN_NAME.match(name):
        return "CAST(NULL AS STRING)"
    pattern = f'"{name.replace(".", "[.]")}"{_BLANK}:{_BLANK}(-?[0-9][-+.0-9eE]*|.)'
    there = f"array_distinct(regexp_extract_all(p.r, '{pattern}', 1))"
    exact = f"CASE WHEN size(n) = 1 AND n[0] = '\"' THEN {x} WHEN size(n) = 1 AND exists(lost, d -> d.t = n[0] AND d.made = {x}) THEN n[0] END"
    return let("n", there, exact)


def _doubt(kind: Kind, x: str, numbers: count[int]) -> str:
    """SQL of whether a string may be a number that was written otherwise; empty where there is no string."""
    if isinstance(kind, Struct):
        some = [_doubt(member.kind, f"{x}.{quoted(member.name)}", numbers) for member in kind.members]
        return f"({' OR '.join(filter(None, some))})" if any(some) else ""
    if isinstance(kind, Array | Map):
        e = f"s{next(numbers)}"
        inside = _doubt(kind.element if isinstance(kind, Array) else kind.value, e, numbers)
        return inside and f"exists({x if isinstance(kind, Array) else f'map_values({x})'}, {e} -> {inside})"
    if kind.declared != "string":
        return ""
    inside = f"left({x}, 1) IN ('[', '{{') AND contains({x}, d.made)"
    return f"coalesce(exists(lost, d -> d.made = {x} OR ({inside})), false)"


__all__ = ["as_written"]
