"""The parts of a pattern: what one takes, in how many ways, and what it costs Java.

Each part is known by what it may take, so that a repetition can be judged by what is repeated and by what follows it. Java
repeats some parts in a loop, and for others it calls itself in each round: these need a bound, for its stack has one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import combinations
from math import prod
from typing import Final, Literal

from lakestreams.expressions.text import Fault

MOST_WAYS: Final = 20  # so many lengths are counted as ways; more are an open repetition
BEYOND: Final = 0x180
"""Stands for the characters from here on that Java holds in one unit of a text."""
FAR: Final = BEYOND + 1
"""Stands for those that it holds in two: emoji, and rare scripts."""
ALL: Final = frozenset(range(FAR + 1))

STACK_HINT: Final = "make the repetition possessive, as in (a|b)*+ or ([a-z]+,)*+, or repeat one class, as in [ab]*"

Mode = Literal["greedy", "lazy", "possessive"]
"""How a repetition takes as much as it can, as little, or gives nothing back."""


class Refused(Exception):
    """Why a pattern is refused."""

    def __init__(self, why: str, hint: str | None = None) -> None:
        super().__init__(why)
        self.fault = Fault(why, hint)


@dataclass(frozen=True)
class Node:
    """A part of a pattern.

    Attributes:
        takes: characters that it may take, anywhere in it.
        first: characters that it may begin with.
        may_be_empty: whether it may take none.
        loose: open repetitions in it that may also take what follows them.
        varies: whether what it takes may be of several lengths.
        alternates: whether it is a choice between parts.
        ways: in how many ways the same text can be taken by its choices and short repetitions.
        slack: how many lengths it may have at its end, if these are few.
        open: whether it is, or ends in, a repetition with no bound near by.
        parts: of a sequence, what follows each other.
        form: whether it is one character, an atomic group, or anything else: Java repeats the first two in a loop.
        uneven: whether Java finds a choice or a length that varies in it, possessive or not. It repeats a group with such
            a part by calling itself.
        units: how many of Java's units of text it takes; None if these are not always as many.
        calls: about how many calls deep Java is at its end.
    """

    takes: frozenset[int]
    first: frozenset[int]
    may_be_empty: bool = False
    loose: int = 0
    varies: bool = False
    alternates: bool = False
    ways: int = 1
    slack: int = 1
    open: bool = False
    parts: tuple[Node, ...] = field(default=())
    form: Literal["character", "atomic", "other"] = "other"
    uneven: bool = False
    units: int | None = 0
    calls: int = 1


NOTHING: Final = Node(frozenset(), frozenset(), may_be_empty=True)
"""A place in a text, such as its end."""


def character(takes: frozenset[int]) -> Node:
    """One character of several."""
    units = None if FAR in takes and len(takes) > 1 else 2 if FAR in takes else 1
    return Node(takes, takes, form="character", units=units)


def cluster() -> Node:
    r"""What `\R` and `\X` take: one or more characters that are shown as one."""
    return Node(ALL, ALL, units=None)


def grouped(inner: Node) -> Node:
    """A part in parentheses."""
    return replace(inner, form="other", calls=inner.calls + 2)


def atomic(inner: Node) -> Node:
    """A part in `(?>...)`."""
    return Node(
        inner.takes, inner.first, inner.may_be_empty, inner.loose, ways=inner.ways,
        form="atomic", uneven=inner.uneven, units=inner.units, calls=inner.calls + 1,
    )  # fmt: skip


def looked_at(inner: Node) -> Node:
    """A part that is looked for ahead or behind."""
    return Node(ALL, ALL, may_be_empty=True, loose=inner.loose, varies=True, ways=inner.ways, calls=inner.calls + 1)


def choice(branches: list[Node]) -> Node:
    """One of several parts."""
    overlaps = any(
        one.first & other.first or one.may_be_empty or other.may_be_empty for one, other in combinations(branches, 2)
    )
    units = {one.units for one in branches}
    return Node(
        frozenset().union(*(one.takes for one in branches)),
        frozenset().union(*(one.first for one in branches)),
        may_be_empty=any(one.may_be_empty for one in branches),
        loose=max(one.loose for one in branches),
        varies=any(one.varies for one in branches) or overlaps,
        alternates=True,
        ways=sum(one.ways for one in branches) if overlaps else max(one.ways for one in branches),
        slack=max(one.slack for one in branches),
        open=any(one.open for one in branches),
        uneven=True,
        units=units.pop() if len(units) == 1 else None,
        calls=max(one.calls for one in branches) + 2,
    )


def sequence(read: list[Node]) -> Node:
    """Parts that follow each other."""
    parts = [part for part in read if part is not NOTHING]
    calls = sum(part.calls for part in read)
    if len(parts) == 1:
        return replace(parts[0], calls=calls)
    first: frozenset[int] = frozenset()
    for part in parts:
        first |= part.first
        if not part.may_be_empty:
            break
    loose, ways = sum(part.loose for part in parts), prod(part.ways for part in parts)
    for place, part in enumerate(parts[:-1]):
        if part.takes & _following(parts[place + 1 :]):
            loose += part.open
            ways *= part.slack
    units = [part.units for part in parts if part.units is not None]
    return Node(
        frozenset().union(*(part.takes for part in parts)),
        first,
        may_be_empty=all(part.may_be_empty for part in parts),
        loose=loose,
        varies=any(part.varies for part in parts),
        ways=ways,
        slack=parts[-1].slack if parts else 1,
        open=bool(parts) and parts[-1].open,
        parts=tuple(parts),
        uneven=any(part.uneven for part in parts),
        units=sum(units) if len(units) == len(parts) else None,
        calls=calls,
    )


def _following(parts: list[Node]) -> frozenset[int]:
    """What may come next, up to the first part that takes at least one character."""
    found: frozenset[int] = frozenset()
    for part in parts:
        found |= part.first
        if not part.may_be_empty:
            break
    return found


def repeated(atom: Node, least: int, most: int | None, mode: Mode) -> Node:
    """A part that is repeated.

    Raises:
        Refused: if one text can be cut into its repetitions in several ways, or if Java's stack has no bound.
    """
    several, possessive = most is None or most > 1, mode == "possessive"
    if several and not possessive and (atom.varies or atom.may_be_empty) and not _is_cut_by_a_sign(atom):
        what = "a choice whose parts begin alike" if atom.alternates else "what may itself be of several lengths"
        msg = f"it repeats {what}, so that one text can be cut in many ways"
        raise Refused(msg)
    changes = most != least and not possessive
    return Node(
        atom.takes,
        atom.first,
        may_be_empty=least == 0 or atom.may_be_empty,
        loose=atom.loose,
        varies=atom.varies or changes,
        # of what varies only what is cut by a sign gets here, so that the ways of one are those of all
        ways=atom.ways,
        slack=most - least + 1 if changes and most is not None and most - least <= MOST_WAYS else 1,
        open=not possessive and (most is None or most - least > MOST_WAYS),
        uneven=atom.uneven or most != least,
        units=atom.units * least if most == least and atom.units is not None else None,
        calls=_calls(atom, least, most, mode),
    )


def _calls(atom: Node, least: int, most: int | None, mode: Mode) -> int:
    """About how many calls deep Java is behind a repetition. It is tried out in tests/expressions/test_stack.py.

    Raises:
        Refused: if each round is a call within the last one's, and their number has no bound.
    """
    once = atom.calls + 2
    if mode == "possessive" or atom.form == "character" or most == 1:
        return once
    if atom.uneven and atom.form != "atomic":
        rounds, deep = most, once
    elif atom.units is None and mode == "greedy":  # a loop, until a round takes more or less than the one before
        rounds, deep = None if most is None else most - least, 2
    else:
        return once
    if rounds is None:
        msg = (
            "it repeats, with no bound, what Java calls itself for in each round: some 10 KB of text overflow its stack"
        )
        raise Refused(msg, STACK_HINT)
    return once + rounds * deep


def _is_cut_by_a_sign(atom: Node) -> bool:
    """Whether each repetition begins, or ends, with a character that it has nowhere else, as in `([a-z]+,)*`."""
    if len(atom.parts) < 2:
        return False
    for sign, others in ((atom.parts[0], atom.parts[1:]), (atom.parts[-1], atom.parts[:-1])):
        fixed = not sign.varies and not sign.may_be_empty and not sign.parts and not sign.alternates
        if fixed and not any(sign.takes & other.takes for other in others) and not any(map(_is_loose_inside, others)):
            return True
    return False


def _is_loose_inside(part: Node) -> bool:
    return part.loose > 0


__all__ = [
    "ALL", "BEYOND", "FAR", "NOTHING", "STACK_HINT", "Mode", "Node", "Refused", "atomic", "character", "choice", "cluster", "grouped", "looked_at",
    "repeated", "sequence",
]  # fmt: skip
