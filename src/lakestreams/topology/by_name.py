"""Columns by name: the mapper that names stand for, and how descriptions write names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.topology.fields import Fields

_PLAIN = re.compile(r"[\w.-]+\Z")


@dataclass(frozen=True)
class ByName:
    """The mapper that a column name, or several, stand for: the columns of these names, in their order."""

    names: tuple[str, ...]

    def __call__(self, fields: Fields) -> Mapping[str, Column]:
        """The columns."""
        return {name: fields[name] for name in self.names}


def columns(mapper: object) -> str:
    """What a mapper takes, in words."""
    return listed(mapper.names) if isinstance(mapper, ByName) else "(function)"


def listed(names: Iterable[str]) -> str:
    """Names, separated by commas."""
    return ", ".join(shown(name) for name in names)


def shown(name: str) -> str:
    """A name, quoted if it has other signs than letters, digits, dot, _ and -."""
    return name if _PLAIN.match(name) else json.dumps(name)
