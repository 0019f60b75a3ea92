"""Declared fields that no record has: what a new or changed pipeline says of the first records that it reads.

Such a column is null in every row, without an error, since what an object lacks is null. Often its name is written otherwise.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.state.bronze import planned_rows
from lakestreams.formats.json import Declared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.ledger.ledger import Ledger
    from lakestreams.engine.ledger.plans import Plan
    from lakestreams.topology.endpoints import Source

LEAST: Final = 20
"""Of fewer records nothing is said."""
_SAMPLE: Final = 200
_BYTES: Final = 16_384  # of each record
_NAME: Final = re.compile(r'"((?:[^"\\]|\\.){1,200})"\s*:')


def fields(spark: SparkSession, ledger: Ledger, source: Source, plan: Plan) -> list[str]:
    """Warnings of a source's columns whose fields none of a cycle's records has, as far as a sample tells."""
    how = source.value
    if source.delta is not None or not isinstance(how, Declared):
        return []
    there = F.array(*(F.col("v")[field.name].isNotNull() for field in how.fields))
    # cut within a sign, the text is no UTF-8, which Spark Connect does not hand over
    text = F.make_valid_utf8(F.substring("value", 1, _BYTES).cast("string"))
    rows = planned_rows(spark, ledger, source, [plan]).where(F.col("v").isNotNull()).limit(_SAMPLE)
    sample = [(row["there"], row["text"]) for row in rows.select(there.alias("there"), text.alias("text")).collect()]
    return [f"{source.name}: {one}" for one in absent(how, sample)]


def absent(how: Declared, sample: Sequence[tuple[Sequence[bool], str]]) -> list[str]:
    """What to say of the fields that no record of a sample has, although it has others.

    Args:
        sample: of each record which columns have a value, and its text.
    """
    if len(sample) < LEAST or not any(any(there) for there, _ in sample):
        return []
    names = {name for _, text in sample for name in _NAME.findall(text)}
    taken = {path[-1] for path in how.places.paths}
    found = []
    for place, (field, path) in enumerate(zip(how.fields, how.places.paths, strict=True)):
        if path[-1] in names or any(there[place] for there, _ in sample):
            continue
        near = _nearest(path[-1], names - taken)
        hint = "" if near is None else f"; did you mean {near!r}? Then write fields: {{{field.name}: {near}}}"
        found.append(
            f"none of the first {len(sample)} records has the field {path[-1]!r}, so {field.name} is null{hint}"
        )
    return found


def _nearest(name: str, names: set[str]) -> str | None:
    """The name that is written most alike; of those that differ in capitals and signs only, the first."""
    same = sorted(one for one in names if _plain(one) == _plain(name))
    return next(iter([*same, *difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.8)]), None)


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


__all__ = ["LEAST", "absent", "fields"]
