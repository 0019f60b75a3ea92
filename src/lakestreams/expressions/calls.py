"""Calls as SQL: of functions on the allow-list, and of CASE, EXTRACT and TRIM, which have syntax of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestreams.expressions import functions
from lakestreams.expressions.names import path_of
from lakestreams.expressions.text import name_leaf, short, shown
from lakestreams.sql import literal

if TYPE_CHECKING:
    from lakestreams.expressions.sql import Renderer


def call(on: Renderer, node: exp.Expr) -> str:
    """The SQL of a function's call."""
    name = node.this if isinstance(node.this, str) else ""
    plain = name.lower()
    if plain not in functions.FUNCTIONS:
        place = on.text.lower().find(plain) + 1 if plain else 0
        at = f" at character {place}" if place else ""
        on.refuse(f"the function {short(name) if name else shown(node)}{at} is not on the allow-list")
    arguments = node.expressions
    if len(arguments) < functions.LEAST_ARGUMENTS.get(plain, 0):
        on.refuse(
            f"{name} needs {functions.LEAST_ARGUMENTS[plain]} or more arguments; with fewer it asks for the moment"
        )
    on.leaves.extend(name_leaf(name))
    written: list[str] = []
    if plain in functions.UNIT_FIRST and len(arguments) == 3:
        written.append(_unit(on, plain, arguments[0]))
        arguments = arguments[1:]
    if plain == "struct":
        return _struct(on, arguments)
    written.extend(on.render(argument) for argument in arguments)
    if on.tolerant and plain in functions.CASTS and len(written) == 1:
        return f"TRY_CAST({written[0]} AS {plain})"
    called = functions.TOLERANT.get(plain, plain) if on.tolerant else plain
    if called == "try_to_date":  # which Spark 4.0 does not have
        time = f"try_to_timestamp({', '.join(written)})"
        return f"TRY_CAST({written[0] if len(written) == 1 else time} AS date)"
    return f"{called}({', '.join(written)})"


def _unit(on: Renderer, name: str, node: exp.Expr) -> str:
    parts = path_of(node)
    unit = parts[0].upper() if parts is not None and len(parts) == 1 else ""
    if unit not in functions.UNITS:
        on.refuse(f"{shown(node)} is no unit of {name}", hint=f"one of {', '.join(sorted(functions.UNITS))}")
    on.leaves.append(("name", unit))
    return unit


def _struct(on: Renderer, arguments: Sequence[exp.Expr]) -> str:
    """`struct(a, b)` takes its names from its columns; they are written out, for columns have other names inside."""
    written: list[str] = []
    for argument in arguments:
        parts = path_of(argument)
        if parts is None:
            on.refuse(f"{shown(argument)} has no name in struct(...)", hint="use named_struct('name', value, ...)")
        written.extend((literal(parts[-1]), on.render(argument)))
    return f"named_struct({', '.join(written)})"


def case(on: Renderer, node: exp.Expr) -> str:
    """The SQL of a CASE."""
    parts = ["CASE"]
    if node.this is not None:
        parts.append(on.render(node.this))
    for branch in node.args["ifs"]:
        if type(branch) is not exp.If or set(branch.args) - {"this", "true"}:
            on.refuse(f"{shown(branch)} is no branch of a CASE")
        parts.append(f"WHEN {on.render(branch.this)} THEN {on.render(branch.args['true'])}")
    if node.args.get("default") is not None:
        parts.append(f"ELSE {on.render(node.args['default'])}")
    return f"({' '.join(parts)} END)"


def extract(on: Renderer, node: exp.Expr) -> str:
    """The SQL of an EXTRACT."""
    word = str(node.this.this).upper() if type(node.this) is exp.Var else ""
    if word not in functions.EXTRACTS:
        on.refuse(f"{shown(node)}: EXTRACT takes one of {', '.join(sorted(functions.EXTRACTS))}")
    on.leaves.extend([("name", "EXTRACT"), ("name", word)])
    return f"EXTRACT({word} FROM {on.render(node.args['expression'])})"


def trim(on: Renderer, node: exp.Expr) -> str:
    """The SQL of a TRIM."""
    this, signs, position = node.this, node.args.get("expression"), node.args.get("position")
    on.leaves.append(("name", "TRIM"))
    if signs is None and position is None:
        return f"TRIM({on.render(this)})"
    if position not in (None, "BOTH", "LEADING", "TRAILING"):
        on.refuse(f"{shown(node)} is no plain trim")
    word = str(position or "BOTH")
    if position is not None:
        on.leaves.append(("name", word))
    written = f"{on.render(signs)} " if signs is not None else ""
    return f"TRIM({word} {written}FROM {on.render(this)})"
