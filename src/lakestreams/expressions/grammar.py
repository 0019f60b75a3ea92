"""Spark's grammar of expressions, as far as it is let through: operators, how tightly they bind, and what nodes hold."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

# How tightly Spark's grammar binds (SqlBaseParser.g4: booleanExpression, predicate, valueExpression).
OR, AND, NOT, PREDICATE, COMPARISON, BIT_OR, BIT_XOR, BIT_AND, SUM, PRODUCT, UNARY, PRIMARY = range(1, 13)

BINARY: Final[dict[type[exp.Expr], tuple[str, int]]] = {
    exp.Or: ("OR", OR),
    exp.And: ("AND", AND),
    exp.EQ: ("=", COMPARISON),
    exp.NEQ: ("!=", COMPARISON),
    exp.LT: ("<", COMPARISON),
    exp.LTE: ("<=", COMPARISON),
    exp.GT: (">", COMPARISON),
    exp.GTE: (">=", COMPARISON),
    exp.NullSafeEQ: ("<=>", COMPARISON),
    exp.NullSafeNEQ: ("IS DISTINCT FROM", COMPARISON),
    exp.Like: ("LIKE", PREDICATE),
    exp.ILike: ("ILIKE", PREDICATE),
    exp.RegexpLike: ("RLIKE", PREDICATE),
    exp.BitwiseOr: ("|", BIT_OR),
    exp.BitwiseXor: ("^", BIT_XOR),
    exp.BitwiseAnd: ("&", BIT_AND),
    exp.Add: ("+", SUM),
    exp.Sub: ("-", SUM),
    exp.DPipe: ("||", SUM),
    exp.Mul: ("*", PRODUCT),
    exp.Div: ("/", PRODUCT),
    exp.Mod: ("%", PRODUCT),
    exp.IntDiv: ("DIV", PRODUCT),
}

LEVELS: Final[dict[type[exp.Expr], int]] = {
    **{kind: level for kind, (_, level) in BINARY.items()},
    # spelt with IS ... these two are predicates, spelt <=> a comparison: the looser of the two is asked for
    exp.NullSafeEQ: PREDICATE,
    exp.NullSafeNEQ: PREDICATE,
    exp.Not: NOT,
    exp.Is: PREDICATE,
    exp.In: PREDICATE,
    exp.Between: PREDICATE,
    exp.Escape: PREDICATE,
    exp.Neg: UNARY,
    exp.BitwiseNot: UNARY,
}

# The arguments of a node that are read; any other one that is set refuses the expression. The flags are sqlglot's own
# notes on the dialect, which change nothing here.
ARGUMENTS: Final[dict[type[exp.Expr], frozenset[str]]] = {
    **dict.fromkeys(BINARY, frozenset({"this", "expression", "typed", "safe", "negate"})),
    exp.Not: frozenset({"this"}),
    exp.Neg: frozenset({"this"}),
    exp.BitwiseNot: frozenset({"this"}),
    exp.Paren: frozenset({"this"}),
    exp.Is: frozenset({"this", "expression"}),
    exp.In: frozenset({"this", "expressions"}),
    exp.Between: frozenset({"this", "low", "high"}),
    exp.Escape: frozenset({"this", "expression"}),
    exp.Case: frozenset({"this", "ifs", "default"}),
    exp.If: frozenset({"this", "true"}),
    exp.Cast: frozenset({"this", "to", "safe"}),
    exp.TryCast: frozenset({"this", "to", "safe"}),
    exp.Interval: frozenset({"this", "unit"}),
    exp.Extract: frozenset({"this", "expression"}),
    exp.Trim: frozenset({"this", "expression", "position"}),
    exp.Bracket: frozenset({"this", "expressions"}),
    exp.Dot: frozenset({"this", "expression"}),
    exp.Column: frozenset({"this", "table", "db", "catalog"}),
    exp.Identifier: frozenset({"this", "quoted"}),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.RawString: frozenset({"this"}),
    exp.Boolean: frozenset({"this"}),
    exp.Null: frozenset(),
    exp.Anonymous: frozenset({"this", "expressions"}),
}

_QUERY: Final = "an expression sees the columns of its step; join the other table in a step of its own"
# What to write in the place of what is no plain expression.
INSTEAD: Final[dict[type[exp.Expr], str]] = {
    exp.Subquery: _QUERY,
    exp.Select: _QUERY,
    exp.Exists: _QUERY,
    exp.Alias: "look for an operator or a comma that is missing; a column's name is the key that the expression stands at",
    exp.In: "write the values in parentheses, such as: page IN ('a', 'b')",
    exp.Window: "group in a step of its own: aggregate",
}
