"""From an expression's tree to SQL: what of a tree is allowed, and the text that Spark gets for it.

Every node, argument, type and function must be on a list (`grammar`, `casts`, `functions`), and the tree must be the one
that Spark's own grammar gives, else parentheses are asked for. The SQL is fully parenthesised; of the user's text nothing
is in it but names and literals, each of them checked or quoted again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final, NoReturn, TypeAlias

from sqlglot import exp

from lakestreams.errors import ExpressionRefused
from lakestreams.expressions import calls, casts, literals, names, operators
from lakestreams.expressions.grammar import ARGUMENTS, BINARY, INSTEAD, LEVELS, PRIMARY, UNARY
from lakestreams.expressions.names import Parts
from lakestreams.expressions.text import Leaf, name_leaf, short, shown
from lakestreams.nesting import MOST_LEVELS

TOO_DEEP: Final = "split it into several steps, or use IN (...)"

Resolve: TypeAlias = Callable[[Parts], str]
"""Gives the SQL of a column reference."""


class Renderer:
    """Writes one checked tree as SQL; refuses what is not on the list.

    Checking and writing are one walk, so nothing can be written that was not checked.

    Attributes:
        text: the expression, for messages.
        tolerant: whether what would raise on a value that does not fit gives null.
        leaves: names, literals and words of types that were met, in order.
    """

    def __init__(self, text: str, where: str | None, resolve: Resolve, *, tolerant: bool = False) -> None:
        self.text = text
        self.tolerant = tolerant
        self.leaves: list[Leaf] = []
        self._where = where
        self._resolve = resolve
        self._depth = 0

    def render(self, node: exp.Expr) -> str:
        """The SQL of a node and all below it."""
        self.check_arguments(node)
        with self.deeper():
            return _WRITTEN[type(node)](self, node)

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """One level more while its block runs."""
        self._depth += 1
        if self._depth > MOST_LEVELS:
            self.refuse(f"more than {MOST_LEVELS} levels deep", hint=TOO_DEEP)
        yield
        self._depth -= 1

    def check_arguments(self, node: exp.Expr) -> None:
        """Refuses a node that is not on the list, or has an argument that is not."""
        known = ARGUMENTS.get(type(node))
        if known is None or type(node) not in _WRITTEN:
            self.refuse(f"{shown(node)} is no part of a plain expression", hint=INSTEAD.get(type(node)))
        for name, value in node.args.items():
            if name not in known and value not in (None, False, []):
                self.refuse(f"{shown(node)} is no part of a plain expression", hint=INSTEAD.get(type(node)))

    def refuse(self, what: str, hint: str | None = None) -> NoReturn:
        """Refuses the expression."""
        msg = what if what.endswith(short(self.text)) else f"{what}, in {short(self.text)}"
        raise ExpressionRefused(msg, hint=hint, where=self._where)

    def child(self, parent: exp.Expr, node: exp.Expr, least: int) -> str:
        """The SQL of an operand, which must bind as tightly as Spark's grammar asks in this place.

        Where sqlglot and Spark group operators differently, the tree breaks this rule and is refused: a tree that
        keeps it everywhere is the one tree that Spark's grammar has for the text.
        """
        if LEVELS.get(type(node), PRIMARY) < least:
            self.refuse(
                f"{shown(parent)} can be grouped in two ways",
                hint="put parentheses around the part that is meant first",
            )
        return self.render(node)

    def named(self, parts: Parts) -> str:
        """The SQL of a column reference."""
        for part in parts:
            self.leaves.extend(name_leaf(part))
        return self._resolve(parts)


_WRITTEN: Final[Mapping[type[exp.Expr], Callable[[Renderer, exp.Expr], str]]] = MappingProxyType(
    {
        **dict.fromkeys(BINARY, operators.binary),
        exp.Paren: lambda on, node: on.render(node.this),
        exp.Not: operators.negation,
        exp.Neg: lambda on, node: f"(- {on.child(node, node.this, UNARY)})",
        exp.BitwiseNot: lambda on, node: f"(~ {on.child(node, node.this, UNARY)})",
        exp.Is: operators.is_,
        exp.In: operators.in_,
        exp.Between: operators.between,
        exp.Escape: operators.escape,
        exp.Case: calls.case,
        exp.Cast: casts.cast,
        exp.TryCast: casts.cast,
        exp.Interval: literals.interval,
        exp.Extract: calls.extract,
        exp.Trim: calls.trim,
        exp.Bracket: names.element,
        exp.Dot: names.member,
        exp.Column: names.column,
        exp.Literal: literals.plain,
        exp.RawString: literals.plain,
        exp.Boolean: lambda _, node: "true" if node.this else "false",
        exp.Null: lambda _, __: "null",
        exp.Anonymous: calls.call,
    }
)
