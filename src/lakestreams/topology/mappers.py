"""Mappers that stand for what users write shorter, and how descriptions write names of columns."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import Column

    from lakestreams.topology.fields import Fields
    from lakestreams.topology.kinds import Projection

_PLAIN = re.compile(r"[\w.-]+\Z")


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


def columns(mapper: object) -> str:
    """What a mapper takes, in words."""
    return listed(mapper.names) if isinstance(mapper, ByName) else "(function)"


def listed(names: Iterable[str]) -> str:
    """Names, separated by commas."""
    return ", ".join(shown(name) for name in names)


def shown(name: str) -> str:
    """A name, quoted if it has other signs than letters, digits, dot, _ and -."""
    return name if _PLAIN.match(name) else json.dumps(name)
