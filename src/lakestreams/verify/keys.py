"""A key as somebody writes it on a command line, found among the keys that tables hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.formats.json_text import exact_json
from lakestreams.topology.kinds import WINDOW_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


def has_key(rows: DataFrame, columns: Mapping[str, Column], wanted: str) -> Column:
    """Whether rows have a key.

    Args:
        rows: of a table.
        columns: those of its key, by name.
        wanted: a key of one column as text, such as `42`, whichever window the row is of; or a JSON object of columns, of
            which those that it does not name may be anything.
    """
    own = [column for name, column in columns.items() if name not in WINDOW_COLUMNS]
    matches = own[0].cast("string") == F.lit(wanted) if len(own) == 1 else F.lit(False)
    named = _object(wanted)
    if named.keys() <= columns.keys() and any(value is not None for value in named.values()):
        matches |= _equal(rows, columns, wanted, named)
    return F.coalesce(matches, F.lit(False))


def _equal(rows: DataFrame, columns: Mapping[str, Column], text: str, named: Mapping[str, Any]) -> Column:
    """Whether columns are what an object says, read by their own types: white space and the order do not matter."""
    types: StructType = rows.select(*(columns[name].alias(name) for name in named)).schema
    wanted = F.from_json(F.lit(text), types)  # not what Python read, to which a decimal is a float

    def same(name: str) -> Column:
        if named[name] is None:
            return columns[name].isNull()
        # as text, since not every type can be compared; what is not of the column's type was read as a null
        mine, its = (exact_json(F.struct(one.alias(name))) for one in (columns[name], wanted[name]))
        return wanted[name].isNotNull() & (mine == its)

    return reduce(and_, map(same, named))


def _object(text: str) -> dict[str, Any]:
    """The object that a text is; an empty one if it is none."""
    try:
        parsed = json.loads(text)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
