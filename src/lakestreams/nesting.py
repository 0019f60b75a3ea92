"""How deep what users write may nest: the same in each process, whatever stack Python has there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

MOST_LEVELS: Final = 100
"""How many calls, brackets or types may lie in each other in an expression or a declaration."""

# Of Python's own stack. The default of 1,000 ends at some 40 calls in each other, since a parser takes many frames a
# level; a thousand levels of JSON take 2,000.
_STACK: Final = 4_000


def ensure_stack() -> None:
    """Sees to the stack that the bounds need; a higher one, which some library may have set, is left alone.

    Whatever nests deeper than a bound must be refused by the bound: where Python's stack ends differs by process.
    """
    if sys.getrecursionlimit() < _STACK:
        sys.setrecursionlimit(_STACK)


def with_stack(read: Callable[[], T]) -> T:
    """What it gives, with more stack if that of the process does not suffice: who calls may have used most of it.

    Raises:
        RecursionError: if no stack suffices.
    """
    try:
        return read()
    except RecursionError:
        ensure_stack()
    return read()


__all__ = ["MOST_LEVELS", "ensure_stack", "with_stack"]
