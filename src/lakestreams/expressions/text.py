# ruff: noqa: SIM905 - long lists of words read better as text
"""From an expression's text to its tree: tokens, each of a known sort, and what sqlglot makes of them.

All of sqlglot's function knowledge is taken away, so that it rewrites nothing, and its strings are decoded again, by Spark's
rules. Refused is what is no token of a plain expression, comments and hints too, and what cannot be parsed; whether the
rest is allowed is for `sql` to say, from the tree. `leaves_of` tells what of the text a tree must hold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any, ClassVar, Final, NamedTuple

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from lakestreams.errors import ExpressionRefused


class Fault(NamedTuple):
    """Why something is refused, as a sentence, and how it is written instead; None: as the error's kind says."""

    why: str
    hint: str | None = None


# A name, a literal or a type's word: its sort (name, text, number) and what it says.
Leaf = tuple[str, str | Decimal]

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
NUMBER = re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?([lLdDfF])?\Z")
_MOST_TYPES: Final = 10
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


def tokens_of(text: str, where: str | None) -> list[Token]:
    """The text's tokens, each of a known sort; strings decoded by Spark's rules instead of sqlglot's."""
    try:
        raw = _Bare().tokenize(text)
    except SqlglotError:
        msg = f"the expression {short(text)} has a quote or a comment that is not closed"
        hint = "close it, or double it where it is meant: 'it''s'"
        raise ExpressionRefused(msg, hint=hint, where=where) from None
    if raw and raw[0].token_type in Spark.Tokenizer.COMMANDS:
        # such a word makes sqlglot take the rest of the text as it is
        msg = f"{short(text)} is a command, not an expression"
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
        msg = f"comments and hints are no part of an expression: {short(gap)} at character {start + 1} of {short(text)}"
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
        if NUMBER.match(written) and not (before and before[-1].text == "."):
            return token
    elif written == ":":
        # only between the name and the type of a struct's member
        if any(earlier.text.upper() == "STRUCT" for earlier in before):
            return token
    elif written == ")" and before and before[-1].token_type is TokenType.COMMA:
        pass
    elif written in _PUNCTUATION or _WORD.match(written):
        return token
    msg = f"{short(written)} at character {token.start + 1} of {short(text)} is no part of a plain expression"
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
        msg = f"two texts next to each other at character {right.start + 1} of {short(text)}"
        raise ExpressionRefused(msg, hint="join texts with || or concat(...)", where=where)
    return Token(left.token_type, left.text + quote + right.text, left.line, left.col, left.start, right.end, [])


def _decoded(written: str) -> str:
    """What Spark makes of the inside of a quoted text (its ParserUtils.unescapeSQLString)."""

    def one(match: re.Match[str]) -> str:
        four, eight, octal, other = match.groups()
        if octal:
            return chr(int(octal, 8))
        if other:
            return _ESCAPED.get(other, other)
        return chr(min(int(four or eight, 16), 0x10FFFF))

    return _ESCAPE.sub(one, written)


def leaves_of(tokens: Sequence[Token]) -> list[Leaf]:
    """Names, literals and type words of the text, in order."""
    found: list[Leaf] = []
    for token in tokens:
        if token.token_type in (TokenType.STRING, TokenType.RAW_STRING):
            found.append(("text", token.text))
        elif token.token_type is TokenType.NUMBER:
            found.append(("number", decimal(token.text)))
        elif token.token_type is TokenType.IDENTIFIER or _WORD.match(token.text):
            found.extend(name_leaf(token.text))
    return found


def name_leaf(name: str) -> list[Leaf]:
    """The leaf of a name or a type's word, spelt as the tree spells it; none of a word that is the tree's shape."""
    name = name.upper()
    return [] if name in _SHAPE else [("name", _SAME.get(name, name))]


def decimal(text: str) -> Decimal:
    """A written number's value; of one that is none, NaN, which equals nothing."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("NaN")


def parse(tokens: list[Token], text: str, where: str | None) -> exp.Expr:
    """The one tree of the tokens.

    Raises:
        ExpressionRefused: if they are none or several expressions, or none that the parser understands.
        RecursionError: if they are nested too deeply.
    """
    for previous, token in pairwise(tokens):
        if previous.text == "." and token.token_type is TokenType.STRING:
            msg = f"a text after a dot in {short(text)}"
            raise ExpressionRefused(msg, where=where)
    if _calls_of_types(tokens) > _MOST_TYPES:
        msg = f"more than {_MOST_TYPES} types are called in each other, in {short(text)}"
        raise ExpressionRefused(msg, hint="write cast(... as ...), or split it into several steps", where=where)
    try:
        trees = _Bare().parser().parse(tokens, text)
    except SqlglotError as error:
        msg = f"the expression {short(text)} cannot be read{_at(error, text)}"
        raise ExpressionRefused(msg, hint=_TO_READ, where=where) from None
    except RecursionError:
        raise
    except Exception:  # noqa: BLE001 - a parser that stumbles has not understood the text
        msg = f"the expression {short(text)} cannot be read"
        raise ExpressionRefused(msg, hint=_TO_READ, where=where) from None
    if len(trees) != 1 or trees[0] is None:
        msg = f"{short(text)} is not one expression"
        raise ExpressionRefused(msg, where=where)
    return trees[0]


def _calls_of_types(tokens: Sequence[Token]) -> int:
    """How many calls such as `date(...)` lie in each other: the parser reads each as a type first, and all in it twice."""
    open_: list[bool] = []
    most = now = 0
    for before, token in pairwise(tokens):
        if token.text == "(":
            open_.append(before.token_type in SparkParser.TYPE_TOKENS)
            now += open_[-1]
            most = max(most, now)
        elif token.text == ")" and open_:
            now -= open_.pop()
    return most


def _at(error: SqlglotError, text: str) -> str:
    """Where the parser gave up, in words; empty if it does not say."""
    found = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    stopped, column = found.get("highlight"), found.get("col")
    if not stopped or column is None:
        return ""
    return " to its end" if column >= len(text.rstrip()) else f" at {short(str(stopped))}, character {column}"


_TO_READ: Final = "look for an operand, a comma or a bracket that is missing or too much there"


def short(text: str) -> str:
    """A text for a message: in quotes, on one line, its end left out if it is long."""
    text = " ".join(text.split())
    return repr(text if len(text) <= 80 else text[:77] + "...")


def shown(node: exp.Expr) -> str:
    """A part of the expression for a message; never for Spark."""
    try:
        return short(node.sql(dialect="spark"))
    except Exception:  # noqa: BLE001 - the message matters more than its ornament
        return short(type(node).__name__)
