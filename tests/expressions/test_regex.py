"""Patterns: those that take forever on some text are refused, those that people write pass."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakestreams.expressions.regex import MAX_LENGTH, fault

# each with a text on which a backtracking engine takes a step for each subset of it, or a high power of its length
SLOW = [
    r"(a+)+", r"(a*)*", r"(a+)*$", r"(a|a)*", r"(a|aa)+", r"(a|b|ab)*", r"(\w|\d)*x", r"([a-z]+)*$", r"(.+)+", r"(.*,)*x",
    r"(a+){10}", r"(a?){30}", r"(.*a){20}", r"(a{1,5}){1,5}", r"(?:a{0,30}){30}", r"(x+x+)+y", r"((a+)b?)+", r"(a|b+)*", r"([ab]+|b)*",
    r"(\s*a*)*", r"(?i)(a|A)*", r"(?i:(a|A)*)", r"^(([a-z])+.)+[A-Z]([a-z])+$", r"(?=(a+)+)b", r"(?!(a+)+)b", r"(?<=(a+)+)b", r"(a)\1",
    r"(?<x>a)\k<x>", r"(a\1)", r".*.*.*.*x", r"a*a*a*a*a*b", r"\d+\d+\d+\d+\d+x", r"[^,]*[^;]*[^.]*[^:]*x", r".*a.*b.*c.*d.*e", r"(a|)*",
    r"(|a)+", r"(()*)*", r"(^a*)*", r"(a*$)*", r"((a|b)*|c)*", r"(\Qa\E+)+", r"([a&&b]+x)*", r"(\p{L}+\p{L}?)*", r"(\x61+a)*", r"(é+)+",
    r"(ā+.)+", r"([^a]+b)*", r"(a+?)+?", r"(a+b?)*+(a+)+", r"((a,)*a,)*",
    "a?" * 30 + "a" * 30, "(a|ab)" * 30, "(a|ab)(c|bcd)" * 13 + "(d*)", "a{0,20}" * 4 + "b", "(?:a|a)" * 15, "(a?b?|a)" * 20,
]  # fmt: skip
# no patterns, or none that are read
UNREAD = ["(", ")", "a)", "(a", "[a", "[", "[]", "\\", "*", "+a", "?", "{2}", "a|*", "(?x)a b", "(?U)\\w", "(?<1>a)", "(?P<n>a)", "(?#c)",
          "a{1001}", "a{0,1001}", "a{999999}", "x" * (MAX_LENGTH + 1), "(" * 400 + "a" + ")" * 400]  # fmt: skip
PLAIN = [
    "", "a", "a|b", ",", r"\|", r"\s+", r"\d{4}-\d{2}-\d{2}", r"^/shop/(\d+)$", r"(cat|dog)++", r"(a|b)*+c", r"(\d{1,3}\.){3}\d{1,3}",
    r"([a-z]+\.)*+com", r"(,\w+)*+", r"([a-z]+=[^&]*&)*+", r"^.*/(\d+)/.*$", r"(?i)error", r"[^,]*,[^,]*", r"https?://[^/]+/.*", r"\Qa.b\E+",
    r"\p{L}+", r"[\w.+-]+@[\w-]+\.[\w.]+", r"^\s*(.*?)\s*$", r"(?:GET|POST) (/\S*)", r"x{3}", r"(?<year>\d{4})", r"(?!foo)bar", r"(?<!x)y",
    r"a++b", r"(a++)*+", r"(?>a+)b", r"[a-z&&[^b]]+", r"[]a]+", r"[^]]*]", r"[a-]", r"\x41B\t\e", r"\bword\b", r"(\w+\s)++x", r"(a|b|c){2,5}",
    r"^[A-Z]{2}\d{2}(?: ?[0-9A-Z]{4}){3}$", r"(?s).*", "größe", r"\.", r"[.]", r"^(?:(?:a|b),)*+$", r"([a-z]+\.){1,20}com", r"(ab)*c",
]  # fmt: skip


@pytest.mark.parametrize("pattern", [*SLOW, *UNREAD], ids=lambda one: one[:30])
def test_a_slow_pattern_is_refused(pattern: str) -> None:
    assert fault(pattern)


@pytest.mark.parametrize("pattern", PLAIN)
def test_a_plain_pattern_passes(pattern: str) -> None:
    assert fault(pattern) is None


@given(st.text(max_size=40) | st.text("ab()[]{}|*+?.^$\\d,1", max_size=30))
@settings(max_examples=400)
def test_any_text_is_judged(pattern: str) -> None:
    told = fault(pattern)
    assert told is None or told


class Steps(Exception):
    """Too many of them."""


def tries(pattern: str, text: str, most: int) -> int:
    """How many places a backtracking matcher of a few operators looks at before it knows that a pattern does not fit."""
    tree, rest = _alternatives(pattern)
    assert rest == ""
    count = 0

    def run(node, at, then):
        nonlocal count
        count += 1
        if count > most:
            raise Steps
        kind = node[0]
        if kind == "sign":
            return at < len(text) and text[at] in node[1] and then(at + 1)
        if kind == "all":
            return _all(node[1], 0, at, then)
        if kind == "any":
            return any(run(one, at, then) for one in node[1])
        _, inner, least, limit = node

        def again(done, here):
            if (limit is None or done < limit) and run(
                inner, here, lambda to: (to > here or done < least) and again(done + 1, to)
            ):
                return True
            return done >= least and then(here)

        return again(0, at)

    def _all(parts, place, at, then):
        if place == len(parts):
            return then(at)
        return run(parts[place], at, lambda to: _all(parts, place + 1, to, then))

    run(tree, 0, lambda to: to == len(text))
    return count


def _alternatives(text: str):
    arms = []
    while True:
        parts = []
        while text and text[0] not in "|)":
            if text[0] == "(":
                atom, text = _alternatives(text[1:])
                text = text[1:]
            else:
                atom, text = ("sign", "ab," if text[0] == "." else text[0]), text[1:]
            while text and text[0] in "*+?":
                least, limit = {"*": (0, None), "+": (1, None), "?": (0, 1)}[text[0]]
                atom, text = ("repeat", atom, least, limit), text[1:]
            parts.append(atom)
        arms.append(("all", parts))
        if not text.startswith("|"):
            return ("any", arms), text
        text = text[1:]


PATTERNS = st.recursive(
    st.sampled_from(["a", "b", ",", "."]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from("*+?")).map(lambda one: f"({one[0]}){one[1]}"),
    ),
    max_leaves=8,
)


@given(PATTERNS, st.sampled_from(["a", "ab", "a,", "b", "aab,"]), st.sampled_from("xb,"))
@settings(max_examples=300)
def test_what_passes_takes_no_step_for_each_subset_of_a_text(pattern: str, part: str, end: str) -> None:
    """Counted, on texts of 24 signs: 2 to the power of 24 is out of reach, the powers that are let through are not."""
    if fault(pattern) is None:
        text = (part * 24)[:24] + end
        assert tries(pattern, text, most=400_000) <= 400_000


def test_the_count_sees_a_slow_pattern() -> None:
    with pytest.raises(Steps):
        tries("(a|a)*", "a" * 24 + "x", most=400_000)
    with pytest.raises(Steps):
        tries("(a+)+", "a" * 24 + "x", most=400_000)
    assert tries("(ab)*", "ab" * 12 + "x", most=400_000) < 200
    assert re.fullmatch("(ab)*", "ab" * 12)
