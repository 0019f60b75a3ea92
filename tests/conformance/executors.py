"""Who runs cases: a table of names, each with a loader, so that nobody imports Spark who does not need it.

An executor lives in the module of its name beside this one, which has a function `executor(seed: int) -> Executor`.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from tests.conformance.cases import Case, Row, Rules


@dataclass(frozen=True)
class Outcome:
    """What came out of a case: rows in order and, under `strict`, who was late; or why there is nothing."""

    rows: tuple[Row, ...] = ()
    late: tuple[int, ...] = ()  # offset_order
    error: str | None = None  # why it could not be run
    left_out: str | None = None  # why this executor cannot take such a case


class Executor(Protocol):
    """Runs many cases at once, so that they can share work; answers by case id. A case without an answer has failed."""

    def run(self, cases: Sequence[Case], rules: Rules) -> Mapping[str, Outcome]: ...


class Absent:
    """Stands for an executor that is not written yet: every case fails."""

    def __init__(self, name: str) -> None:
        self._name = name

    def run(self, cases: Sequence[Case], rules: Rules) -> Mapping[str, Outcome]:
        del rules
        return {case.id: Outcome(error=f"executor {self._name!r} is not there yet") for case in cases}


def load_executor(name: str, seed: int) -> Executor:
    """The executor in the module of this name; one that fails every case where there is no such module."""
    module = f"{__package__}.{name}"
    if importlib.util.find_spec(module) is None:
        return Absent(name)
    executor: Executor = importlib.import_module(module).executor(seed)
    return executor


EXECUTORS: Mapping[str, Callable[[int], Executor]] = {
    name: partial(load_executor, name) for name in ("reference", "batch", "cuts", "stream")
}
