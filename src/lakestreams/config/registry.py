"""The schema registry that a sources' file names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakestreams.config import models
from lakestreams.config.load import Document, KeyPath, read
from lakestreams.config.parts import Model
from lakestreams.config.validate import validate
from lakestreams.config.wording import placed
from lakestreams.errors import ConfigInvalid, LakestreamsError, TopologyInvalid
from lakestreams.formats.writers import RegistryFormat
from lakestreams.registry.options import RegistryOptions

if TYPE_CHECKING:
    from lakestreams.topology.topology import Topology

AS_WRITTEN: Final[frozenset[KeyPath]] = frozenset({("kafka", "options"), ("registry", "options")})
"""Below these keys references stay as they are written: they are looked up when somebody signs in."""


def load_registry(path: Path) -> RegistryOptions:
    """How the registry of a sources' file is reached; whatever else the file says is not judged.

    Raises:
        ConfigUnreadable, TopologyInvalid: with the faults of this part.
        ConfigInvalid: if the file names no registry.
    """
    document = part_of(path, "registry", "the schema registry", "registry: {url: ...}")
    file, _ = validate(_RegistryPart, document)
    options = registry_of(file.registry if file is not None else None, document)
    if options is None or document.faults:
        raise TopologyInvalid(document.faults)
    return options


def part_of(path: Path, key: str, what: str, hint: str) -> Document:
    """A sources' file with one of its keys alone.

    Args:
        what: whose place the key says.
        hint: an example of the key.

    Raises:
        ConfigUnreadable: if it cannot be read.
        ConfigInvalid: if it has no such key.
    """
    document = read(path, keep=AS_WRITTEN)
    if key not in document.data:
        raise ConfigInvalid(f"the key '{key}' is missing: it says where {what} is", hint=hint, where=document.where())
    document.data = {key: document.data[key]}
    return document


def registry_of(spec: models.RegistrySpec | None, sources: Document) -> RegistryOptions | None:
    """How the registry is reached; faults are noted in the document."""
    if spec is None:
        return None
    options = {name: models.json_text(value) for name, value in spec.options.items()}
    try:
        return RegistryOptions(spec.url, options)
    except LakestreamsError as fault:
        sources.faults.append(placed(fault, sources, ("registry",)))
        return None


def without_registry(topology: Topology | None, sources: Document) -> Iterator[LakestreamsError]:
    """The one fault of a pipeline with formats of a registry that does not know where that is."""
    if topology is None or "registry" in sources.data:
        return
    sides: list[tuple[str, object]] = [(one.name, how) for one in topology.sources for how in (one.key, one.value)]
    written: list[tuple[str, object]] = [
        (one.name, how) for one in topology.kafka_sinks for how in (one.key, one.value)
    ]
    named = [name for name, how in (*sides, *written) if isinstance(how, RegistryFormat)]
    if named:
        message = f"the key 'registry' is missing: {named[0]} has a format with a schema registry"
        yield ConfigInvalid(message, hint="registry: {url: ...}", where=sources.where())


class _RegistryPart(Model):
    """The part of a sources' file that is about the registry."""

    registry: models.RegistrySpec


__all__ = ["AS_WRITTEN", "load_registry", "part_of", "registry_of", "without_registry"]
