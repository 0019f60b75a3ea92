"""Which number to give to each of a few things so that Spark spreads them evenly over its tasks.

Spark places a row by the Murmur3 hash of a column, modulo the number of tasks. For thousands of keys that is even; for the
partitions of a topic it is not: of the numbers 0 to 3 three fall into the same one of four tasks, which then does three
quarters of the work while the others wait. So each of them gets another number, chosen by where its hash falls.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.records import TASK

if TYPE_CHECKING:
    from pyspark.sql import Column

_MASK: Final = 0xFFFFFFFF
_SEED: Final = 42
_MOST_TASKS: Final = 1 << 10


def balanced(weights: Mapping[int, int], tasks: int) -> dict[int, int]:
    """A number for each thing, such that hashing it places the things evenly by their weights.

    Args:
        weights: what is to be spread to how much work it is.

    Returns:
        Thing to number; equal numbers are placed together. With one task, or nothing to spread, all are equal.
    """
    if tasks <= 1 or len(weights) <= 1:
        return dict.fromkeys(weights, 0)
    loads = dict.fromkeys(range(min(tasks, len(weights))), 0)
    numbers = _numbers(len(loads), tasks)
    found: dict[int, int] = {}
    for thing in sorted(weights, key=lambda one: (-weights[one], one)):  # the heaviest first, to where least is
        task = min(loads, key=lambda one: (loads[one], one))
        loads[task] += weights[thing]
        found[thing] = numbers[task]
    return found


def evenly(task: Column, tasks: int) -> Column:
    """A task's number as another one, by which tasks are spread evenly over two, four, eight and more of Spark's.

    Each has its own, so rows may be partitioned by it in the task's place. More than a thousand tasks, and those of
    many histories that share a job, are spread well enough as they are.

    Args:
        task: an int.
    """
    if not 1 < tasks <= _MOST_TASKS:
        return task
    numbers = F.array(*(F.lit(number) for number in _numbers(tasks, _power_of_two(tasks))))
    return F.when(task < tasks, F.get(numbers, task)).otherwise(-task)


def by_task(tasks: int) -> tuple[Column, int]:
    """By what rows of so many tasks are exchanged, and over how many of Spark's, so that each has one of its own."""
    return evenly(F.col(TASK), tasks), _power_of_two(tasks) if 1 < tasks <= _MOST_TASKS else tasks


def _power_of_two(count: int) -> int:
    """The next one that is not below a count."""
    return 1 << (count - 1).bit_length()


@lru_cache
def _numbers(count: int, tasks: int) -> tuple[int, ...]:
    """Numbers whose hashes are 0, 1, 2 and so on, modulo so many tasks."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < count:
        task = hashed(number) % tasks
        if task < count:
            found.setdefault(task, number)
        number += 1
    return tuple(found[task] for task in range(count))


def hashed(number: int) -> int:
    """Spark's `hash` of an int (Murmur3, 32 bits, seed 42), signed as Spark's is."""
    mixed = number & _MASK
    mixed = mixed * 0xCC9E2D51 & _MASK
    mixed = (mixed << 15 | mixed >> 17) & _MASK
    mixed = mixed * 0x1B873593 & _MASK
    state = _SEED ^ mixed
    state = (state << 13 | state >> 19) & _MASK
    state = (state * 5 + 0xE6546B64) & _MASK
    state ^= 4  # bytes of an int
    state ^= state >> 16
    state = state * 0x85EBCA6B & _MASK
    state ^= state >> 13
    state = state * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >= 1 << 31 else state
