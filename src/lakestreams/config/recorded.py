"""A topology from the text that the ledger keeps of a configuration (`Pipeline.text`).

It is compiled as it stands: what the environment gave is in it already, and Kafka's part, which is not, is left out. So
neither files nor variables nor secrets need to be there.

Who writes to the ledger's table is not who writes the files: of the code that a recorded text names, `module:function`, only
what the given file names too is imported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakestreams.config.compile import compiled
from lakestreams.config.load import Document

if TYPE_CHECKING:
    from lakestreams.topology.builder import Topology

_PLACE = Path("the recorded text")


class NotCompiled(Exception):
    """A recorded text from which its topology does not come any more; the message says why."""


def function_of(text: str) -> str | None:
    """The `module:function` that a text names as its topology; None of one that has steps, or is of no files."""
    try:
        named = _content(text)["pipeline"].get("topology")
    except NotCompiled:
        return None
    return named if isinstance(named, str) else None


def topology(text: str, description: str, given: str | None = None) -> Topology:
    """The topology of a recorded text.

    Args:
        text: the `Pipeline.text` that was recorded.
        description: what the topology said of itself then (`Topology.describe`).
        given: the `module:function` that the given file names; nothing else is imported.

    Raises:
        NotCompiled: if the text is of no files, has faults now, or gives another topology: Python code has changed since.
    """
    content = _content(text)
    named = content["pipeline"].get("topology")
    if named is not None and named != given:
        message = (
            f"the ledger names the Python function {named!r} as their topology, and only what the given file names is "
            "imported: if it is yours, give a file with that topology"
        )
        raise NotCompiled(message)
    sources, pipeline = _document(_but_for_kafka(content["sources"])), _document(content["pipeline"])
    made = compiled(sources, pipeline)[-1]
    faults = [*sources.faults, *pipeline.faults]
    if made is None or faults:
        message = f"their recorded text has a fault now: {faults[0].message if faults else 'it declares nothing'}"
        raise NotCompiled(message)
    if made.describe() != description:
        function = pipeline.data.get("topology")
        message = f"{function or 'their recorded text'} declares another topology now"
        raise NotCompiled(message)
    return made


def _content(text: str) -> Mapping[str, Any]:
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    parts = [content.get(name) for name in ("sources", "pipeline")] if isinstance(content, dict) else []
    if not parts or not all(isinstance(part, dict) for part in parts):
        message = "their topology was declared in Python, of which no text is recorded"
        raise NotCompiled(message)
    found: Mapping[str, Any] = content
    return found


def _but_for_kafka(sources: Mapping[str, Any]) -> dict[str, Any]:
    return {key: part for key, part in sources.items() if key != "kafka"}


def _document(data: dict[str, Any]) -> Document:
    return Document(_PLACE, written=data, data=data)
