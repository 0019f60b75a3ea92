"""Casts as SQL: the types that a value may be cast to."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from lakestreams.expressions.literals import is_time
from lakestreams.expressions.text import name_leaf, shown
from lakestreams.sql import quoted

if TYPE_CHECKING:
    from lakestreams.expressions.sql import Renderer

_TYPES: Final = {
    "BIGINT": "BIGINT", "BINARY": "BINARY", "BOOLEAN": "BOOLEAN", "DATE": "DATE", "DOUBLE": "DOUBLE", "FLOAT": "FLOAT",
    "INT": "INT", "SMALLINT": "SMALLINT", "TEXT": "STRING", "TIMESTAMPLTZ": "TIMESTAMP_LTZ",
    "TIMESTAMPNTZ": "TIMESTAMP_NTZ", "TIMESTAMPTZ": "TIMESTAMP", "TINYINT": "TINYINT",
}  # fmt: skip


def cast(on: Renderer, node: exp.Expr) -> str:
    """The SQL of a cast, or of a literal such as DATE '2020-01-01', which sqlglot takes for one."""
    value, safe = node.this, node.args.get("safe")
    if type(node) is exp.Cast:
        # DATE '2020-01-01'; the type stands first, as in the text
        kind = _type(on, node.args["to"])
        if not is_time(kind, value):
            on.refuse(f"{shown(node)} is no literal of a date or timestamp")
        return f"({kind} {on.render(value)})"
    if safe:
        on.leaves.append(("name", "TRY_CAST"))
    written = on.render(value)
    return f"{'TRY_CAST' if safe or on.tolerant else 'CAST'}({written} AS {_type(on, node.args['to'])})"


def _type(on: Renderer, kind: exp.Expr) -> str:
    """A cast's target, from the list of types; also its words, among the leaves."""
    name = str(getattr(kind.this, "name", ""))
    if type(kind) is not exp.DataType or set(kind.args) - {"this", "expressions", "nested"}:
        on.refuse(f"{shown(kind)} is no type to cast to")
    inner = kind.expressions
    if name in _TYPES and not inner:
        on.leaves.extend(name_leaf(_TYPES[name]))
        return _TYPES[name]
    if name == "DECIMAL":
        on.leaves.append(("name", "DECIMAL"))
        sizes = [str(size.this.this) for size in inner]
        if not all(size.isascii() and size.isdigit() for size in sizes):
            on.refuse(f"{shown(kind)} is no type to cast to")
        on.leaves.extend(("number", Decimal(size)) for size in sizes)
        return f"DECIMAL({', '.join(sizes)})" if sizes else "DECIMAL"
    with on.deeper():
        return _nested(on, kind, name)


def _nested(on: Renderer, kind: exp.Expr, name: str) -> str:
    """A list, a map or an object as a target."""
    inner = kind.expressions
    if name in ("ARRAY", "MAP") and len(inner) == (1 if name == "ARRAY" else 2):
        on.leaves.append(("name", name))
        return f"{name}<{', '.join(_type(on, part) for part in inner)}>"
    if name != "STRUCT" or not inner or not all(type(part) is exp.ColumnDef and part.kind for part in inner):
        on.refuse(f"{shown(kind)} is no type to cast to")
    on.leaves.append(("name", name))
    return f"STRUCT<{', '.join(_member(on, part) for part in inner)}>"


def _member(on: Renderer, part: exp.Expr) -> str:
    if any(value for name, value in part.args.items() if name not in ("this", "kind")):
        on.refuse(f"{shown(part)} is no member of a struct")
    name = part.this.name
    on.leaves.extend(name_leaf(name))
    return f"{quoted(name)}: {_type(on, part.args['kind'])}"
