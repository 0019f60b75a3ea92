"""From an expression's tree to SQL: what of a tree is allowed, and the text that Spark gets for it.

Every node, argument, type and function must be on a list (the functions are those of `functions`), and the tree must be
the one that Spark's own grammar gives, else parentheses are asked for. The SQL is fully parenthesised; of the user's
text nothing is in it but names and literals, each of them checked or quoted anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final, NoReturn

from sqlglot import exp

from lakestreams.errors import ExpressionRefused
from lakestreams.expressions import functions as allowed
from lakestreams.expressions.text import NUMBER, Leaf, decimal, name_leaf, short
from lakestreams.sql import literal, quoted

MAX_DEPTH: Final = 100  # levels of a tree

# A column reference, split at its dots, and what gives the SQL of one.
Parts = tuple[str, ...]
Resolve = Callable[[Parts], str]

# How tightly Spark's grammar binds (SqlBaseParser.g4: booleanExpression, predicate, valueExpression).
_OR, _AND, _NOT, _PREDICATE, _COMPARISON, _BIT_OR, _BIT_XOR, _BIT_AND, _SUM, _PRODUCT, _UNARY, _PRIMARY = range(1, 13)

_BINARY: Final[dict[type[exp.Expr], tuple[str, int]]] = {
    exp.Or: ("OR", _OR),
    exp.And: ("AND", _AND),
    exp.EQ: ("=", _COMPARISON),
    exp.NEQ: ("!=", _COMPARISON),
    exp.LT: ("<", _COMPARISON),
    exp.LTE: ("<=", _COMPARISON),
    exp.GT: (">", _COMPARISON),
    exp.GTE: (">=", _COMPARISON),
    exp.NullSafeEQ: ("<=>", _COMPARISON),
    exp.NullSafeNEQ: ("IS DISTINCT FROM", _COMPARISON),
    exp.Like: ("LIKE", _PREDICATE),
    exp.ILike: ("ILIKE", _PREDICATE),
    exp.RegexpLike: ("RLIKE", _PREDICATE),
    exp.BitwiseOr: ("|", _BIT_OR),
    exp.BitwiseXor: ("^", _BIT_XOR),
    exp.BitwiseAnd: ("&", _BIT_AND),
    exp.Add: ("+", _SUM),
    exp.Sub: ("-", _SUM),
    exp.DPipe: ("||", _SUM),
    exp.Mul: ("*", _PRODUCT),
    exp.Div: ("/", _PRODUCT),
    exp.Mod: ("%", _PRODUCT),
    exp.IntDiv: ("DIV", _PRODUCT),
}
_LEVELS: Final[dict[type[exp.Expr], int]] = {
    **{kind: level for kind, (_, level) in _BINARY.items()},
    # spelt with IS ... these two are predicates, spelt <=> a comparison: the looser of the two is asked for
    exp.NullSafeEQ: _PREDICATE,
    exp.NullSafeNEQ: _PREDICATE,
    exp.Not: _NOT,
    exp.Is: _PREDICATE,
    exp.In: _PREDICATE,
    exp.Between: _PREDICATE,
    exp.Escape: _PREDICATE,
    exp.Neg: _UNARY,
    exp.BitwiseNot: _UNARY,
}
# The arguments of a node that are read; any other one that is set refuses the expression. The flags are sqlglot's own
# notes on the dialect, which change nothing here.
_ARGUMENTS: Final[dict[type[exp.Expr], frozenset[str]]] = {
    **dict.fromkeys(_BINARY, frozenset({"this", "expression", "typed", "safe", "negate"})),
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
_TYPES: Final = {
    "BIGINT": "BIGINT", "BINARY": "BINARY", "BOOLEAN": "BOOLEAN", "DATE": "DATE", "DOUBLE": "DOUBLE", "FLOAT": "FLOAT",
    "INT": "INT", "SMALLINT": "SMALLINT", "TEXT": "STRING", "TIMESTAMPLTZ": "TIMESTAMP_LTZ",
    "TIMESTAMPNTZ": "TIMESTAMP_NTZ", "TIMESTAMPTZ": "TIMESTAMP", "TINYINT": "TINYINT",
}  # fmt: skip
_TYPED_LITERAL: Final = {
    "DATE": re.compile(r"\d{4}-\d{1,2}-\d{1,2}\Z"),
    "TIMESTAMP": re.compile(
        r"\d{4}-\d{1,2}-\d{1,2}([ T]\d{1,2}:\d{1,2}(:\d{1,2}(\.\d{1,6})?)?([ ]?[A-Za-z0-9:+/_-]+)?)?\Z"
    ),
    "TIMESTAMP_NTZ": re.compile(r"\d{4}-\d{1,2}-\d{1,2}([ T]\d{1,2}:\d{1,2}(:\d{1,2}(\.\d{1,6})?)?)?\Z"),
}
# Words that Spark takes for the clock, the user or the session where no column has the name.
_MOMENTARY = re.compile(r"(?i)(current_\w+|local_?time(stamp)?|session_user|system_user)\Z")
_INTERVAL_NUMBER = re.compile(r"-?\d{1,9}(\.\d{1,9})?\Z")


class Renderer:
    """Writes one checked tree as SQL; refuses what is not on the list.

    Checking and writing are one walk, so nothing can be written that was not checked.
    """

    def __init__(self, text: str, where: str | None, resolve: Resolve, *, tolerant: bool = False) -> None:
        self._tolerant = tolerant
        self._text = text
        self._where = where
        self._resolve = resolve
        self._depth = 0
        self.leaves: list[Leaf] = []
        self._special: dict[type[exp.Expr], Callable[[exp.Expr], str]] = {
            exp.Paren: lambda node: self.render(node.this),
            exp.Not: self._not,
            exp.Neg: lambda node: f"(- {self._child(node, node.this, _UNARY)})",
            exp.BitwiseNot: lambda node: f"(~ {self._child(node, node.this, _UNARY)})",
            exp.Is: lambda node: self._is(node, ""),
            exp.In: lambda node: self._in(node, ""),
            exp.Between: lambda node: self._between(node, ""),
            exp.Escape: self._escape,
            exp.Case: self._case,
            exp.Cast: self._cast,
            exp.TryCast: self._cast,
            exp.Interval: self._interval,
            exp.Extract: self._extract,
            exp.Trim: self._trim,
            exp.Bracket: self._bracket,
            exp.Dot: self._dot,
            exp.Column: self._column,
            exp.Literal: self._literal,
            exp.RawString: self._literal,
            exp.Boolean: lambda node: "true" if node.this else "false",
            exp.Null: lambda _: "null",
            exp.Anonymous: self._call,
        }

    def render(self, node: exp.Expr) -> str:
        """The SQL of a node and all below it."""
        kind = type(node)
        self._check_arguments(node)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._refuse(f"more than {MAX_DEPTH} levels deep", hint="split it into several steps, or use IN (...)")
        sql = self._binary(node) if kind in _BINARY else self._special[kind](node)
        self._depth -= 1
        return sql

    def _check_arguments(self, node: exp.Expr) -> None:
        known = _ARGUMENTS.get(type(node))
        if known is None or (type(node) not in _BINARY and type(node) not in self._special):
            self._refuse(f"{short(_sql(node))} ({type(node).__name__}) is no part of a plain expression")
        for name, value in node.args.items():
            if name not in known and value not in (None, False, []):
                self._refuse(
                    f"{short(_sql(node))} ({type(node).__name__} with {name}) is no part of a plain expression"
                )

    def _refuse(self, what: str, hint: str | None = None) -> NoReturn:
        msg = what if what.endswith(short(self._text)) else f"{what}, in {short(self._text)}"
        raise ExpressionRefused(msg, hint=hint, where=self._where)

    def _child(self, parent: exp.Expr, node: exp.Expr, least: int) -> str:
        """The SQL of an operand, which must bind as tightly as Spark's grammar asks in this place.

        Where sqlglot and Spark group operators differently, the tree breaks this rule and is refused: a tree that
        keeps it everywhere is the one tree that Spark's grammar has for the text.
        """
        if _LEVELS.get(type(node), _PRIMARY) < least:
            self._refuse(
                f"{short(_sql(parent))} can be grouped in two ways",
                hint="put parentheses around the part that is meant first",
            )
        return self.render(node)

    def _binary(self, node: exp.Expr) -> str:
        word, level = _BINARY[type(node)]
        # comparisons and predicates do not chain: a = b = c is asked to be written with parentheses
        chains = level not in (_PREDICATE, _COMPARISON)
        left = self._child(node, node.this, level if chains else _BIT_OR)
        right = self._child(node, node.args["expression"], level + 1 if chains else _BIT_OR)
        negation = "NOT " if node.args.get("negate") else ""
        if self._tolerant and word in allowed.TOLERANT_OPERATORS:
            return f"{allowed.TOLERANT_OPERATORS[word]}({left}, {right})"
        return f"({left} {negation}{word} {right})"

    def _not(self, node: exp.Expr) -> str:
        inner = node.this
        negated: dict[type[exp.Expr], Callable[[exp.Expr, str], str]] = {
            exp.Is: self._is,
            exp.In: self._in,
            exp.Between: self._between,
        }
        if type(inner) in negated:
            self._check_arguments(inner)
            return negated[type(inner)](inner, "NOT ")
        return f"(NOT {self._child(node, inner, _NOT)})"

    def _is(self, node: exp.Expr, negation: str) -> str:
        what = node.args["expression"]
        if type(what) not in (exp.Null, exp.Boolean):
            self._refuse(f"{short(_sql(node))}: IS takes null, true or false")
        return f"({self._child(node, node.this, _BIT_OR)} IS {negation}{self.render(what)})"

    def _in(self, node: exp.Expr, negation: str) -> str:
        choices = node.expressions
        if not choices:
            self._refuse(f"{short(_sql(node))}: IN takes a list of values", hint="such as: page IN ('a', 'b')")
        this = self._child(node, node.this, _BIT_OR)
        return f"({this} {negation}IN ({', '.join(self.render(choice) for choice in choices)}))"

    def _between(self, node: exp.Expr, negation: str) -> str:
        this, low, high = (
            self._child(node, part, _BIT_OR) for part in (node.this, node.args["low"], node.args["high"])
        )
        return f"({this} {negation}BETWEEN {low} AND {high})"

    def _escape(self, node: exp.Expr) -> str:
        like, sign = node.this, node.args["expression"]
        if type(like) not in (exp.Like, exp.ILike) or not _is_text(sign) or len(str(sign.this)) != 1:
            self._refuse(f"{short(_sql(node))}: ESCAPE takes one character, after LIKE")
        return f"{self.render(like)[:-1]} ESCAPE {self.render(sign)})"

    def _case(self, node: exp.Expr) -> str:
        parts = ["CASE"]
        if node.this is not None:
            parts.append(self.render(node.this))
        for branch in node.args["ifs"]:
            if type(branch) is not exp.If or set(branch.args) - {"this", "true"}:
                self._refuse(f"{short(_sql(branch))} is no branch of a CASE")
            parts.append(f"WHEN {self.render(branch.this)} THEN {self.render(branch.args['true'])}")
        if node.args.get("default") is not None:
            parts.append(f"ELSE {self.render(node.args['default'])}")
        return f"({' '.join(parts)} END)"

    def _cast(self, node: exp.Expr) -> str:
        value, safe = node.this, node.args.get("safe")
        if type(node) is exp.Cast:
            # DATE '2020-01-01'; the type stands first, as in the text
            kind = self._type(node.args["to"])
            pattern = _TYPED_LITERAL.get(kind)
            if pattern is None or not _is_text(value) or not pattern.match(str(value.this)):
                self._refuse(f"{short(_sql(node))} is no literal of a date or timestamp")
            return f"({kind} {self.render(value)})"
        if safe:
            self.leaves.append(("name", "TRY_CAST"))
        written = self.render(value)
        return f"{'TRY_CAST' if safe or self._tolerant else 'CAST'}({written} AS {self._type(node.args['to'])})"

    def _type(self, kind: exp.Expr) -> str:
        """A cast's target, from the list of types; also its words, among the leaves."""
        name = str(getattr(kind.this, "name", ""))
        if type(kind) is not exp.DataType or set(kind.args) - {"this", "expressions", "nested"}:
            self._refuse(f"{short(_sql(kind))} is no type to cast to")
        inner = kind.expressions
        if name in _TYPES and not inner:
            self.leaves.extend(name_leaf(_TYPES[name]))
            return _TYPES[name]
        if name == "DECIMAL":
            self.leaves.append(("name", "DECIMAL"))
            sizes = [str(size.this.this) for size in inner]
            if not all(size.isascii() and size.isdigit() for size in sizes):
                self._refuse(f"{short(_sql(kind))} is no type to cast to")
            self.leaves.extend(("number", Decimal(size)) for size in sizes)
            return f"DECIMAL({', '.join(sizes)})" if sizes else "DECIMAL"
        if name in ("ARRAY", "MAP") and len(inner) == (1 if name == "ARRAY" else 2):
            self.leaves.append(("name", name))
            return f"{name}<{', '.join(self._type(part) for part in inner)}>"
        if name != "STRUCT" or not inner or not all(type(part) is exp.ColumnDef and part.kind for part in inner):
            self._refuse(f"{short(_sql(kind))} is no type to cast to")
        self.leaves.append(("name", name))
        return f"STRUCT<{', '.join(self._member(part) for part in inner)}>"

    def _member(self, part: exp.Expr) -> str:
        if any(value for name, value in part.args.items() if name not in ("this", "kind")):
            self._refuse(f"{short(_sql(part))} is no member of a struct")
        name = part.this.name
        self.leaves.extend(name_leaf(name))
        return f"{quoted(name)}: {self._type(part.args['kind'])}"

    def _interval(self, node: exp.Expr) -> str:
        number, unit = node.this, node.args.get("unit")
        word = str(unit.this).upper() if type(unit) is exp.Var else ""
        if (
            type(number) is not exp.Literal
            or not _INTERVAL_NUMBER.match(str(number.this))
            or word not in allowed.INTERVAL_UNITS
        ):
            self._refuse(f"{short(_sql(node))} is no plain interval", hint="write it like INTERVAL 10 MINUTES")
        written = str(number.this)
        self.leaves.extend([("name", "INTERVAL"), self._interval_leaf(written), ("name", word)])
        return f"(INTERVAL '{written}' {word})"

    def _interval_leaf(self, written: str) -> Leaf:
        # sqlglot keeps the number of both INTERVAL 1 DAY and INTERVAL '1' DAY as a text
        return (
            ("text", written)
            if re.search(rf"['\"]{re.escape(written)}['\"]", self._text)
            else ("number", Decimal(written))
        )

    def _extract(self, node: exp.Expr) -> str:
        word = str(node.this.this).upper() if type(node.this) is exp.Var else ""
        if word not in allowed.EXTRACTS:
            self._refuse(f"{short(_sql(node))}: EXTRACT takes one of {', '.join(sorted(allowed.EXTRACTS))}")
        self.leaves.extend([("name", "EXTRACT"), ("name", word)])
        return f"EXTRACT({word} FROM {self.render(node.args['expression'])})"

    def _trim(self, node: exp.Expr) -> str:
        this, signs, position = node.this, node.args.get("expression"), node.args.get("position")
        self.leaves.append(("name", "TRIM"))
        if signs is None and position is None:
            return f"TRIM({self.render(this)})"
        if position not in (None, "BOTH", "LEADING", "TRAILING"):
            self._refuse(f"{short(_sql(node))} is no plain trim")
        word = str(position or "BOTH")
        if position is not None:
            self.leaves.append(("name", word))
        written = f"{self.render(signs)} " if signs is not None else ""
        return f"TRIM({word} {written}FROM {self.render(this)})"

    def _bracket(self, node: exp.Expr) -> str:
        index = node.expressions
        if len(index) != 1 or type(index[0]) in (exp.Slice, exp.Tuple):
            self._refuse(f"{short(_sql(node))}: one index or key goes between the brackets")
        return f"({self._child(node, node.this, _PRIMARY)})[{self.render(index[0])}]"

    def _dot(self, node: exp.Expr) -> str:
        member = node.args["expression"]
        if type(member) is not exp.Identifier:
            self._refuse(f"{short(_sql(node))}: a name goes behind the dot")
        parts = path_of(node)
        if parts is not None:
            return self._named(parts)
        base = self._child(node, node.this, _PRIMARY)
        self.leaves.extend(name_leaf(member.name))
        return f"({base}).{quoted(member.name)}"

    def _column(self, node: exp.Expr) -> str:
        parts = path_of(node)
        if parts is None:
            self._refuse(f"{short(_sql(node))} is no name of a column")
        if len(parts) == 1 and not node.this.args.get("quoted") and _MOMENTARY.match(parts[0]):
            self._refuse(
                f"{parts[0]} is another value in each run", hint=f"if a column has this name, write `{parts[0]}`"
            )
        return self._named(parts)

    def _named(self, parts: Parts) -> str:
        for part in parts:
            self.leaves.extend(name_leaf(part))
        return self._resolve(parts)

    def _literal(self, node: exp.Expr) -> str:
        written = str(node.this)
        if type(node) is exp.RawString or node.args.get("is_string"):
            self.leaves.append(("text", written))
            return literal(written)
        if not NUMBER.match(written):
            self._refuse(f"{short(written)} is no number")
        self.leaves.append(("number", decimal(written)))
        return written

    def _call(self, node: exp.Expr) -> str:
        name = node.this if isinstance(node.this, str) else ""
        plain = name.lower()
        if plain not in allowed.FUNCTIONS:
            place = self._text.lower().find(plain) + 1 if plain else 0
            at = f" at character {place}" if place else ""
            self._refuse(f"the function {short(name or _sql(node))}{at} is not on the allow-list")
        arguments = node.expressions
        if len(arguments) < allowed.LEAST_ARGUMENTS.get(plain, 0):
            self._refuse(
                f"{name} needs {allowed.LEAST_ARGUMENTS[plain]} or more arguments; with fewer it asks for the moment"
            )
        self.leaves.extend(name_leaf(name))
        written: list[str] = []
        if plain in allowed.UNIT_FIRST and len(arguments) == 3:
            written.append(self._unit(plain, arguments[0]))
            arguments = arguments[1:]
        if plain == "struct":
            return self._struct(arguments)
        written.extend(self.render(argument) for argument in arguments)
        if self._tolerant and plain in allowed.CASTS and len(written) == 1:
            return f"TRY_CAST({written[0]} AS {plain})"
        called = allowed.TOLERANT.get(plain, plain) if self._tolerant else plain
        if called == "try_to_date":  # which Spark 4.0 does not have
            time = f"try_to_timestamp({', '.join(written)})"
            return f"TRY_CAST({written[0] if len(written) == 1 else time} AS date)"
        return f"{called}({', '.join(written)})"

    def _unit(self, name: str, node: exp.Expr) -> str:
        parts = path_of(node)
        unit = parts[0].upper() if parts is not None and len(parts) == 1 else ""
        if unit not in allowed.UNITS:
            self._refuse(f"{short(_sql(node))} is no unit of {name}", hint=f"one of {', '.join(sorted(allowed.UNITS))}")
        self.leaves.append(("name", unit))
        return unit

    def _struct(self, arguments: Sequence[exp.Expr]) -> str:
        """`struct(a, b)` takes its names from its columns; they are written out, for columns have other names inside."""
        written: list[str] = []
        for argument in arguments:
            parts = path_of(argument)
            if parts is None:
                self._refuse(
                    f"{short(_sql(argument))} has no name in struct(...)", hint="use named_struct('name', value, ...)"
                )
            written.extend((literal(parts[-1]), self.render(argument)))
        return f"named_struct({', '.join(written)})"


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


def _is_text(node: object) -> bool:
    return type(node) is exp.RawString or (type(node) is exp.Literal and bool(node.args.get("is_string")))


def _sql(node: exp.Expr) -> str:
    """A part of the expression for a message; never for Spark."""
    try:
        return node.sql(dialect="spark")
    except Exception:  # noqa: BLE001 - the message matters more than its ornament
        return type(node).__name__
