"""Imports Spark's functions when the first one is used, so that declaring and checking need no Spark."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["F"]


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
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
else:
    F = _Later("pyspark.sql.functions")
