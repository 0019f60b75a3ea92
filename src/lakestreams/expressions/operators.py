"""Operators of expressions as SQL: each operand binds as tightly as its place asks, or parentheses are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestreams.expressions import functions
from lakestreams.expressions.grammar import BINARY, BIT_OR, COMPARISON, NOT, PREDICATE
from lakestreams.expressions.literals import is_text
from lakestreams.expressions.text import shown

if TYPE_CHECKING:
    from lakestreams.expressions.sql import Renderer


def binary(on: Renderer, node: exp.Expr) -> str:
    """The SQL of an operator between two operands."""
    word, level = BINARY[type(node)]
    # comparisons and predicates do not chain: a = b = c is asked to be written with parentheses
    chains = level not in (PREDICATE, COMPARISON)
    left = on.child(node, node.this, level if chains else BIT_OR)
    right = on.child(node, node.args["expression"], level + 1 if chains else BIT_OR)
    negation = "NOT " if node.args.get("negate") else ""
    if on.tolerant and word in functions.TOLERANT_OPERATORS:
        return f"{functions.TOLERANT_OPERATORS[word]}({left}, {right})"
    return f"({left} {negation}{word} {right})"


def negation(on: Renderer, node: exp.Expr) -> str:
    """The SQL of NOT, which goes inside of IS, IN and BETWEEN."""
    inner = node.this
    negated: dict[type[exp.Expr], Callable[[Renderer, exp.Expr, str], str]] = {
        exp.Is: is_,
        exp.In: in_,
        exp.Between: between,
    }
    if type(inner) in negated:
        on.check_arguments(inner)
        return negated[type(inner)](on, inner, "NOT ")
    return f"(NOT {on.child(node, inner, NOT)})"


def is_(on: Renderer, node: exp.Expr, negation: str = "") -> str:
    """The SQL of IS [NOT] with null, true or false."""
    what = node.args["expression"]
    if type(what) not in (exp.Null, exp.Boolean):
        on.refuse(f"{shown(node)}: IS takes null, true or false")
    return f"({on.child(node, node.this, BIT_OR)} IS {negation}{on.render(what)})"


def in_(on: Renderer, node: exp.Expr, negation: str = "") -> str:
    """The SQL of [NOT] IN with a list."""
    choices = node.expressions
    if not choices:
        on.refuse(f"{shown(node)}: IN takes a list of values", hint="such as: page IN ('a', 'b')")
    this = on.child(node, node.this, BIT_OR)
    return f"({this} {negation}IN ({', '.join(on.render(choice) for choice in choices)}))"


def between(on: Renderer, node: exp.Expr, negation: str = "") -> str:
    """The SQL of [NOT] BETWEEN."""
    this, low, high = (on.child(node, part, BIT_OR) for part in (node.this, node.args["low"], node.args["high"]))
    return f"({this} {negation}BETWEEN {low} AND {high})"


def escape(on: Renderer, node: exp.Expr) -> str:
    """The SQL of a LIKE with its ESCAPE."""
    like, sign = node.this, node.args["expression"]
    if type(like) not in (exp.Like, exp.ILike) or not is_text(sign) or len(str(sign.this)) != 1:
        on.refuse(f"{shown(node)}: ESCAPE takes one character, after LIKE")
    return f"{on.render(like)[:-1]} ESCAPE {on.render(sign)})"
