"""Regular expressions of configuration files: those that take forever on some text are refused.

Java's engine tries one way after another. Where a repetition can take the same text in several ways, their number grows
with the text's length, exponentially in the worst case, and one record then holds a job up for good. So a pattern is read
here, and each repetition in it must know by the next character whether it goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from math import prod
from typing import Final

MAX_LENGTH: Final = 1_000
"""Characters of a pattern."""
MAX_COUNT: Final = 1_000
"""What may stand in `{n}` and `{n,m}`."""
MAX_LOOSE: Final = 3
"""Open repetitions that may also take what follows them, such as each `.*` of `.*a.*b`; the time is a power of their number."""
MAX_WAYS: Final = 4_096
"""Ways in which the short repetitions and choices of a pattern can be combined, such as two for each `a?` of `a?a?a`."""

MAX_DEPTH: Final = 50
"""Groups within groups."""

_MOST_WAYS: Final = 20  # so many lengths are counted as ways; more are an open repetition
_POINTS: Final = 0x180
_ALL: Final = frozenset(range(_POINTS + 1))  # the last one stands for whatever lies behind
_DIGITS: Final = frozenset(map(ord, "0123456789"))
_WORD: Final = _DIGITS | frozenset(map(ord, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"))
_WHITE: Final = frozenset(map(ord, " \t\n\x0b\f\r"))
_CLASSES: Final = {"d": _DIGITS, "w": _WORD, "s": _WHITE, "D": _ALL - _DIGITS, "W": _ALL - _WORD, "S": _ALL - _WHITE}
_SIGNS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_COUNTED: Final = re.compile(r"\{(\d{1,6})(,(\d{0,6}))?\}")


class Refused(Exception):
    """Why a pattern is refused."""


@dataclass(frozen=True)
class _Node:
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
    parts: tuple[_Node, ...] = field(default=())


_NOTHING: Final = _Node(frozenset(), frozenset(), may_be_empty=True)


def fault(pattern: str) -> str | None:
    """Why a pattern is refused; None if it is not."""
    if len(pattern) > MAX_LENGTH:
        return f"it has {len(pattern)} characters; {MAX_LENGTH} are the most"
    try:
        found = _Reader(pattern).whole()
    except Refused as refused:
        return str(refused)
    if found.loose > MAX_LOOSE:
        return f"{found.loose} repetitions in it may also take what follows them; {MAX_LOOSE} are the most"
    if found.ways > MAX_WAYS:
        return f"its choices can take one text in {found.ways:,} ways; {MAX_WAYS:,} are the most"
    return None


class _Reader:
    """Reads Java's syntax, as far as it is let through."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0
        self._any_case = re.search(r"\(\?[a-z]*i", pattern) is not None

    def whole(self) -> _Node:
        found = self._choice()
        if self._at < len(self._text):
            msg = f"its character {self._at + 1}, {self._text[self._at]!r}, closes nothing"
            raise Refused(msg)
        return found

    def _choice(self) -> _Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            msg = f"its groups are nested more than {MAX_DEPTH} deep"
            raise Refused(msg)
        branches = [self._sequence()]
        while self._next_is("|"):
            branches.append(self._sequence())
        self._depth -= 1
        if len(branches) == 1:
            return branches[0]
        overlaps = any(
            one.first & other.first or one.may_be_empty or other.may_be_empty
            for one, other in combinations(branches, 2)
        )
        return _Node(
            frozenset().union(*(one.takes for one in branches)),
            frozenset().union(*(one.first for one in branches)),
            may_be_empty=any(one.may_be_empty for one in branches),
            loose=max(one.loose for one in branches),
            varies=any(one.varies for one in branches) or overlaps,
            alternates=True,
            ways=sum(one.ways for one in branches) if overlaps else max(one.ways for one in branches),
            slack=max(one.slack for one in branches),
            open=any(one.open for one in branches),
        )

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            parts.append(self._quantified(self._atom()))
        return _sequence([part for part in parts if part is not _NOTHING])

    # --- repetitions -------------------------------------------------------------------------------------------------

    def _quantified(self, atom: _Node) -> _Node:
        counts = self._counts()
        while counts is not None:
            least, most, possessive = counts
            atom = _repeated(atom, least, most, possessive=possessive)
            counts = self._counts()
        return atom

    def _counts(self) -> tuple[int, int | None, bool] | None:
        """Least and most times of a quantifier here, and whether it gives nothing back; None: there is none."""
        sign = self._text[self._at : self._at + 1]
        counted = _COUNTED.match(self._text, self._at)
        if sign in ("*", "+", "?") and sign:
            self._at += 1
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        elif counted is not None:
            self._at = counted.end()
            least = int(counted[1])
            most = least if counted[2] is None else int(counted[3]) if counted[3] else None
            if max(least, most or 0) > MAX_COUNT:
                msg = f"it repeats something {max(least, most or 0)} times; {MAX_COUNT} are the most"
                raise Refused(msg)
        else:
            return None
        possessive = self._next_is("+")
        if not possessive:
            self._next_is("?")  # lazy or not, the ways are as many
        return least, most, possessive

    # --- what is repeated --------------------------------------------------------------------------------------------

    def _atom(self) -> _Node:
        sign = self._take()
        if sign == "(":
            return self._group()
        if sign == "[":
            return self._set_of(self._class())
        if sign == "\\":
            return self._escape()
        if sign == ".":
            return self._set_of(_ALL)  # with (?s); without it the difference is a line's end
        if sign in "^$":
            return _NOTHING
        if sign in "*+?{":
            msg = f"the {sign} at its character {self._at} repeats nothing"
            raise Refused(msg)
        return self._set_of(_point(sign))

    def _group(self) -> _Node:
        if self._next_is("?"):
            flags = re.compile(r"([imsi]*)(-[imsi]*)?([:)])").match(self._text, self._at)
            name = re.compile(r"<[A-Za-z][A-Za-z0-9]*>").match(self._text, self._at)
            around = re.compile(r"<?[=!]").match(self._text, self._at)
            if flags is not None:
                self._at = flags.end()
                if flags[3] == ")":
                    return _NOTHING
            elif name is not None:
                self._at = name.end()
            elif around is not None:
                self._at = around.end()
                looked = self._closed(self._choice())
                return _Node(_ALL, _ALL, may_be_empty=True, loose=looked.loose, varies=True, ways=looked.ways)
            elif self._next_is(">"):
                inner = self._closed(self._choice())
                return _Node(inner.takes, inner.first, inner.may_be_empty, inner.loose, ways=inner.ways)
            else:
                msg = f"the group at its character {self._at - 1} is of a kind that is not allowed"
                raise Refused(msg)
        return self._closed(self._choice())

    def _closed(self, inner: _Node) -> _Node:
        if not self._next_is(")"):
            msg = "a ( in it is not closed"
            raise Refused(msg)
        return inner

    def _escape(self) -> _Node:
        sign = self._take()
        if sign in "123456789k":
            msg = "it refers back to a group, which Java tries in all ways"
            raise Refused(msg)
        if sign in "bBAzZG":
            self._skipped(r"\{g\}")
            return _NOTHING
        if sign == "Q":
            end = self._text.find("\\E", self._at)
            quoted, self._at = (
                (self._text[self._at :], len(self._text)) if end < 0 else (self._text[self._at : end], end + 2)
            )
            return _sequence([self._set_of(_point(one)) for one in quoted])
        if sign == "E":
            return _NOTHING
        return self._set_of(self._escaped(sign))

    def _escaped(self, sign: str) -> frozenset[int]:
        """The characters of an escape, its backslash and this sign read."""
        if sign in _CLASSES:
            return _CLASSES[sign]
        if sign in _SIGNS:
            return _point(_SIGNS[sign])
        if sign in "pPN":
            self._skipped(r"\{[^}]*\}|.")
            return _ALL
        if sign in "x0uc":
            self._skipped(r"\{[0-9A-Fa-f]+\}|[0-9A-Fa-f]{1,4}|.")
            return _ALL
        if sign.isascii() and sign.isalnum():
            return _ALL  # \h, \v, \R, \X and whatever Java may add
        return _point(sign)

    def _class(self) -> frozenset[int]:
        """The characters of [...], its [ read. Unions and intersections count as all."""
        negated = self._next_is("^")
        found: frozenset[int] = frozenset()
        simple, first = True, True
        while first or not self._next_is("]"):
            first = False
            sign = self._take()
            if sign == "[" or (sign == "&" and self._text[self._at : self._at + 1] == "&"):
                simple = False
                if sign == "[":
                    self._class()
                continue
            low = self._escaped(self._take()) if sign == "\\" else _point(sign)
            between = self._text[self._at : self._at + 1] == "-" and self._text[self._at + 1 : self._at + 2] not in (
                "]",
                "[",
                "",
            )
            if not between:
                found |= low
                continue
            self._at += 1
            sign = self._take()
            high = self._escaped(self._take()) if sign == "\\" else _point(sign)
            found |= frozenset(range(min(low), max(high) + 1))
        if not simple:
            return _ALL
        # what lies behind the points is in a negated class, and may be in another one
        return (_ALL - found) | {_POINTS} if negated else found

    # --- reading -----------------------------------------------------------------------------------------------------

    def _set_of(self, takes: frozenset[int]) -> _Node:
        if self._any_case:
            takes |= {ord(other) for point in takes if point < _POINTS for other in _cases(chr(point))}
        return _Node(takes, takes)

    def _take(self) -> str:
        if self._at >= len(self._text):
            msg = "it ends in the middle"
            raise Refused(msg)
        self._at += 1
        return self._text[self._at - 1]

    def _next_is(self, sign: str) -> bool:
        found = self._text.startswith(sign, self._at)
        self._at += len(sign) if found else 0
        return found

    def _skipped(self, pattern: str) -> None:
        found = re.compile(pattern).match(self._text, self._at)
        self._at = found.end() if found is not None else self._at


def _point(sign: str) -> frozenset[int]:
    return frozenset((min(ord(sign), _POINTS),))


def _cases(sign: str) -> Iterator[str]:
    yield from (one for one in (sign.lower(), sign.upper()) if len(one) == 1 and ord(one) < _POINTS)


def _sequence(parts: list[_Node]) -> _Node:
    if len(parts) == 1:
        return parts[0]
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
    return _Node(
        frozenset().union(*(part.takes for part in parts)),
        first,
        may_be_empty=all(part.may_be_empty for part in parts),
        loose=loose,
        varies=any(part.varies for part in parts),
        ways=ways,
        slack=parts[-1].slack if parts else 1,
        open=bool(parts) and parts[-1].open,
        parts=tuple(parts),
    )


def _following(parts: list[_Node]) -> frozenset[int]:
    """What may come next, up to the first part that takes at least one character."""
    found: frozenset[int] = frozenset()
    for part in parts:
        found |= part.first
        if not part.may_be_empty:
            break
    return found


def _repeated(atom: _Node, least: int, most: int | None, *, possessive: bool) -> _Node:
    """A part that is repeated.

    Raises:
        Refused: if one text can be cut into its repetitions in several ways.
    """
    several = most is None or most > 1
    if several and not possessive and (atom.varies or atom.may_be_empty) and not _is_cut_by_a_sign(atom):
        what = "a choice whose parts begin alike" if atom.alternates else "what may itself be of several lengths"
        msg = f"it repeats {what}, so that one text can be cut in many ways"
        raise Refused(msg)
    changes = most != least and not possessive
    return _Node(
        atom.takes,
        atom.first,
        may_be_empty=least == 0 or atom.may_be_empty,
        loose=atom.loose,
        varies=atom.varies or changes,
        # of what varies only what is cut by a sign gets here, so that the ways of one are those of all
        ways=atom.ways,
        slack=most - least + 1 if changes and most is not None and most - least <= _MOST_WAYS else 1,
        open=not possessive and (most is None or most - least > _MOST_WAYS),
    )


def _is_cut_by_a_sign(atom: _Node) -> bool:
    """Whether each repetition begins, or ends, with a character that it has nowhere else, as in `([a-z]+,)*`."""
    if len(atom.parts) < 2:
        return False
    for sign, others in ((atom.parts[0], atom.parts[1:]), (atom.parts[-1], atom.parts[:-1])):
        fixed = not sign.varies and not sign.may_be_empty and not sign.parts and not sign.alternates
        if fixed and not any(sign.takes & other.takes for other in others) and not any(map(_is_loose_inside, others)):
            return True
    return False


def _is_loose_inside(part: _Node) -> bool:
    return part.loose > 0


__all__ = ["MAX_COUNT", "MAX_LENGTH", "MAX_LOOSE", "MAX_WAYS", "fault"]
