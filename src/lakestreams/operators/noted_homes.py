"""What is noted of where keys lie: by which partitioners they lie at home, and the few keys that do not. Plain Python.

Noted where records are read (`homes.laws_of`), so that a join need not look at them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

NotedKey: TypeAlias = str | int
Homes: TypeAlias = Mapping[tuple[str, int], frozenset[NotedKey]]
"""Partitioner and partition count to the keys that lie elsewhere: what is not there is not known."""
MOST = 20
"""Keys that lie elsewhere; where there are more, a partitioner is not noted."""
_Law = TypeVar("_Law")


@dataclass(frozen=True)
class NotedHomes:
    """What is known of rows without a look at them.

    Attributes:
        elsewhere: the partitioners by which keys lie at home, to the keys that do not.
        rows: how many the task has that has most; not fewer.
    """

    elsewhere: Mapping[str, frozenset[NotedKey]]
    rows: int


def of_all(parts: Sequence[Mapping[_Law, Iterable[NotedKey]]]) -> dict[_Law, frozenset[NotedKey]]:
    """What is known of all keys, from what is known of some and of the others."""
    laws = [law for law in parts[0] if all(law in one for one in parts)] if parts else []
    both = {law: frozenset[NotedKey]().union(*(one[law] for one in parts)) for law in laws}
    return {law: keys for law, keys in both.items() if len(keys) <= MOST}
