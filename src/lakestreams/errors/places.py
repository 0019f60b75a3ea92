"""Where an error's subject stands: at a node of a topology, or in a line of a file. Both are shown as text."""

from __future__ import annotations

from typing import Self


class NodePlace(str):
    """A node by its kind and name: `left_join "enriched"`.

    Attributes:
        word: the node's kind.
        name: the node's own name.
    """

    __slots__ = ("name", "word")

    word: str
    name: str

    def __new__(cls, word: str, name: str) -> Self:
        """The text, with its parts."""
        place = super().__new__(cls, f'{word} "{name}"')
        place.word, place.name = word, name
        return place

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles by its parts."""
        return (type(self), (self.word, self.name))


class FilePlace(str):
    """A line of a file, and what stands there: `conf/enrichment.yml:4  step "enriched"`.

    Attributes:
        file: the file as users know it.
        line: from 1.
        thing: the step, output or source, and the key in it; empty if none is meant.
    """

    __slots__ = ("file", "line", "thing")

    file: str
    line: int
    thing: str

    def __new__(cls, file: str, line: int, thing: str = "") -> Self:
        """The text, with its parts."""
        place = super().__new__(cls, f"{file}:{line}  {thing}" if thing else f"{file}:{line}")
        place.file, place.line, place.thing = file, line, thing
        return place

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles by its parts."""
        return (type(self), (self.file, self.line, self.thing))

    @property
    def line_alone(self) -> FilePlace:
        """The same line without what stands there."""
        return FilePlace(self.file, self.line)

    def below(self, key: str) -> FilePlace:
        """The same line, with a key of the thing."""
        return FilePlace(self.file, self.line, f"{self.thing}  {key}" if self.thing else f"{key}")
