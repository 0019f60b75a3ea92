"""Names of columns and members as SQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestreams.expressions.grammar import PRIMARY
from lakestreams.expressions.text import name_leaf, shown
from lakestreams.sql import quoted

if TYPE_CHECKING:
    from lakestreams.expressions.sql import Renderer

Parts = tuple[str, ...]
"""A column reference, split at its dots."""
# Words that Spark takes for the clock, the user or the session where no column has the name.
_MOMENTARY = re.compile(r"(?i)(current_\w+|local_?time(stamp)?|session_user|system_user)\Z")


def path_of(node: exp.Expr) -> Parts | None:
    """The names of `a`, `a.b` or `a.b.c...`; None for anything else."""
    if type(node) is exp.Dot:
        head = path_of(node.this)
        tail = node.args["expression"]
        return (*head, str(tail.this)) if head is not None and type(tail) is exp.Identifier else None
    if type(node) is not exp.Column:
        return None
    names = [node.args[part] for part in ("catalog", "db", "table", "this") if node.args.get(part) is not None]
    if not all(type(name) is exp.Identifier for name in names):
        return None
    return tuple(str(name.this) for name in names)


def column(on: Renderer, node: exp.Expr) -> str:
    """The SQL of a column."""
    parts = path_of(node)
    if parts is None:
        on.refuse(f"{shown(node)} is no name of a column")
    if len(parts) == 1 and not node.this.args.get("quoted") and _MOMENTARY.match(parts[0]):
        on.refuse(f"{parts[0]} is another value in each run", hint=f"if a column has this name, write `{parts[0]}`")
    return on.named(parts)


def member(on: Renderer, node: exp.Expr) -> str:
    """The SQL of a member behind a dot; a name with dots is a column's, as far as its inputs know it."""
    name = node.args["expression"]
    if type(name) is not exp.Identifier:
        on.refuse(f"{shown(node)}: a name goes behind the dot")
    parts = path_of(node)
    if parts is not None:
        return on.named(parts)
    base = on.child(node, node.this, PRIMARY)
    on.leaves.extend(name_leaf(name.name))
    return f"({base}).{quoted(name.name)}"


def element(on: Renderer, node: exp.Expr) -> str:
    """The SQL of an array's element or a map's value."""
    index = node.expressions
    if len(index) != 1 or type(index[0]) in (exp.Slice, exp.Tuple):
        on.refuse(f"{shown(node)}: one index or key goes between the brackets")
    return f"({on.child(node, node.this, PRIMARY)})[{on.render(index[0])}]"
