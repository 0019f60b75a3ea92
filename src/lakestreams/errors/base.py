"""The base of all errors: code, message, hint and place; and the catalogue of all classes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import ClassVar

from lakestreams.errors.phrases import Phrase
from lakestreams.errors.places import NodePlace
from lakestreams.visible import visible, visible_lines


class LakestreamsError(Exception):
    """Base of all errors that lakestreams raises on purpose.

    Args:
        message: what is wrong, naming the user's thing.
        hint: what to do about it; defaults to the class's hint.
        where: where the user wrote it (a line of a file, a node, any words), if known.
        option, option_value: the option that the error is about, and its value; by default those that the message has.
        takes: what that option, or the step, takes instead.

    Attributes:
        message, hint: as a user of the Python DSL reads them.
        option: the option that the error is about, which is also the key in a file; None if it is about none.
        option_value: the value that the user has given it; None if it says nothing.
        takes: the choices there are, if they are counted.
    """

    code: ClassVar[str] = "LS000"
    name: ClassVar[str] = "LAKESTREAMS"
    hint: str = "Please report this with the log file."
    hint_in_files: ClassVar[str | None] = None  # where the class's hint reads differently in a file

    def __init__(
        self,
        message: str | Phrase,
        hint: str | Phrase | None = None,
        where: str | None = None,
        *,
        option: str | None = None,
        given: object = None,
        takes: Sequence[str] = (),
    ) -> None:
        said = Phrase.of(message)
        super().__init__(said.python)
        self.message = said.python
        self.where = where
        self.option = option or (said.option_value.name if said.option_value else None)
        self.given = said.option_value.value if given is None and said.option_value else given
        self.takes = tuple(takes)
        self._file_message = said.file
        self._file_hint = self.hint_in_files or self.hint
        if hint is not None:
            advice = Phrase.of(hint)
            self.hint, self._file_hint = advice.python, advice.file

    @property
    def node(self) -> NodePlace | None:
        """The node that the error is about, unless a line of a file is known."""
        return self.where if isinstance(self.where, NodePlace) else None

    def speak_yaml(self) -> None:
        """From here on message and hint name options as the author of a file types them."""
        self.message, self.hint = self._file_message, self._file_hint
        self.args = (self.message,)

    def __str__(self) -> str:
        """The error as it is printed: code and place, message, fix, and the command that says more."""
        place = f"   {self.where}" if self.where else ""
        body = "\n".join(f"  {line}" for line in visible_lines(self.message).splitlines())
        more = f"lakestreams explain {self.code}"
        return f"{self.code} {self.name}{visible(place)}\n{body}\n  Fix: {visible_lines(self.hint)}        {more}"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles by its texts: errors cross process borders inside foreachBatch, and what was given need not."""
        return (type(self), (self.message, self.hint, self.where), {"option": self.option, "takes": self.takes})

    def as_dict(self) -> dict[str, str | None]:
        """The error for `--json`: code, name, message, hint, where."""
        return {
            "code": self.code,
            "name": self.name,
            "message": self.message,
            "hint": self.hint,
            "where": self.where,
        }


def meaning(cls: type[LakestreamsError]) -> str:
    """What an error means: its docstring up to the arguments."""
    if cls is LakestreamsError:
        return "Something went wrong that lakestreams has no error of its own for. The whole trace is in the log file."
    return inspect.cleandoc(cls.__doc__ or "").partition("\n\nArgs:")[0]


def catalogue() -> Iterator[type[LakestreamsError]]:
    """Every error class, ordered by code."""
    found: dict[str, type[LakestreamsError]] = {}
    waiting: list[type[LakestreamsError]] = list(LakestreamsError.__subclasses__())
    while waiting:
        cls = waiting.pop()
        waiting.extend(cls.__subclasses__())
        found[cls.code] = cls
    yield from (found[code] for code in sorted(found))
