"""Mappers that stand for what users write shorter: names of columns, and a function that gives a key of one column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.topology.fields import Fields
    from lakestreams.topology.nodes import Projection


@dataclass(frozen=True)
class ByName:
    """The mapper that a column name, or several, stand for: the columns of these names, in their order."""

    names: tuple[str, ...]

    def __call__(self, fields: Fields) -> Mapping[str, Column]:
        """The columns."""
        return {name: fields[name] for name in self.names}


@dataclass(frozen=True)
class ForeignKey:
    """The mapper that a function for `left_on` or `right_on` stands for.

    Kafka Streams' extractors return the key itself, and so may this function, where the key has one column.
    """

    function: Callable[[Fields], Projection | Column]

    def __call__(self, fields: Fields) -> Projection:
        """The columns of the key; one that came alone has a name that nobody reads."""
        from pyspark.sql import Column  # noqa: PLC0415 - whoever declares a join needs no Spark

        made = self.function(fields)
        return {"key": made} if isinstance(made, Column) else made
