"""One column of an aggregate, as it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.topology.aggregators import AggregatorKind


@dataclass(frozen=True, eq=False)
class Part:
    """One column of an aggregate.

    Attributes:
        name: the column's.
        kind: what is made of the values in the columns of this name in `into` and `out`; a count may have none.
        initial, add, subtract: of a fold; without an initial one a group's first value is its result as it is.
    """

    name: str
    kind: AggregatorKind
    initial: Column | None = None
    add: Callable[[Column, Column], Column] | None = None
    subtract: Callable[[Column, Column], Column] | None = None
