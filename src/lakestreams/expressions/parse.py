"""SQL expressions of configuration files: parsed, checked against an allow-list, rewritten from the checked tree.

An expression is code that somebody else's file brings into the driver, so nothing of its text reaches Spark. It is
split into tokens, each of them of a known sort, and parsed by sqlglot with all of its function knowledge taken away, so
that it rewrites nothing (`text`); every node, argument and function must be on the list, and the tree must be
the one that Spark's own grammar gives, else parentheses are asked for (`sql`); it must hold every name and
literal of the text, in order; and only then Spark gets SQL, which is generated from the tree, fully parenthesised, with
columns that the step's sides know.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from lakestreams.errors import ExpressionRefused, InvalidExpression, UnknownColumn
from lakestreams.expressions import bounds, clock
from lakestreams.expressions.environment import References, Written, resolved
from lakestreams.expressions.names import Parts, path_of
from lakestreams.expressions.sql import TOO_DEEP, Renderer, Resolve
from lakestreams.expressions.text import leaves_of, parse, short, tokens_of
from lakestreams.nesting import MOST_LEVELS, with_stack
from lakestreams.spark import F
from lakestreams.sql import quoted
from lakestreams.topology.fields import kind_of

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.topology.fields import Fields

MAX_LENGTH: Final = 10_000  # characters of a text


@dataclass(frozen=True)
class Expression:
    """A checked expression. Two are equal if they say the same, however they are spaced or spelt.

    Attributes:
        text: as the user wrote it, references to the environment included.
        where: where it was written.
        sql: rewritten from the checked tree, columns by the names the user gave; references have their values here.
        columns: the column references in it, each split at its dots.
    """

    text: str = field(compare=False)
    where: str = field(compare=False, repr=False)
    sql: str = field(repr=False)
    columns: tuple[Parts, ...] = field(compare=False, repr=False)
    _tree: exp.Expr = field(compare=False, repr=False)
    _resolved: str = field(compare=False, repr=False)

    def column(self, sides: Mapping[str, Fields], *, tolerant: bool = False) -> Column:
        """The expression over a step's inputs.

        Args:
            sides: each input's name, as the step refers to it, with its columns.
            tolerant: what would raise on a value that does not fit, such as a cast or a division by zero, gives null.

        Raises:
            InvalidExpression: if an unqualified column is on several sides.
            UnknownColumn: if one is on none of several sides. A column that its one possible side lacks is noted
                there instead, like one that a Python function asks for.
        """
        return F.expr(self.render(sides, tolerant=tolerant))

    def render(self, sides: Mapping[str, Fields], *, tolerant: bool = False) -> str:
        """The SQL text that `column` gives to Spark."""
        if clock.may_ask(self._tree):
            self._require_no_clock(sides)
        resolve: Resolve = lambda parts: _reference(parts, sides, self)  # noqa: E731 - as short as its use
        return Renderer(self._resolved, self.where, resolve, tolerant=tolerant).render(self._tree)

    def _require_no_clock(self, sides: Mapping[str, Fields]) -> None:
        def kind_at(node: exp.Expr) -> str:
            parts = path_of(node) or ("",)
            owners, name = list(sides.values()), parts[0]
            if len(parts) > 1 and parts[0] in sides:
                owners, name = [sides[parts[0]]], parts[1]
            return next((kind_of(one, name) for one in owners if name in one), "")

        asks = clock.fault(self._tree, kind_at)
        if asks is not None:
            raise ExpressionRefused(f"{asks.why}, in {short(self.text)}", hint=asks.hint, where=self.where or None)


def compile_expression(text: str, where: str | None = None) -> Expression:
    """Checks an expression.

    Args:
        text: the SQL; if it is `Written`, with references to the environment.
        where: where it was written, for the error.

    Raises:
        ExpressionRefused: if it is not SQL, or anything in it is not on the allow-list.
    """
    if not isinstance(text, Written) or not text.references:
        return _compiled(str(text), str(text), where)
    try:
        return _compiled(resolved(text, where), str(text), where)
    except ExpressionRefused:
        refused = _without_values(text, where)
    raise refused


def _without_values(text: Written, where: str | None) -> ExpressionRefused:
    """Why an expression is refused, with no part of what its references stand for."""
    plain = Written(text, References(dict.fromkeys(text.references.values, "1")))
    try:
        _compiled(resolved(plain, where), str(text), where)
    except ExpressionRefused as refused:
        return refused
    names = " and ".join(text.references.values)
    msg = f"what {names} stands for does not fit into {short(text)}"
    return ExpressionRefused(
        msg, hint="a reference in quotes stands for a text, one without for a number or a name", where=where
    )


def _compiled(text: str, written: str, where: str | None) -> Expression:
    if len(text) > MAX_LENGTH:
        msg = f"the expression has {len(text)} characters; {MAX_LENGTH} are the most"
        raise ExpressionRefused(msg, where=where)
    try:
        return with_stack(lambda: _read(text, written, where))
    except RecursionError:
        msg = f"more than {MOST_LEVELS} levels deep, in {short(text)}"
        raise ExpressionRefused(msg, hint=TOO_DEEP, where=where) from None


def _read(text: str, written: str, where: str | None) -> Expression:
    tokens = tokens_of(text, where)
    tree = parse(tokens, text, where)
    seen: list[Parts] = []

    def noted(parts: Parts) -> str:
        seen.append(parts)
        return ".".join(map(quoted, parts))

    renderer = Renderer(text, where, noted)
    sql = renderer.render(tree)
    # sqlglot drops a token here and there: what is not in the tree was not checked, and would not be evaluated
    if renderer.leaves != leaves_of(tokens):
        msg = f"the expression {short(text)} cannot be read without doubt"
        raise ExpressionRefused(msg, hint="put parentheses around its parts, or write it with functions", where=where)
    for refused in (bounds.fault(tree), clock.fault(tree)):
        if refused is not None:
            raise ExpressionRefused(f"{refused.why}, in {short(text)}", hint=refused.hint, where=where)
    return Expression(written, where or "", sql, tuple(seen), tree, text)


def _reference(parts: Parts, sides: Mapping[str, Fields], expression: Expression) -> str:
    """The SQL of a column reference: a side's column, or the column of the only side that has it."""
    owner, rest = (parts[0], parts[1:]) if len(parts) > 1 and parts[0] in sides else (None, parts)
    column, members = rest[0], rest[1:]
    if owner is None:
        owners = [name for name, fields in sides.items() if column in fields]
        if len(owners) > 1:
            msg = f"{column!r} in {short(expression.text)} is a column of {' and of '.join(owners)}"
            hint = "write " + " or ".join(f"{name}.{column}" for name in owners)
            raise InvalidExpression(msg, hint=hint, where=expression.where or None)
        if not owners and len(sides) > 1:
            near = difflib.get_close_matches(column, [one for fields in sides.values() for one in fields], n=1)
            have = "; ".join(f"{name} has: {', '.join(fields)}" for name, fields in sides.items())
            have = f"did you mean {near[0]!r}? {have}" if near else have
            msg = f"neither side has a column {column!r}, in {short(expression.text)}"
            raise UnknownColumn(msg, hint=have, where=expression.where or None)
        owner = owners[0] if owners else next(iter(sides))
    fields = sides[owner]
    base = fields.sql(column, expression.where)
    if column not in fields or not members:
        return base
    return f"({base})" + "".join(f".{quoted(member)}" for member in members)
