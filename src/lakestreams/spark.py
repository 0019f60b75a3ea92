"""Imports Spark's functions when the first one is used, so that declaring and checking need no Spark."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

__all__ = ["F", "holds_any"]


class _Later:
    """Stands for a module until an attribute of it is asked for; each is looked up once."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what pickle and inspect ask of any object is not the module's
            raise AttributeError(name)
        found = getattr(importlib.import_module(self._module), name)
        setattr(self, name, found)
        return found


if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
else:
    F = _Later("pyspark.sql.functions")


def holds_any(conditions: Iterable[Column]) -> Column:
    """Whether one of these conditions holds; false if there is none.

    A tree, not a chain: Spark walks through expressions by recursion, whose stack ends at some hundred in a chain, and behind
    Spark Connect an expression that is nested 50 deep is not sent at all.
    """
    level = list(conditions) or [F.lit(False)]
    while len(level) > 1:
        pairs = (level[place : place + 2] for place in range(0, len(level), 2))
        level = [pair[0] | pair[1] if len(pair) > 1 else pair[0] for pair in pairs]
    return level[0]
