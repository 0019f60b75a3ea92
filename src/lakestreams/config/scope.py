"""What a step or output of a file sees while it is declared: the handles before it, and where its faults are noted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from lakestreams.api.streams import KStream
from lakestreams.api.tables import GlobalKTable, KTable
from lakestreams.config.load import Document, KeyPath
from lakestreams.config.mappers import Computed, Projection
from lakestreams.errors import InvalidName, LakestreamsError, WrongKind
from lakestreams.expressions.environment import Written
from lakestreams.expressions.parse import Expression, compile_expression
from lakestreams.sql import NAME_HINT, name_fault
from lakestreams.topology.mappers import ByName

AnyHandle: TypeAlias = KStream | KTable | GlobalKTable

STREAM: Final = (KStream,)
TABLE: Final = (KTable,)
STREAM_OR_TABLE: Final = (KStream, KTable)
ANY: Final = (KStream, KTable, GlobalKTable)
_WORDS: Final[dict[type[AnyHandle], str]] = {KStream: "stream", KTable: "table", GlobalKTable: "global table"}
_CURES: Final[dict[type[AnyHandle], str]] = {
    KStream: "to_table makes a table of a stream; kind: table in the sources' file reads a topic as one",
    KTable: "to_stream makes a stream of a table's changes; kind: stream in the sources' file reads a topic as one",
    GlobalKTable: "a global table is the right side of a stream's join; kind: table in the sources' file keeps it by key",
}


def word_of(handle: AnyHandle) -> str:
    """What messages call it: a stream, a table or a global table."""
    return _WORDS[type(handle)]


class Scope:
    """One step or output that is declared.

    What it asks for and cannot have is a fault, or was one earlier; either way the scope is no longer `sound`, and the
    rest is looked at all the same, so that all faults are found at once.

    Attributes:
        document: the pipeline's file.
        handles: sources and steps that are declared, by name.
        path: to the step or output in the file.
        inside: the step's verb, below which its keys stand; of an output none.
        sound: whether it can be declared.
    """

    def __init__(
        self, document: Document, handles: Mapping[str, AnyHandle], path: KeyPath, inside: str | None = None
    ) -> None:
        self.document = document
        self.handles = handles
        self.path = path
        self.inside = inside
        self.sound = True

    def at(self, *keys: str) -> KeyPath:
        """The path to a key of it."""
        return (*self.path, *((self.inside,) if self.inside else ()), *keys)

    def fault(self, kind: type[LakestreamsError], message: str, path: KeyPath, hint: str | None = None) -> None:
        """Notes a fault."""
        self.sound = False
        self.document.faults.append(kind(message, hint=hint, where=self.document.where(path)))

    def handle(self, key: str, name: str, takes: tuple[type[AnyHandle], ...]) -> Any:
        """The stream or table of a name; whatever is used of it, is used only if the scope is sound.

        Args:
            key: the key that names it.
            name: the name.
            takes: what the step takes.
        """
        handle = self.handles.get(name)
        if handle is None:
            self.sound = False
        elif not isinstance(handle, takes):
            wanted = " or ".join(f"a {_WORDS[kind]}" for kind in takes)
            what = f"{self.inside} takes {wanted}" if self.inside else f"an output takes {wanted}"
            message = f"{key} is {name!r}, a {word_of(handle)}; {what}"
            self.fault(WrongKind, message, self.at(key), hint=_CURES[type(handle)])
        return handle

    def expression(self, text: str, path: KeyPath) -> Expression | None:
        """A checked expression; None if it is refused."""
        place = self.document.where(path).below(".".join(map(str, path[2:])))
        try:
            return compile_expression(Written(text, self.document.references), place)
        except LakestreamsError as fault:
            self.sound = False
            self.document.faults.append(fault)
            return None

    def computed(self, text: str, side: str, path: KeyPath) -> Computed | None:
        """A function that makes one column of an input."""
        expression = self.expression(text, path)
        return None if expression is None else Computed(expression, side)

    def projection(self, select: Mapping[str, str], sides: tuple[str, ...], path: KeyPath) -> Projection:
        """A function that makes columns of the inputs; without those whose name or expression is refused."""
        self.require_names(select, path)
        compiled = [(name, self.expression(text, (*path, name))) for name, text in select.items()]
        return Projection(tuple((name, one) for name, one in compiled if one is not None), sides)

    def require_names(self, names: Iterable[str], path: KeyPath) -> None:
        """Notes each name of a new column that tables cannot carry, at its place below a path."""
        for name in names:
            fault = name_fault(name)
            if fault is not None:
                self.fault(InvalidName, fault, (*path, name), hint=NAME_HINT)

    def columns(self, key: tuple[str, ...] | Mapping[str, str], side: str, path: KeyPath) -> ByName | Projection:
        """A function that makes a key's columns of an input: those named, or each computed."""
        return ByName(key) if isinstance(key, tuple) else self.projection(key, (side,), path)
