"""Patterns and Java's stack: what is refused for it overflows it, and what passes does not, in Java itself."""

from __future__ import annotations

import pytest

from lakestreams.errors import ExpressionRefused
from lakestreams.expressions.parse import compile_expression
from lakestreams.expressions.regex import MAX_CALLS, fault
from lakestreams.sql import literal

LENGTH = 200_000
FACE = "\N{GRINNING FACE}"  # which Java holds in two units, so that a round with it is longer than others

# each with a text that is repeated
OVERFLOWING = [
    ("(?:a|b)*x", "ab"), ("(a|b)*", "ab"), ("(a|b)*?$", "ab"), ("(a|b)+", "ab"), ("(a|b){2,}", "ab"), ("(?>(a|b)*)", "ab"),
    ("(?=(a|b)*$).*", "ab"), ("(cat|dog)+", "catdog"), ("(cat|dog)+?$", "catdog"), ("(?:(?:a|b),)*", "a,b,"), ("((a|b){2}c)*", "abc"),
    ("([a-z]+,)*", "a,"), ("([a-z]+,)*?$", "a,"), ("([a-z]++,)*", "a,"), (r"(,\w+)*", ",a"), ("([a-z]{1,2},)*", "a,"), ("([a-z]?,)*", "a,"),
    ("((?>a+),)*", "a,"), ("((a|b)*+,)*", "a,"), ("(?>a|bb)*", "abb"), ("(?>[a-z]+,)*", "a,bb,"), (r"([a-z]+\.)*com", "a."),
    ("(.)*", "a" + FACE), ("(?s:.)+", "a" + FACE), ("(.,)*", f"a,{FACE},"), ("([^,],)*", f"a,{FACE},"), (f"([{FACE}a])*", "a" + FACE),
    (r"(\S)*", "a" + FACE), (r"\R*", "\n\r\n"), (r"\X+", "ae\u0301"), (r"(\R)*", "\n\r\n"),
]  # fmt: skip
SAFE = [
    ("(?:a|b)*+", "ab"), ("(a|b)++", "ab"), ("(a|b){2,}+", "ab"), ("([a-z]+,)*+", "a,bb,"), (r"(,\w+)*+", ",a,bb"), (r"([a-z]+\.)*+com", "a."),
    ("((a|b)*+,)*+", "a,bb,"), ("(?>a|b)*", "ab"), ("[ab]*", "ab"), ("([ab])*", "ab"), ("(ab)*", "ab"), ("(ab)*?", "ab"), ("((ab)(cd))*", "abcd"),
    ("([a-z]{2},)*", "aa,"), ("((?:ab){2},)*", "abab,"), ("((?>ab),)*", "ab,"), (".*", "a" + FACE), (".*?", "a" + FACE), (".{2,}", "a" + FACE),
    ("[^,]{2,}", "a" + FACE), (".{2,}+", "a" + FACE), ("(.)*?", "a" + FACE), ("(.)*+", "a" + FACE), ("(.,)*?", f"a,{FACE},"),
    ("(.,)*+", f"a,{FACE},"), (r"\R*+", "\n\r\n"), (r"\R*?", "\n\r\n"), (r"\X*?", "ae\u0301"), (r"\h*", " \t"), (r"\p{L}*", "a\U00020000"),
    (f"({FACE}a)*", FACE + "a"), (f"[{FACE}a]*", "a" + FACE), ("(€,)*", "€,"), (r"(\u0041,)*", "A,"), (r"(\x41\x{1F600})*", "A" + FACE),
]  # fmt: skip
# as many rounds as pass, and one more than those
BOUNDED = [
    "(a|b){0,%d}",
    "(?:a|b){0,%d}?$",
    "(a?b){0,%d}",
    "((((a|b)))){0,%d}",
    "(ab?c[d][e][f]){0,%d}",
    "(?:a{1,2}b){0,%d}",
]


def text_of(part: str) -> str:
    return part * (LENGTH // len(part))


def most_rounds(pattern: str) -> int:
    """The greatest bound with which a pattern passes."""
    return max(bound for bound in range(2, 1_001) if fault(pattern % bound) is None)


@pytest.mark.parametrize("pattern", [pattern for pattern, _ in OVERFLOWING])
def test_what_overflows_is_refused_and_told_what_to_write(pattern: str) -> None:
    with pytest.raises(ExpressionRefused, match="overflow its stack") as caught:
        compile_expression(f"page rlike {literal(pattern)}", "conf/x.yml:3")
    assert "possessive" in caught.value.hint


@pytest.mark.parametrize("pattern", [pattern for pattern, _ in SAFE])
def test_what_is_safe_passes(pattern: str) -> None:
    assert fault(pattern) is None


def test_bounds_are_counted_together() -> None:
    """A text decides how often it goes round, and each round stays on the stack to the end of the text."""
    bound = most_rounds(BOUNDED[0])
    assert 100 < bound < MAX_CALLS
    for pattern in (BOUNDED[0] % (bound + 1), BOUNDED[0] % (bound // 2 + 1) + "x" + BOUNDED[0] % (bound // 2 + 1)):
        refused = fault(pattern)
        assert refused is not None
        assert f"{MAX_CALLS:,} are the most" in refused.why
        assert "possessive" in (refused.hint or "")
    assert fault("((a|b){0,40},){0,40}") is not None
    assert fault("((a|b){0,10},){0,10}") is None


@pytest.mark.parametrize(("pattern", "part"), OVERFLOWING)
def test_java_overflows_where_a_pattern_is_refused(spark, connect_mode, pattern: str, part: str) -> None:
    """In a thread that may end so: a task of Spark's would take the process with it."""
    if connect_mode:
        pytest.skip("Java is out of reach behind Connect")
    from py4j.protocol import Py4JJavaError

    matcher = spark._jvm.java.util.regex.Pattern.compile("^" + pattern).matcher(text_of(part))
    with pytest.raises(Py4JJavaError, match="StackOverflowError"):
        matcher.find()


def test_spark_survives_what_passes(spark) -> None:
    """Were it wrong, Spark would end here. Bounds are tried at their limit, with a text that goes round as often."""
    tried = [("^" + pattern, part) for pattern, part in SAFE]
    tried += [("^" + pattern % most_rounds(pattern), part) for pattern in BOUNDED for part in ("ab", "abcdef")]
    rows = ", ".join(f"({place}, {literal(part)}, {LENGTH // len(part)})" for place, (_, part) in enumerate(tried))
    fits = " ".join(f"when {place} then text rlike {literal(pattern)}" for place, (pattern, _) in enumerate(tried))
    found = spark.sql(
        f"select case place {fits} end as fits from (select place, repeat(part, times) as text from values {rows} as x(place, part, times))"
    ).collect()
    assert len(found) == len(tried)
    assert all(row.fits is not None for row in found)
