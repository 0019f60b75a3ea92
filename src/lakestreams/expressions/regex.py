"""Regular expressions of configuration files: those that take forever on some text, or all of Java's stack, are refused.

Java's engine tries one way after another. Where a repetition can take the same text in several ways, their number grows
with the text's length, exponentially in the worst case, and one record then holds a job up for good. So a pattern is read
here, and each repetition in it must know by the next character whether it goes on.

It also calls itself in each round of some repetitions, such as `(a|b)*` and `([a-z]+,)*`, and keeps these calls to the end of
the text. Spark takes the overflow of a stack for the end of its process, so one record of some 10 KB would stop every executor
that tries it. Such a repetition needs a bound, or a `+` behind it, which makes a loop of it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Final

from lakestreams.expressions.repeats import (
    ALL,
    BEYOND,
    FAR,
    NOTHING,
    STACK_HINT,
    Mode,
    Node,
    Refused,
    atomic,
    character,
    choice,
    cluster,
    grouped,
    looked_at,
    repeated,
    sequence,
)
from lakestreams.expressions.text import Fault

MAX_LENGTH: Final = 1_000
"""Characters of a pattern."""
MAX_COUNT: Final = 1_000
"""What may stand in `{n}` and `{n,m}`."""
MAX_LOOSE: Final = 3
"""Open repetitions that may also take what follows them, such as each `.*` of `.*a.*b`; the time is a power of their number."""
MAX_WAYS: Final = 4_096
"""Ways in which the short repetitions and choices of a pattern can be combined, such as two for each `a?` of `a?a?a`."""

MAX_CALLS: Final = 3_000
"""Calls within calls of Java's engine. Code that is not compiled yet has room for some 7,000 in a thread of 1 MB, Spark's included."""

MAX_DEPTH: Final = 50
"""Groups within groups."""

_DIGITS: Final = frozenset(map(ord, "0123456789"))
_WORD: Final = _DIGITS | frozenset(map(ord, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"))
_WHITE: Final = frozenset(map(ord, " \t\n\x0b\f\r"))
_CLASSES: Final = {"d": _DIGITS, "w": _WORD, "s": _WHITE, "D": ALL - _DIGITS, "W": ALL - _WORD, "S": ALL - _WHITE}
_CODES: Final = re.compile(r"x\{([0-9A-Fa-f]{1,6})\}|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})")
_SIGNS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_LAST_OF_ONE_UNIT: Final = 0xFFFF
_COUNTED: Final = re.compile(r"\{(\d{1,6})(,(\d{0,6}))?\}")


def fault(pattern: str) -> Fault | None:
    """Why a pattern is refused; None if it is not."""
    if len(pattern) > MAX_LENGTH:
        return Fault(f"it has {len(pattern)} characters; {MAX_LENGTH} are the most")
    try:
        found = _Reader(pattern).whole()
    except Refused as refused:
        return refused.fault
    if found.loose > MAX_LOOSE:
        return Fault(f"{found.loose} repetitions in it may also take what follows them; {MAX_LOOSE} are the most")
    if found.ways > MAX_WAYS:
        return Fault(f"its choices can take one text in {found.ways:,} ways; {MAX_WAYS:,} are the most")
    if found.calls > MAX_CALLS:
        why = f"Java calls itself up to {found.calls:,} times for its repetitions; {MAX_CALLS:,} are the most"
        return Fault(why, STACK_HINT)
    return None


class _Reader:
    """Reads Java's syntax, as far as it is let through."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0
        self._any_case = re.search(r"\(\?[a-z]*i", pattern) is not None

    def whole(self) -> Node:
        found = self._choice()
        if self._at < len(self._text):
            msg = f"its character {self._at + 1}, {self._text[self._at]!r}, closes nothing"
            raise Refused(msg)
        return found

    def _choice(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            msg = f"its groups are nested more than {MAX_DEPTH} deep"
            raise Refused(msg)
        branches = [self._sequence()]
        while self._next_is("|"):
            branches.append(self._sequence())
        self._depth -= 1
        return branches[0] if len(branches) == 1 else choice(branches)

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            parts.append(self._quantified(self._atom()))
        return sequence(parts)

    # --- repetitions -------------------------------------------------------------------------------------------------

    def _quantified(self, atom: Node) -> Node:
        counts = self._counts()
        while counts is not None:
            least, most, mode = counts
            atom = repeated(atom, least, most, mode)
            counts = self._counts()
        return atom

    def _counts(self) -> tuple[int, int | None, Mode] | None:
        """Least and most times of a quantifier here, and how it takes them; None: there is none."""
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
        return least, most, "possessive" if self._next_is("+") else "lazy" if self._next_is("?") else "greedy"

    # --- what is repeated --------------------------------------------------------------------------------------------

    def _atom(self) -> Node:
        sign = self._take()
        if sign == "(":
            return self._group()
        if sign == "[":
            return self._set_of(self._class())
        if sign == "\\":
            return self._escape()
        if sign == ".":
            return self._set_of(ALL)  # with (?s); without it the difference is a line's end
        if sign in "^$":
            return NOTHING
        if sign in "*+?{":
            msg = f"the {sign} at its character {self._at} repeats nothing"
            raise Refused(msg)
        return self._set_of(_point(sign))

    def _group(self) -> Node:
        if self._next_is("?"):
            flags = re.compile(r"([imsi]*)(-[imsi]*)?([:)])").match(self._text, self._at)
            name = re.compile(r"<[A-Za-z][A-Za-z0-9]*>").match(self._text, self._at)
            around = re.compile(r"<?[=!]").match(self._text, self._at)
            if flags is not None:
                self._at = flags.end()
                if flags[3] == ")":
                    return NOTHING
            elif name is not None:
                self._at = name.end()
            elif around is not None:
                self._at = around.end()
                return looked_at(self._closed(self._choice()))
            elif self._next_is(">"):
                return atomic(self._closed(self._choice()))
            else:
                msg = f"the group at its character {self._at - 1} is of a kind that is not allowed"
                raise Refused(msg)
        return grouped(self._closed(self._choice()))

    def _closed(self, inner: Node) -> Node:
        if not self._next_is(")"):
            msg = "a ( in it is not closed"
            raise Refused(msg)
        return inner

    def _escape(self) -> Node:
        sign = self._take()
        if sign in "123456789k":
            msg = "it refers back to a group, which Java tries in all ways"
            raise Refused(msg)
        if sign in "bBAzZG":
            self._skipped(r"\{g\}")
            return NOTHING
        if sign == "Q":
            end = self._text.find("\\E", self._at)
            quoted, self._at = (
                (self._text[self._at :], len(self._text)) if end < 0 else (self._text[self._at : end], end + 2)
            )
            return sequence([self._set_of(_point(one)) for one in quoted])
        if sign == "E":
            return NOTHING
        if sign in "RX":
            return cluster()
        return self._set_of(self._escaped(sign))

    def _escaped(self, sign: str) -> frozenset[int]:
        """The characters of an escape, its backslash and this sign read."""
        if sign in _CLASSES:
            return _CLASSES[sign]
        if sign in _SIGNS:
            return _point(_SIGNS[sign])
        coded = _CODES.match(self._text, self._at - 1)
        if coded is not None and (code := int(coded[1] or coded[2] or coded[3], 16)) <= sys.maxunicode:
            self._at = coded.end()
            return _point(chr(code))
        if sign in "pPN":
            self._skipped(r"\{[^}]*\}|.")
            return ALL
        if sign in "x0uc":
            self._skipped(r"\{[0-9A-Fa-f]+\}|[0-9A-Fa-f]{1,4}|.")
            return ALL
        if sign.isascii() and sign.isalnum():
            return ALL  # \h, \v and whatever Java may add
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
            return ALL
        # what lies behind the points is in a negated class, and may be in another one
        return (ALL - found) | {BEYOND, FAR} if negated else found

    # --- reading -----------------------------------------------------------------------------------------------------

    def _set_of(self, takes: frozenset[int]) -> Node:
        if self._any_case:
            takes |= {ord(other) for point in takes if point < BEYOND for other in _cases(chr(point))}
        return character(takes)

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
    return frozenset((FAR if ord(sign) > _LAST_OF_ONE_UNIT else min(ord(sign), BEYOND),))


def _cases(sign: str) -> Iterator[str]:
    yield from (one for one in (sign.lower(), sign.upper()) if len(one) == 1 and ord(one) < BEYOND)


__all__ = ["MAX_CALLS", "MAX_COUNT", "MAX_LENGTH", "MAX_LOOSE", "MAX_WAYS", "fault"]
