# ruff: noqa: SIM905 - long lists of words read better as text
"""SQL expressions of configuration files: parsed, checked against an allow-list, written anew from the checked tree.

An expression is code that somebody else's file brings into the driver, so nothing of its text reaches Spark. It is
split into tokens, each of them of a known sort; parsed by sqlglot with all of its function knowledge taken away (so
that it rewrites nothing); every node, argument and function must be on the list; the tree must be the one that
Spark's own grammar gives (else parentheses are asked for); it must hold every name and literal of the text, in order;
and only then Spark gets SQL, which is generated here, fully parenthesised, with columns that the step's sides know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from lakestreams.config import functions as allowed
from lakestreams.errors import ExpressionRefused, InvalidExpression, UnknownColumn

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.topology.fields import Fields

MAX_LENGTH: Final = 10_000
MAX_DEPTH: Final = 100

_Parts = tuple[str, ...]
_Leaf = tuple[str, str | Decimal]
_Resolve = Callable[[_Parts], str]


class _Bare(Spark):
    """Spark's grammar without sqlglot's functions: `f(x)` stays a call of f, whatever f is."""

    class Parser(SparkParser):
        """The parser; only syntax that is no plain call keeps a rule of its own."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {"CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: SparkParser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST", "EXTRACT", "TRIM")
        }


@dataclass(frozen=True)
class Expression:
    """A checked expression. Two are equal if they say the same, however they are spaced or spelt.

    Attributes:
        text: as the user wrote it.
        where: where it was written.
        sql: written anew from the checked tree, columns by the names the user gave.
        columns: the column references in it, each split at its dots.
    """

    text: str = field(compare=False)
    where: str = field(compare=False, repr=False)
    sql: str
    columns: tuple[_Parts, ...] = field(compare=False, repr=False)
    _tree: exp.Expr = field(compare=False, repr=False)

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
        resolve: _Resolve = lambda parts: _reference(parts, sides, self)  # noqa: E731 - as short as its use
        return _Renderer(self.text, self.where, resolve, tolerant=tolerant).render(self._tree)


def compile_expression(text: str, where: str | None = None) -> Expression:
    """Checks an expression.

    Args:
        text: the SQL.
        where: where it was written, for the error.

    Raises:
        ExpressionRefused: if it is not SQL, or anything in it is not on the allow-list.
    """
    if len(text) > MAX_LENGTH:
        msg = f"the expression has {len(text)} characters; {MAX_LENGTH} are the most"
        raise ExpressionRefused(msg, where=where)
    try:
        tokens = _tokens(text, where)
        tree = _parse(tokens, text, where)
        seen: list[_Parts] = []

        def noted(parts: _Parts) -> str:
            seen.append(parts)
            return ".".join(map(_quoted, parts))

        renderer = _Renderer(text, where, noted)
        sql = renderer.render(tree)
    except RecursionError:
        msg = f"the expression {_short(text)} is nested too deeply"
        raise ExpressionRefused(msg, where=where) from None
    # sqlglot drops a token here and there: what is not in the tree was not checked, and would not be evaluated
    if renderer.leaves != _leaves(tokens):
        msg = f"the expression {_short(text)} cannot be read without doubt"
        raise ExpressionRefused(msg, hint="put parentheses around its parts, or write it with functions", where=where)
    return Expression(text, where or "", sql, tuple(seen), tree)


# --- text to tokens ------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NUMBER = re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?([lLdDfF])?\Z")
_PUNCTUATION: Final = frozenset("( ) [ ] , . + - * / % || = == != <> < <= > >= <=> & | ^ ~ ! ::".split())
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_ESCAPED: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": r"\%", "_": r"\_"}
# other spellings of one word; the tree knows only the right-hand one
_SAME: Final = {"INTEGER": "INT", "LONG": "BIGINT", "SHORT": "SMALLINT", "BYTE": "TINYINT", "REAL": "FLOAT",
                "DEC": "DECIMAL", "NUMERIC": "DECIMAL", "L": "BIGINT", "D": "DOUBLE", "F": "FLOAT"}  # fmt: skip
# words that stand for the tree's shape rather than for a leaf of it
_SHAPE: Final = frozenset(
    """AND AS BETWEEN CASE CAST DISTINCT DIV ELSE END ESCAPE FALSE FROM ILIKE IN IS ISNULL LIKE NOT NOTNULL NULL OR
    REGEXP RLIKE THEN TRUE UNKNOWN WHEN""".split()
)


def _tokens(text: str, where: str | None) -> list[Token]:
    """The text's tokens, each of a known sort; strings decoded by Spark's rules instead of sqlglot's."""
    try:
        raw = _Bare().tokenize(text)
    except SqlglotError as error:
        msg = f"the expression {_short(text)} is not SQL: {str(error).splitlines()[0]}"
        raise ExpressionRefused(msg, where=where) from None
    if raw and raw[0].token_type in Spark.Tokenizer.COMMANDS:
        # such a word makes sqlglot take the rest of the text as it is
        msg = f"{_short(text)} is a command, not an expression"
        raise ExpressionRefused(msg, where=where)
    tokens: list[Token] = []
    end = 0
    for token in raw:
        written = text[token.start : token.end + 1]
        if tokens and token.start == tokens[-1].start:
            # 1L arrives as 1::BIGINT, all three of one place
            tokens.append(token)
            continue
        _check_gap(text, end, token.start, where)
        end = token.end + 1
        if _begins_fraction(tokens, token):
            dot = tokens.pop()
            number = Token(token.token_type, f"0.{token.text}", dot.line, dot.col, dot.start, token.end, [])
            tokens.append(_token(number, f".{written}", tokens, text, where))
        else:
            tokens.append(_token(token, written, tokens, text, where))
        if len(tokens) > 1 and tokens[-1].token_type is tokens[-2].token_type is TokenType.STRING:
            tokens[-2:] = [_joined(tokens[-2], tokens[-1], text, where)]
    _check_gap(text, end, len(text), where)
    if not tokens:
        msg = "the expression is empty"
        raise ExpressionRefused(msg, where=where)
    return tokens


def _check_gap(text: str, start: int, end: int, where: str | None) -> None:
    gap = text[start:end].strip(" \t\r\n")
    if gap:
        msg = (
            f"comments and hints are no part of an expression: {_short(gap)} at character {start + 1} of {_short(text)}"
        )
        raise ExpressionRefused(msg, where=where)


def _token(token: Token, written: str, before: Sequence[Token], text: str, where: str | None) -> Token:
    kind = token.token_type
    if kind is TokenType.STRING:
        return _with_text(token, _decoded(written[1:-1]))
    if kind is TokenType.RAW_STRING:
        return _with_text(token, written[2:-1])
    if kind is TokenType.IDENTIFIER:
        # ANSI mode's "..." is a string to Spark unless a session option says otherwise; ` is always a name
        if written.startswith("`") and token.text and "\0" not in token.text:
            return token
    elif kind is TokenType.NUMBER:
        if _NUMBER.match(written) and not (before and before[-1].text == "."):
            return token
    elif written == ":":
        # only between the name and the type of a struct's member
        if any(earlier.text.upper() == "STRUCT" for earlier in before):
            return token
    elif written == ")" and before and before[-1].token_type is TokenType.COMMA:
        pass
    elif written in _PUNCTUATION or _WORD.match(written):
        return token
    msg = f"{_short(written)} at character {token.start + 1} of {_short(text)} is no part of a plain expression"
    raise ExpressionRefused(msg, where=where)


def _begins_fraction(before: Sequence[Token], token: Token) -> bool:
    """Whether a number goes on a dot that nothing stands before, as in `.5`; the tokenizer splits the two."""
    if token.token_type is not TokenType.NUMBER or not before:
        return False
    dot, others = before[-1], before[:-1]
    if dot.text != "." or dot.end + 1 != token.start:
        return False
    last = others[-1] if others else None
    return last is None or last.text in _PUNCTUATION - {")", "]", "."}


def _with_text(token: Token, text: str) -> Token:
    return Token(token.token_type, text, token.line, token.col, token.start, token.end, [])


def _joined(left: Token, right: Token, text: str, where: str | None) -> Token:
    """`'it''s'` is two tokens here and one in Spark; `'a' 'b'` is joined by some versions and not by others."""
    quote = text[right.start]
    if left.end + 1 != right.start or text[left.start] != quote:
        msg = f"two texts beside each other at character {right.start + 1} of {_short(text)}"
        raise ExpressionRefused(msg, hint="join texts with || or concat(...)", where=where)
    return Token(left.token_type, left.text + quote + right.text, left.line, left.col, left.start, right.end, [])


def _decoded(written: str) -> str:
    """What Spark makes of the inside of a quoted text (its ParserUtils.unescapeSQLString)."""

    def one(match: re.Match[str]) -> str:
        short, long, octal, other = match.groups()
        if octal:
            return chr(int(octal, 8))
        if other:
            return _ESCAPED.get(other, other)
        return chr(min(int(short or long, 16), 0x10FFFF))

    return _ESCAPE.sub(one, written)


def _leaves(tokens: Sequence[Token]) -> list[_Leaf]:
    """Names, literals and type words of the text, in order."""
    found: list[_Leaf] = []
    for token in tokens:
        if token.token_type in (TokenType.STRING, TokenType.RAW_STRING):
            found.append(("text", token.text))
        elif token.token_type is TokenType.NUMBER:
            found.append(("number", _decimal(token.text)))
        elif token.token_type is TokenType.IDENTIFIER or _WORD.match(token.text):
            found.extend(_name_leaf(token.text))
    return found


def _name_leaf(name: str) -> list[_Leaf]:
    name = name.upper()
    return [] if name in _SHAPE else [("name", _SAME.get(name, name))]


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("NaN")


def _parse(tokens: list[Token], text: str, where: str | None) -> exp.Expr:
    for previous, token in pairwise(tokens):
        if previous.text == "." and token.token_type is TokenType.STRING:
            msg = f"a text after a dot in {_short(text)}"
            raise ExpressionRefused(msg, where=where)
    try:
        trees = _Bare().parser().parse(tokens, text)
    except SqlglotError as error:
        reason = error.errors[0].get("description") if isinstance(error, ParseError) and error.errors else str(error)
        msg = f"the expression {_short(text)} is not a plain expression: {(reason or 'syntax error').splitlines()[0]}"
        raise ExpressionRefused(msg, where=where) from None
    except RecursionError:
        raise
    except Exception as error:  # noqa: BLE001 - a parser that stumbles has not understood the text
        msg = f"the expression {_short(text)} cannot be read ({type(error).__name__})"
        raise ExpressionRefused(msg, where=where) from None
    if len(trees) != 1 or trees[0] is None:
        msg = f"{_short(text)} is not one expression"
        raise ExpressionRefused(msg, where=where)
    return trees[0]


# --- tree to SQL ---------------------------------------------------------------------------------------------------

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
_NOW = re.compile(r"(?i)\s*(now|today|tomorrow|yesterday|epoch)\b")
_INTERVAL_NUMBER = re.compile(r"-?\d{1,9}(\.\d{1,9})?\Z")


class _Renderer:
    """Writes one checked tree as SQL; refuses what is not on the list.

    Checking and writing are one walk, so nothing can be written that was not checked.
    """

    def __init__(self, text: str, where: str | None, resolve: _Resolve, *, tolerant: bool = False) -> None:
        self._tolerant = tolerant
        self._text = text
        self._where = where
        self._resolve = resolve
        self._depth = 0
        self.leaves: list[_Leaf] = []
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
            self._refuse(f"{_short(_sql(node))} ({type(node).__name__}) is no part of a plain expression")
        for name, value in node.args.items():
            if name not in known and value not in (None, False, []):
                self._refuse(
                    f"{_short(_sql(node))} ({type(node).__name__} with {name}) is no part of a plain expression"
                )

    def _refuse(self, what: str, hint: str | None = None) -> NoReturn:
        msg = what if what.endswith(_short(self._text)) else f"{what}, in {_short(self._text)}"
        raise ExpressionRefused(msg, hint=hint, where=self._where)

    def _child(self, parent: exp.Expr, node: exp.Expr, least: int) -> str:
        """The SQL of an operand, which must bind as tightly as Spark's grammar asks in this place.

        Where sqlglot and Spark group operators differently, the tree breaks this rule and is refused: a tree that
        keeps it everywhere is the one tree that Spark's grammar has for the text.
        """
        if _LEVELS.get(type(node), _PRIMARY) < least:
            self._refuse(
                f"{_short(_sql(parent))} can be grouped in two ways",
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
            self._refuse(f"{_short(_sql(node))}: IS takes null, true or false")
        return f"({self._child(node, node.this, _BIT_OR)} IS {negation}{self.render(what)})"

    def _in(self, node: exp.Expr, negation: str) -> str:
        choices = node.expressions
        if not choices:
            self._refuse(f"{_short(_sql(node))}: IN takes a list of values", hint="such as: page IN ('a', 'b')")
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
            self._refuse(f"{_short(_sql(node))}: ESCAPE takes one character, after LIKE")
        return f"{self.render(like)[:-1]} ESCAPE {self.render(sign)})"

    def _case(self, node: exp.Expr) -> str:
        parts = ["CASE"]
        if node.this is not None:
            parts.append(self.render(node.this))
        for branch in node.args["ifs"]:
            if type(branch) is not exp.If or set(branch.args) - {"this", "true"}:
                self._refuse(f"{_short(_sql(branch))} is no branch of a CASE")
            parts.append(f"WHEN {self.render(branch.this)} THEN {self.render(branch.args['true'])}")
        if node.args.get("default") is not None:
            parts.append(f"ELSE {self.render(node.args['default'])}")
        return f"({' '.join(parts)} END)"

    def _cast(self, node: exp.Expr) -> str:
        value, safe = node.this, node.args.get("safe")
        if _is_text(value) and _NOW.match(str(value.this)):
            self._refuse(f"{_short(_sql(node))} asks for the current time, which is another one in each run")
        if type(node) is exp.Cast:
            # DATE '2020-01-01'; the type stands first, as in the text
            kind = self._type(node.args["to"])
            pattern = _TYPED_LITERAL.get(kind)
            if pattern is None or not _is_text(value) or not pattern.match(str(value.this)):
                self._refuse(f"{_short(_sql(node))} is no literal of a date or timestamp")
            return f"({kind} {self.render(value)})"
        if safe:
            self.leaves.append(("name", "TRY_CAST"))
        written = self.render(value)
        return f"{'TRY_CAST' if safe or self._tolerant else 'CAST'}({written} AS {self._type(node.args['to'])})"

    def _type(self, kind: exp.Expr) -> str:
        """A cast's target, from the list of types; also its words, among the leaves."""
        name = str(getattr(kind.this, "name", ""))
        if type(kind) is not exp.DataType or set(kind.args) - {"this", "expressions", "nested"}:
            self._refuse(f"{_short(_sql(kind))} is no type to cast to")
        inner = kind.expressions
        if name in _TYPES and not inner:
            self.leaves.extend(_name_leaf(_TYPES[name]))
            return _TYPES[name]
        if name == "DECIMAL":
            self.leaves.append(("name", "DECIMAL"))
            sizes = [str(size.this.this) for size in inner]
            if not all(size.isascii() and size.isdigit() for size in sizes):
                self._refuse(f"{_short(_sql(kind))} is no type to cast to")
            self.leaves.extend(("number", Decimal(size)) for size in sizes)
            return f"DECIMAL({', '.join(sizes)})" if sizes else "DECIMAL"
        if name in ("ARRAY", "MAP") and len(inner) == (1 if name == "ARRAY" else 2):
            self.leaves.append(("name", name))
            return f"{name}<{', '.join(self._type(part) for part in inner)}>"
        if name != "STRUCT" or not inner or not all(type(part) is exp.ColumnDef and part.kind for part in inner):
            self._refuse(f"{_short(_sql(kind))} is no type to cast to")
        self.leaves.append(("name", name))
        return f"STRUCT<{', '.join(self._member(part) for part in inner)}>"

    def _member(self, part: exp.Expr) -> str:
        if any(value for name, value in part.args.items() if name not in ("this", "kind")):
            self._refuse(f"{_short(_sql(part))} is no member of a struct")
        name = part.this.name
        self.leaves.extend(_name_leaf(name))
        return f"{_quoted(name)}: {self._type(part.args['kind'])}"

    def _interval(self, node: exp.Expr) -> str:
        number, unit = node.this, node.args.get("unit")
        word = str(unit.this).upper() if type(unit) is exp.Var else ""
        if (
            type(number) is not exp.Literal
            or not _INTERVAL_NUMBER.match(str(number.this))
            or word not in allowed.INTERVAL_UNITS
        ):
            self._refuse(f"{_short(_sql(node))} is no plain interval", hint="write it like INTERVAL 10 MINUTES")
        written = str(number.this)
        self.leaves.extend([("name", "INTERVAL"), self._interval_leaf(written), ("name", word)])
        return f"(INTERVAL '{written}' {word})"

    def _interval_leaf(self, written: str) -> _Leaf:
        # sqlglot keeps the number of both INTERVAL 1 DAY and INTERVAL '1' DAY as a text
        return (
            ("text", written)
            if re.search(rf"['\"]{re.escape(written)}['\"]", self._text)
            else ("number", Decimal(written))
        )

    def _extract(self, node: exp.Expr) -> str:
        word = str(node.this.this).upper() if type(node.this) is exp.Var else ""
        if word not in allowed.EXTRACTS:
            self._refuse(f"{_short(_sql(node))}: EXTRACT takes one of {', '.join(sorted(allowed.EXTRACTS))}")
        self.leaves.extend([("name", "EXTRACT"), ("name", word)])
        return f"EXTRACT({word} FROM {self.render(node.args['expression'])})"

    def _trim(self, node: exp.Expr) -> str:
        this, signs, position = node.this, node.args.get("expression"), node.args.get("position")
        self.leaves.append(("name", "TRIM"))
        if signs is None and position is None:
            return f"TRIM({self.render(this)})"
        if position not in (None, "BOTH", "LEADING", "TRAILING"):
            self._refuse(f"{_short(_sql(node))} is no plain trim")
        word = str(position or "BOTH")
        if position is not None:
            self.leaves.append(("name", word))
        written = f"{self.render(signs)} " if signs is not None else ""
        return f"TRIM({word} {written}FROM {self.render(this)})"

    def _bracket(self, node: exp.Expr) -> str:
        index = node.expressions
        if len(index) != 1 or type(index[0]) in (exp.Slice, exp.Tuple):
            self._refuse(f"{_short(_sql(node))}: one index or key goes between the brackets")
        return f"({self._child(node, node.this, _PRIMARY)})[{self.render(index[0])}]"

    def _dot(self, node: exp.Expr) -> str:
        member = node.args["expression"]
        if type(member) is not exp.Identifier:
            self._refuse(f"{_short(_sql(node))}: a name goes behind the dot")
        parts = _path(node)
        if parts is not None:
            return self._named(parts)
        base = self._child(node, node.this, _PRIMARY)
        self.leaves.extend(_name_leaf(member.name))
        return f"({base}).{_quoted(member.name)}"

    def _column(self, node: exp.Expr) -> str:
        parts = _path(node)
        if parts is None:
            self._refuse(f"{_short(_sql(node))} is no name of a column")
        if len(parts) == 1 and not node.this.args.get("quoted") and _MOMENTARY.match(parts[0]):
            self._refuse(
                f"{parts[0]} is another value in each run", hint=f"if a column has this name, write `{parts[0]}`"
            )
        return self._named(parts)

    def _named(self, parts: _Parts) -> str:
        for part in parts:
            self.leaves.extend(_name_leaf(part))
        return self._resolve(parts)

    def _literal(self, node: exp.Expr) -> str:
        written = str(node.this)
        if type(node) is exp.RawString or node.args.get("is_string"):
            self.leaves.append(("text", written))
            return _text_literal(written)
        if not _NUMBER.match(written):
            self._refuse(f"{_short(written)} is no number")
        self.leaves.append(("number", _decimal(written)))
        return written

    def _call(self, node: exp.Expr) -> str:
        name = node.this if isinstance(node.this, str) else ""
        plain = name.lower()
        if plain not in allowed.FUNCTIONS:
            place = self._text.lower().find(plain) + 1 if plain else 0
            at = f" at character {place}" if place else ""
            self._refuse(f"the function {_short(name or _sql(node))}{at} is not on the allow-list")
        arguments = node.expressions
        if len(arguments) < allowed.LEAST_ARGUMENTS.get(plain, 0):
            self._refuse(
                f"{name} needs {allowed.LEAST_ARGUMENTS[plain]} or more arguments; with fewer it asks for the moment"
            )
        self._check_size(plain, arguments)
        self.leaves.extend(_name_leaf(name))
        written: list[str] = []
        if plain in allowed.UNIT_FIRST and len(arguments) == 3:
            written.append(self._unit(plain, arguments[0]))
            arguments = arguments[1:]
        if plain == "struct":
            return self._struct(arguments)
        written.extend(self.render(argument) for argument in arguments)
        if self._tolerant and plain in allowed.CASTS and len(written) == 1:
            return f"TRY_CAST({written[0]} AS {plain})"
        return f"{allowed.TOLERANT.get(plain, plain) if self._tolerant else plain}({', '.join(written)})"

    def _check_size(self, name: str, arguments: Sequence[exp.Expr]) -> None:
        place = allowed.REPEATING.get(name)
        if place is None or place >= len(arguments):
            return
        size = arguments[place]
        if type(size) is not exp.Literal or size.is_string or _decimal(str(size.this)) > allowed.MAX_REPEAT:
            self._refuse(f"{name} takes a written number of at most {allowed.MAX_REPEAT} as its length")

    def _unit(self, name: str, node: exp.Expr) -> str:
        parts = _path(node)
        unit = parts[0].upper() if parts is not None and len(parts) == 1 else ""
        if unit not in allowed.UNITS:
            self._refuse(
                f"{_short(_sql(node))} is no unit of {name}", hint=f"one of {', '.join(sorted(allowed.UNITS))}"
            )
        self.leaves.append(("name", unit))
        return unit

    def _struct(self, arguments: Sequence[exp.Expr]) -> str:
        """`struct(a, b)` takes its names from its columns; they are written out, for columns have other names inside."""
        written: list[str] = []
        for argument in arguments:
            parts = _path(argument)
            if parts is None:
                self._refuse(
                    f"{_short(_sql(argument))} has no name in struct(...)", hint="use named_struct('name', value, ...)"
                )
            written.extend((_text_literal(parts[-1]), self.render(argument)))
        return f"named_struct({', '.join(written)})"


def _path(node: exp.Expr) -> _Parts | None:
    """The names of `a`, `a.b` or `a.b.c...`; None for anything else."""
    if type(node) is exp.Dot:
        head = _path(node.this)
        tail = node.args["expression"]
        return (*head, str(tail.this)) if head is not None and type(tail) is exp.Identifier else None
    if type(node) is not exp.Column:
        return None
    names = [node.args[part] for part in ("catalog", "db", "table", "this") if node.args.get(part) is not None]
    if not all(type(name) is exp.Identifier for name in names):
        return None
    return tuple(str(name.this) for name in names)


def _reference(parts: _Parts, sides: Mapping[str, Fields], expression: Expression) -> str:
    """The SQL of a column reference: a side's column, or the column of the only side that has it."""
    owner, rest = (parts[0], parts[1:]) if len(parts) > 1 and parts[0] in sides else (None, parts)
    column, members = rest[0], rest[1:]
    if owner is None:
        owners = [name for name, fields in sides.items() if column in fields]
        if len(owners) > 1:
            msg = f"{column!r} in {_short(expression.text)} is a column of {' and of '.join(owners)}"
            hint = "write " + " or ".join(f"{name}.{column}" for name in owners)
            raise InvalidExpression(msg, hint=hint, where=expression.where or None)
        if not owners and len(sides) > 1:
            have = "; ".join(f"{name} has: {', '.join(fields)}" for name, fields in sides.items())
            msg = f"neither side has a column {column!r}, in {_short(expression.text)}"
            raise UnknownColumn(msg, hint=have, where=expression.where or None)
        owner = owners[0] if owners else next(iter(sides))
    fields = sides[owner]
    base = fields.sql(column)
    if column not in fields or not members:
        return base
    return f"({base})" + "".join(f".{_quoted(member)}" for member in members)


def _is_text(node: object) -> bool:
    return type(node) is exp.RawString or (type(node) is exp.Literal and bool(node.args.get("is_string")))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


_WRITTEN: Final = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _text_literal(text: str) -> str:
    return "'" + "".join(_WRITTEN.get(c) or (c if c.isprintable() else _numbered(c)) for c in text) + "'"


def _numbered(sign: str) -> str:
    return f"\\u{ord(sign):04x}" if ord(sign) <= 0xFFFF else f"\\U{ord(sign):08x}"


def _sql(node: exp.Expr) -> str:
    """A part of the expression for a message; never for Spark."""
    try:
        return node.sql(dialect="spark")
    except Exception:  # noqa: BLE001 - the message matters more than its ornament
        return type(node).__name__


def _short(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 80 else text[:77] + "...")
