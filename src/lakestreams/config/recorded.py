"""A topology from the text that the ledger keeps of a configuration (`Pipeline.text`).

It is compiled as it stands: what the environment gave is in it already, and Kafka's part, which is not, is left out. So
neither files nor variables nor secrets need to be there, but for what SQL refers to: that is in the text as a digest alone,
and must have the value that it had then.

Who writes to the ledger's table is not who writes the files: of the code that a recorded text names, `module:function`, only
what the given file names too is imported; and of the environment only what its SQL refers to is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakestreams.config.compile import compiled
from lakestreams.config.load import Document
from lakestreams.expressions.environment import References, digest, name_of, value_of

if TYPE_CHECKING:
    from lakestreams.topology.topology import Topology

_PLACE = Path("the recorded text")


class NotCompiled(Exception):
    """A recorded text from which its topology does not come any more; the message says why."""


@dataclass(frozen=True)
class ImportedNames:
    """What the given files name: nothing else is imported or read from the environment because a table names it.

    Attributes:
        function: the `module:function` of their topology; None: they have steps.
        variables: the environment's names to which their SQL refers.
    """

    function: str | None = None
    variables: frozenset[str] = frozenset()

    @classmethod
    def by(cls, text: str) -> ImportedNames:
        """What the files of a text (`Pipeline.text`) name."""
        try:
            content = _content(text)
        except NotCompiled:
            return cls()
        named, references = content["pipeline"].get("topology"), content.get("references") or {}
        return cls(named if isinstance(named, str) else None, frozenset(map(name_of, references)))


def topology(text: str, description: str, named_now: ImportedNames = ImportedNames()) -> Topology:
    """The topology of a recorded text.

    Args:
        text: the `Pipeline.text` that was recorded.
        description: what the topology said of itself then (`Topology.describe`).
        named_now: what the given files name.

    Raises:
        NotCompiled: if the text is of no files, has faults now, or gives another topology: Python code has changed since;
            if its SQL refers to what the environment does not have any more.
    """
    content = _content(text)
    named = content["pipeline"].get("topology")
    if named is not None and named != named_now.function:
        message = (
            f"their topology is the Python function {named!r}, and only the function of the given file is imported. "
            "If it is yours, give a file with that topology"
        )
        raise NotCompiled(message)
    references = _references(content, named_now)
    sources = _document(_but_for_kafka(content["sources"]), references)
    pipeline = _document(content["pipeline"], references)
    recompiled = compiled(sources, pipeline)[-1]
    faults = [*sources.faults, *pipeline.faults]
    if recompiled is None or faults:
        message = f"their recorded text has a fault now: {faults[0].message if faults else 'it declares nothing'}"
        raise NotCompiled(message)
    if recompiled.describe() != description:
        function = pipeline.data.get("topology")
        message = f"{function or 'their recorded text'} declares another topology now"
        raise NotCompiled(message)
    return recompiled


def _content(text: str) -> Mapping[str, Any]:
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    parts = [content.get(name) for name in ("sources", "pipeline")] if isinstance(content, dict) else []
    if not parts or not all(isinstance(part, dict) for part in parts):
        message = "their topology was declared in Python, of which no text is recorded"
        raise NotCompiled(message)
    checked: Mapping[str, Any] = content
    return checked


def _but_for_kafka(sources: Mapping[str, Any]) -> dict[str, Any]:
    return {key: part for key, part in sources.items() if key != "kafka"}


def _references(content: Mapping[str, Any], named_now: ImportedNames) -> References:
    """What the references in the text's SQL stand for, which must be what they stood for then."""
    recorded = content.get("references") or {}
    values: dict[str, str] = {}
    for reference, was in recorded.items() if isinstance(recorded, dict) else ():
        name = name_of(reference)
        value = value_of(reference) if name in named_now.variables else None
        why = "the given files do not refer to it" if name not in named_now.variables else "it is not set now"
        if value is not None and digest(str(content["pipeline"].get("pipeline")), reference, value) != was:
            value, why = None, "it has another value now"
        if value is None:
            message = f"their SQL refers to the environment variable {name}: {why}"
            raise NotCompiled(message)
        values[reference] = value
    return References(values)


def _document(data: dict[str, Any], references: References) -> Document:
    return Document(_PLACE, written=data, data=data, references=references)
