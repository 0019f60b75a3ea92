"""Short ways to write histories down in tests of the specification."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from tests.reference.records import Join, Record, Result

Arm = Literal["left", "right"]
Event = tuple[Arm, Any, Any, int]  # side, key, value, ts
Maker = Callable[[], Join]


def slash(_: Any, left: Any, right: Any) -> str:
    """The notation of the scenarios: `left/right`, a dot is a missing side."""
    return f"{'.' if left is None else left}/{'.' if right is None else right}"


def record(arm: Arm, key: Any, value: Any, ts: int, *, offset: int = 0, task: int = 0) -> Record:
    return Record(arm, task, offset, ts, key, value)


def play(join: Join, events: Iterable[Event], *, task: int = 0) -> list[Result]:
    """The results of events in this order; offsets count from 1."""
    results: list[Result] = []
    for offset, (arm, key, value, ts) in enumerate(events, start=1):
        results += getattr(join, arm)(record(arm, key, value, ts, offset=offset, task=task))
    return results


def rows(results: Iterable[Result]) -> list[tuple[Any, Any, int, int]]:
    """(key, value, ts, offset of the cause)."""
    return [(one.key, one.value, one.ts, one.cause.offset) for one in results]


def values(join: Join, *events: Event) -> list[Any]:
    return [result.value for result in play(join, events)]


def after_bar(_: Any, value: Any) -> Any:
    """A foreign key: what comes after the bar, if there is one."""
    return value.partition("|")[2] or None
