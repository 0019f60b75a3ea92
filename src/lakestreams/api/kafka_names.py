"""Says what to write instead of a method that a handle lacks: Kafka Streams' names, Spark's, and misspelt ones."""

from __future__ import annotations

import difflib
import re
from typing import Final

from lakestreams.api import spark_names
from lakestreams.errors import UnknownMethod

_OUTPUT: Final = 'to_delta("silver.name") writes a table, to_kafka("topic") a topic'
_LOOK: Final = "a step has no side effects: lakestreams show TABLE prints results, lakestreams why explains a record"
_PURE: Final = "a result depends on recorded input only: use map_values or flat_map with Spark's functions"
_STATE: Final = "the engine stores state itself; a table for other readers is an output: to_delta(...)"
INSTEAD: Final = {
    "to": _OUTPUT,
    "through": "continue with the stream itself; to_kafka(...) writes a topic for other readers",
    **dict.fromkeys(("peek", "foreach", "print"), _LOOK),
    **dict.fromkeys(
        ("process", "processValues", "transform", "transformValues", "flatTransform", "flatTransformValues"), _PURE
    ),
    "filterNot": "filter(lambda row: ~(...)) keeps the rows that do not fulfil a condition",
    **dict.fromkeys(("split", "branch"), "write a filter for each branch, with its condition"),
    "cogroup": "aggregate each stream, then join the tables",
    **dict.fromkeys(("addStateStore", "addGlobalStore", "queryableStoreName"), _STATE),
}
"""Methods of Kafka Streams' DSL that have no counterpart of the same name, and what to do instead."""


def unknown_method(of: object, called: str, name: str) -> UnknownMethod:
    """The error for a method that a handle lacks.

    Args:
        of: the handle.
        called: how the message names it.
        name: the method.
    """
    methods = [one for one in dir(of) if not one.startswith("_") and one not in ("name", "node", "add")]
    if name in INSTEAD or name in spark_names.INSTEAD:
        hint = INSTEAD.get(name) or spark_names.INSTEAD[name]
    else:
        near = difflib.get_close_matches(re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(), methods, n=1)
        hint = f"did you mean {near[0]}(...)?" if near else f"it has: {', '.join(methods)}"
    return UnknownMethod(f"{called} has no method {name!r}", hint=hint, method=name, of=of)
