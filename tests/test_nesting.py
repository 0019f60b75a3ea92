"""What nests too deeply is refused by a bound, whatever stack the process has: a library may have raised it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from lakestreams.errors import ExpressionRefused, InvalidFormat
from lakestreams.expressions.parse import compile_expression
from lakestreams.formats import Json

EXPRESSIONS: dict[str, Callable[[int], str]] = {
    "brackets": lambda n: "(" * n + "a" + ")" * n,
    "calls": lambda n: "coalesce(a, " * n + "a" + ")" * n,
    "casts": lambda n: "cast(" * n + "a" + " as string)" * n,
    "operators": lambda n: " and ".join(["a"] * n),
    "choices": lambda n: "case when a then " * n + "b" + " end" * n,
    "members": lambda n: "a in (" * n + "1" + ")" * n,
    "types": lambda n: "cast(a as " + "array<" * n + "int" + ">" * n + ")",
}
LENGTH = 4_900
EXPRESSIONS_THAT_FILL_IT = ("(" * LENGTH + "a" + ")" * LENGTH, "not " * (LENGTH // 2) + "a")
DECLARATIONS: dict[str, Callable[[int], str]] = {
    "objects": lambda n: "a " + "struct<a: " * n + "int" + ">" * n,
    "lists": lambda n: "a " + "array<" * n + "int" + ">" * n,
    "maps": lambda n: "a " + "map<string, " * n + "int" + ">" * n,
}


@pytest.fixture(params=[1_000, 20_000])
def _stack(request: pytest.FixtureRequest) -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(request.param)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("_stack")
@pytest.mark.parametrize("shape", EXPRESSIONS)
def test_an_expression_of_few_levels_is_read_and_one_of_many_refused(shape: str) -> None:
    written = EXPRESSIONS[shape]
    compile_expression(written(97))
    for levels in (101, 150):
        with pytest.raises(ExpressionRefused, match="levels deep"):
            compile_expression(written(levels))


@pytest.mark.parametrize(
    "text",
    ["-" + " -" * 95 + "a", "(" * 20 + "a" + ")" * 20, "coalesce(a, " * 15 + "a" + ")" * 15, "cast(a as " + "array<" * 25 + "int" + ">" * 25 + ")"],
    ids=["signs", "brackets", "calls", "types"],
)  # fmt: skip
def test_short_texts_leave_the_stack_as_it_is(text: str) -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)
    try:
        compile_expression(text)
        Json("a " + "struct<a: " * 20 + "int" + ">" * 20).fields  # noqa: B018
        assert sys.getrecursionlimit() == 1_000
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize("text", EXPRESSIONS_THAT_FILL_IT)
def test_the_longest_expression_is_refused_as_well(text: str) -> None:
    with pytest.raises(ExpressionRefused, match="more than 100 levels deep"):
        compile_expression(text)


@pytest.mark.usefixtures("_stack")
@pytest.mark.parametrize("shape", DECLARATIONS)
def test_a_declaration_of_few_levels_is_read_and_one_of_many_refused(shape: str) -> None:
    declared = DECLARATIONS[shape]
    assert len(Json(declared(99)).fields) == 1
    for levels in (100, 450, 2_000):
        with pytest.raises(InvalidFormat, match="nests deeper than 100 levels"):
            Json(declared(levels)).fields  # noqa: B018


@pytest.mark.parametrize("text", ["(" * 20 + "a" + ")" * 20, "not " * 49 + "a"])
def test_whoever_calls_may_have_used_most_of_the_stack(text: str) -> None:
    def called(levels: int) -> None:
        if levels:
            called(levels - 1)
        else:
            compile_expression(text)
            assert len(Json("a " + "array<" * 20 + "int" + ">" * 20).fields) == 1

    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)
    try:
        called(700)
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize("word", ["struct", "date", "bigint", "decimal", "enum"])
def test_types_in_round_brackets_take_no_time(word: str) -> None:
    """Each level takes the parser twice the time of the one within: of 60 it never ends."""
    compile_expression("date(" * 10 + "a" + ")" * 10)
    for text in (f"{word}(" * 60 + "a" + ")" * 60, "cast(a as " + f"{word}(" * 60 + "1" + ")" * 61):
        with pytest.raises(ExpressionRefused, match="more than 10 types are called in each other"):
            compile_expression(text)
    for declared in (f"a {word}(" + f"{word}(" * 60 + "int" + ")" * 61, f"a int, b {word}(int)"):
        with pytest.raises(InvalidFormat, match="something else than numbers in round brackets"):
            Json(declared).fields  # noqa: B018
    assert len(Json("a decimal(10, 2) comment 'of (all) ((x))', b decimal( 5 )").fields) == 2
