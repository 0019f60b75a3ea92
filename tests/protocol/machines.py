"""Machines of the protocol as numbers: a place is where a machine stands, with what it knows; each is computed once.

A generator cannot be copied. So a place has the answers that lead to it, and a new one is found by running the machine
again. Two ways that lead to the same line with equal local variables lead to the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from lakestreams.engine.protocol import commands, machines

IDLE = 0


@dataclass(frozen=True)
class Ended:
    """A machine's end: `ok` with what it returned, the code of the error that it stopped with, or `broken`: it met what cannot be."""

    how: str
    value: Any = None


class Numbers:
    """Values as numbers, by their `repr`; equal values have one number."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[str, int] = {}

    def of(self, value: Any) -> int:
        key = repr(value)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.values)
            self.values.append(value)
        return number


class Machines:
    """Places of several kinds of machines, each begun by a function without arguments."""

    def __init__(self, kinds: dict[str, Callable[[], Generator[Any, Any, Any]]]) -> None:
        self._kinds = kinds
        self._paths: list[tuple[str, tuple[int, ...]]] = [("", ())]
        self._places: dict[str, int] = {}
        self._next: dict[tuple[int, int], int] = {}
        self.answers = Numbers()
        self.commands: list[Any] = [
            None
        ]  # by place: a command, or `Ended`; and of those side by side, each by one of its own
        self.parts: dict[int, tuple[int, ...]] = {}  # place of several commands to the places of each
        self.along: dict[int, int] = {}  # place of an append to that of another one in the same commit
        self.begun = {kind: self._place(kind, ()) for kind in kinds}

    def begin(self, command: commands.Begin) -> int:
        """The place where a machine begins that another one has asked for."""
        kind = repr(command)
        if kind not in self._kinds:
            self._kinds[kind] = lambda: getattr(machines, command.machine)(*command.of)
            self.begun[kind] = self._place(kind, ())
        return self.begun[kind]

    def after(self, place: int, answer: int) -> int:
        """The place behind one, when its command is answered."""
        key = (place, answer)
        found = self._next.get(key)
        if found is None:
            kind, path = self._paths[place]
            found = self._next[key] = self._place(kind, (*path, answer))
        return found

    def _place(self, kind: str, path: tuple[int, ...]) -> int:
        machine = self._kinds[kind]()
        try:
            command = machine.send(None)
            for answer in path:
                command = machine.send(self.answers.values[answer])
        except StopIteration as ended:
            command = Ended("ok", ended.value)
        except commands.Stop as stop:
            command = Ended(stop.code, stop.message)
        except AssertionError as error:
            command = Ended("broken", str(error))
        key = f"{kind} {command!r}" + ("" if isinstance(command, Ended) else _frames(machine))
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self.commands)
            self.commands.append(command)
            self._paths.append((kind, path))
            if isinstance(command, commands.Together):
                self.parts[place] = tuple(map(self._part, command.appends))
        return place

    def together(self, first: int, last: int) -> int:
        """The place of two appends in one commit, which Delta knows by the last."""
        key = f"{first} with {last}"
        place = self._places.setdefault(key, len(self.commands))
        if place == len(self.commands):
            self.commands.append(self.commands[last])
            self._paths.append(("", ()))
            self.along[place] = first
        return place

    def _part(self, command: commands.Append) -> int:
        place = self._places.setdefault(repr(command), len(self.commands))
        if place == len(self.commands):
            self.commands.append(command)
            self._paths.append(("", ()))
        return place


def _frames(machine: Any) -> str:
    """Where a machine stands, and its variables, down to the innermost generator."""
    told = []
    while machine is not None and getattr(machine, "gi_frame", None) is not None:
        frame = machine.gi_frame
        told.append((machine.__qualname__, frame.f_lasti, sorted(frame.f_locals.items(), key=lambda one: one[0])))
        machine = machine.gi_yieldfrom
    return repr(told)
