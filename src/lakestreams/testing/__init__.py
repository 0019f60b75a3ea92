"""Tests of topologies without a broker and without tables."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakestreams.testing.difference import assert_results
    from lakestreams.testing.driver import TopologyTestDriver
    from lakestreams.testing.results import Refused, Result

__all__ = ["Refused", "Result", "TopologyTestDriver", "assert_results"]

_HOMES = {
    "Refused": "results",
    "Result": "results",
    "TopologyTestDriver": "driver",
    "assert_results": "difference",
}


def __getattr__(name: str) -> Any:
    # Not imported before it is used: pytest imports this package, for its plugin, in every run of an environment that
    # has lakestreams installed, also where no test has to do with it.
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
