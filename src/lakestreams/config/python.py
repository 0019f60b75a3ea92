"""Topologies that a Python function declares, named `module:function` in a file."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from lakestreams.api.builder import StreamsBuilder
from lakestreams.config.load import Document, KeyPath, shown
from lakestreams.errors import ConfigInvalid, LakestreamsError, TopologyInvalid, UnknownReference, unfold
from lakestreams.errors.places import FilePlace
from lakestreams.topology.topology import Topology

_PACKAGE: Final = Path(__file__).parents[1]


def topology_of(reference: str, document: Document, path: KeyPath, pipeline: str | None = None) -> Topology | None:
    """The topology that a function declares; None if a fault is in the way, which is noted in the document.

    Its module is found next to the file that names it, in the working directory, and among what is installed.

    Args:
        reference: `module:function`. The function returns a Topology or a StreamsBuilder, or takes a StreamsBuilder.
        document: the file that names it.
        path: where it does.
        pipeline: the name that the topology must have; any if not given.
    """
    with importing_from(Path.cwd()), importing_from(document.path.parent):
        return _topology_of(reference, document, path, pipeline)


def _topology_of(reference: str, document: Document, path: KeyPath, pipeline: str | None) -> Topology | None:
    function = _function(reference, document, path)
    if function is None:
        return None
    builder = StreamsBuilder(pipeline or reference.rpartition(":")[2])
    try:
        takes_builder = bool(inspect.signature(function).parameters)
        result = function(builder) if takes_builder else function()
        result = builder if result is None and takes_builder else result
        result = result.build() if isinstance(result, StreamsBuilder) else result
    except LakestreamsError as error:
        line = None if isinstance(error, TopologyInvalid) else _own_line(error)
        for fault in unfold(error):
            if line is not None:  # a call that is refused at once: its own line says more than the YAML file's
                fault.where = FilePlace(shown(Path(line.filename)), line.lineno or 1, str(fault.where or ""))
            fault.where = fault.where or document.where(path)
            document.faults.append(fault)
        return None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's own code may raise anything, and end Python
        message = f"{reference} raised {type(error).__name__}: {error}{_line_of(error)}"
        document.faults.append(ConfigInvalid(message, hint="correct the function", where=document.where(path)))
        return None
    if not isinstance(result, Topology):
        message = f"{reference} returned a {type(result).__name__}, not a Topology"
        hint = "return builder.build(), or take a StreamsBuilder and return None"
        document.faults.append(ConfigInvalid(message, hint=hint, where=document.where(path)))
        return None
    if pipeline is not None and result.name != pipeline:
        message = f"the pipeline is named {pipeline!r}, its topology {result.name!r}"
        document.faults.append(ConfigInvalid(message, hint="give both the same name", where=document.where(path)))
        return None
    return result


def _function(reference: str, document: Document, path: KeyPath) -> Callable[..., object] | None:
    module_name, _, name = reference.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), name, None)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - importing runs the user's own code
        absent = isinstance(error, ModuleNotFoundError) and error.name == module_name.partition(".")[0]
        what = "there is no such module" if absent else f"{type(error).__name__}: {error}{_line_of(error)}"
        message = f"{module_name} cannot be imported: {what}"
        hint = f"put it next to {document.path.name} or into the working directory, or install its package"
        hint = hint if absent else "correct the module"
        document.faults.append(UnknownReference(message, hint=hint, where=document.where(path)))
        return None
    if not callable(function):
        message = f"{module_name} has no function {name!r}"
        known = [key for key, one in vars(sys.modules[module_name]).items() if inspect.isfunction(one)]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {module_name}:{near[0]}?" if near else "name it module:function"
        document.faults.append(UnknownReference(message, hint=hint, where=document.where(path)))
        return None
    result: Callable[..., object] = function
    return result


def _line_of(error: BaseException) -> str:
    """Where the user's own code raised it, in parentheses."""
    if isinstance(error, SyntaxError):
        return ""  # it says so itself
    line = _own_line(error)
    return f" ({Path(line.filename).name}:{line.lineno})" if line else ""


def _own_line(error: BaseException) -> traceback.FrameSummary | None:
    """The last line of the traceback that is none of Python's import and none of lakestreams."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if "importlib" not in one.filename]
    own = [one for one in frames if _PACKAGE not in Path(one.filename).parents]
    return own[-1] if own else None


@contextlib.contextmanager
def importing_from(folder: Path) -> Iterator[None]:
    """Lets modules be imported from a folder, before all others: as `python -m` does with the working directory."""
    place = str(folder.resolve())
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)
