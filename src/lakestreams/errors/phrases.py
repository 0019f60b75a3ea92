"""Texts in two languages: as a user of the Python DSL types options, and as a configuration file has them.

A file is declared with the same builder as a Python topology, so what is wrong with it is said once. The parts of a text
that read differently in a file are objects here; everything else is the same in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol


class Part(Protocol):
    """A part of a text that reads differently in a file."""

    @property
    def python(self) -> str:
        """As a Python topology has it."""

    @property
    def file(self) -> str:
        """As a file has it."""


class _Nothing:
    """Stands for an option that is named without a value; None may be a value."""


_NAMED: Final = _Nothing()


@dataclass(frozen=True)
class Option:
    """An option that a message or hint names: `within=` or `within="5 minutes"`, in a file `within: 5 minutes`.

    Attributes:
        name: the option, which is also the key in a file.
        value: a text or count to be typed; without one the option is only named.
    """

    name: str
    value: str | int | _Nothing = _NAMED

    @property
    def python(self) -> str:
        """As a keyword argument."""
        if isinstance(self.value, _Nothing):
            return f"{self.name}="
        return f'{self.name}="{self.value}"' if isinstance(self.value, str) else f"{self.name}={self.value:_}"

    @property
    def file(self) -> str:
        """As a key."""
        return self.name if isinstance(self.value, _Nothing) else f"{self.name}: {self.value}"


@dataclass(frozen=True)
class OptionValue:
    """An option with the value that a user has given: `mode='all'`, in a file `mode: all`.

    Attributes:
        name: the option, which is also the key in a file.
        value: whatever was given. Texts and counts read as they stand in a file, anything else as Python shows it.
        in_files: whether a file's text has the value; a joiner or a list of columns says nothing there.
    """

    name: str
    value: object
    in_files: bool = True

    @property
    def python(self) -> str:
        """As a keyword argument."""
        return f"{self.name}={self.value!r}"

    @property
    def file(self) -> str:
        """As a key."""
        if not self.in_files:
            return self.name
        if isinstance(self.value, str):
            return f"{self.name}: {repr(self.value)[1:-1]}"  # what a terminal would obey stays escaped
        is_count = isinstance(self.value, int) and not isinstance(self.value, bool) and self.value >= 0
        return f"{self.name}: {self.value}" if is_count else self.python


@dataclass(frozen=True)
class Either:
    """Words that are others in a file: `leave as_of out`, in a file `leave history out`."""

    python: str
    file: str


@dataclass(frozen=True, init=False)
class Phrase:
    """A message or hint in both languages.

    Attributes:
        parts: words that are the same in both, and parts that are not.
    """

    parts: tuple[str | Part, ...]

    def __init__(self, *parts: str | Part) -> None:
        object.__setattr__(self, "parts", parts)

    @property
    def python(self) -> str:
        """As a user of the Python DSL reads it."""
        return "".join(part if isinstance(part, str) else part.python for part in self.parts)

    @property
    def file(self) -> str:
        """As the author of a file reads it."""
        return "".join(part if isinstance(part, str) else part.file for part in self.parts)

    @property
    def option_value(self) -> OptionValue | None:
        """The option that a user has given, if the text names one."""
        return next((part for part in self.parts if isinstance(part, OptionValue)), None)

    @staticmethod
    def of(text: str | Phrase) -> Phrase:
        """A plain text reads the same in both languages."""
        return Phrase(text) if isinstance(text, str) else text

    @staticmethod
    def listed(options: list[str], between: str) -> Phrase:
        """Several options by name, with words between them."""
        parts: list[str | Part] = []
        for option in options:
            parts += [between, Option(option)] if parts else [Option(option)]
        return Phrase(*parts)
