"""Topologies that a Python function declares, named `module:function` in a file."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from lakestreams.api.builder import StreamsBuilder
from lakestreams.config.load import Document, KeyPath
from lakestreams.errors import ConfigInvalid, LakestreamsError, UnknownReference, unfold
from lakestreams.topology.topology import Topology


def topology_of(reference: str, document: Document, path: KeyPath, pipeline: str | None = None) -> Topology | None:
    """The topology that a function declares; None if a fault is in the way, which is noted in the document.

    Args:
        reference: `module:function`. The function returns a Topology or a StreamsBuilder, or takes a StreamsBuilder.
        document: the file that names it.
        path: where it does.
        pipeline: the name that the topology must have; any if not given.
    """
    function = _function(reference, document, path)
    if function is None:
        return None
    builder = StreamsBuilder(pipeline or reference.rpartition(":")[2])
    try:
        takes_builder = bool(inspect.signature(function).parameters)
        made = function(builder) if takes_builder else function()
        made = builder if made is None and takes_builder else made
        made = made.build() if isinstance(made, StreamsBuilder) else made
    except LakestreamsError as error:
        for fault in unfold(error):
            fault.where = fault.where or document.where(path)
            document.faults.append(fault)
        return None
    except Exception as error:  # noqa: BLE001 - the user's own code may raise anything
        message = f"{reference} raised {type(error).__name__}: {error}"
        document.faults.append(ConfigInvalid(message, hint="mend the function", where=document.where(path)))
        return None
    if not isinstance(made, Topology):
        message = f"{reference} returned a {type(made).__name__}, not a Topology"
        hint = "return builder.build(), or take a StreamsBuilder and return None"
        document.faults.append(ConfigInvalid(message, hint=hint, where=document.where(path)))
        return None
    if pipeline is not None and made.name != pipeline:
        message = f"the pipeline is named {pipeline!r}, its topology {made.name!r}"
        document.faults.append(ConfigInvalid(message, hint="give both the same name", where=document.where(path)))
        return None
    return made


def _function(reference: str, document: Document, path: KeyPath) -> Callable[..., object] | None:
    module_name, _, name = reference.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), name, None)
    except Exception as error:  # noqa: BLE001 - importing runs the user's own code
        message = f"{module_name} cannot be imported: {type(error).__name__}: {error}"
        hint = "install its package, or put its folder on PYTHONPATH"
        document.faults.append(UnknownReference(message, hint=hint, where=document.where(path)))
        return None
    if not callable(function):
        message = f"{module_name} has no function {name!r}"
        document.faults.append(UnknownReference(message, hint="name it module:function", where=document.where(path)))
        return None
    found: Callable[..., object] = function
    return found


@contextlib.contextmanager
def importing_from(folder: Path) -> Iterator[None]:
    """Lets modules be imported from a folder, before all others: as `python -m` does with the working directory."""
    place = str(folder.resolve())
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)
