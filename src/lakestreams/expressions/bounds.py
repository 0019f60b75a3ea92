"""How large an expression's result may get, and how long it may take: what has no bound in sight is refused.

A record does not decide how much memory a job needs: lengths and widths are written out, and so are patterns (`regex`). What
multiplies, such as `repeat` in `repeat` or `hex` of `hex`, is bounded together, by an estimate in which each column counts as
a text of 256 characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from sqlglot import exp

from lakestreams.expressions import regex
from lakestreams.expressions.text import Fault, decimal, short

MAX_REPEAT: Final = 65_536
"""What may be written as a length or a number of times."""
MAX_WIDTH: Final = 1_000
"""What may be written as a width or a precision in a format."""
MAX_DIGITS: Final = 400
"""What may be written as a number of digits behind the point; a double has 324 at most."""
MAX_SIZE: Final = 1 << 20
"""Characters of a result, were each column of 256."""
MAX_LIKE: Final = 5
"""`%` in a pattern of LIKE; the time is a power of their number."""
COLUMN: Final = 256

# The place of an argument that must be written as a number of at most so much, in either direction.
_NUMBERS: Final[dict[str, tuple[int, int]]] = {
    "array_insert": (1, MAX_REPEAT), "array_repeat": (1, MAX_REPEAT), "lpad": (1, MAX_REPEAT), "repeat": (1, MAX_REPEAT),
    "rpad": (1, MAX_REPEAT), "space": (0, MAX_REPEAT), "format_number": (1, MAX_DIGITS), "round": (1, MAX_DIGITS),
    "bround": (1, MAX_DIGITS), "ceil": (1, MAX_DIGITS), "ceiling": (1, MAX_DIGITS), "floor": (1, MAX_DIGITS),
}  # fmt: skip
# The places of arguments that are regular expressions.
_PATTERNS: Final[dict[str, tuple[int, ...]]] = {
    **dict.fromkeys(
        """regexp regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr
        rlike split""".split(),  # noqa: SIM905 - as in the list of functions
        (1,),
    ),
    "str_to_map": (1, 2),
    "parse_url": (2,),
    "try_parse_url": (2,),
}
_FORMATS: Final = frozenset(("format_string", "printf"))
# One part of a format of java.util.Formatter: %[argument$][flags][width][.precision]conversion
_PART: Final = re.compile(r"%(?:(\d+)\$|<)?([-#+ 0,(<]*)(\d*)(?:\.(\d*))?(?:[tT])?([A-Za-z%])")
# How many times longer than its arguments the result of a function may be.
_GROWS: Final = {
    "base64": 2, "bin": 64, "conv": 64, "encode": 4, "hex": 2, "to_json": 6, "url_encode": 9, "unbase64": 1, "try_url_decode": 1,
}  # fmt: skip


def fault(tree: exp.Expr) -> Fault | None:
    """Why an expression is refused; None if what it takes is bounded."""
    for node in tree.walk():
        for one in _faults(node):
            return one
    size = _size(tree)
    if size > MAX_SIZE:
        return Fault(f"it may make {size:,} characters of columns of {COLUMN}; {MAX_SIZE:,} are the most")
    return None


def _faults(node: exp.Expr) -> Iterator[Fault]:
    if type(node) is exp.RegexpLike:
        yield from _pattern_faults("RLIKE", node.args["expression"])
    if type(node) in (exp.Like, exp.ILike):
        yield from _like_faults(node.args["expression"])
    if type(node) is not exp.Anonymous:
        return
    name, arguments = str(node.this).lower(), node.expressions
    if name in _NUMBERS:
        yield from _number_faults(name, arguments)
    for place in _PATTERNS.get(name, ()):
        if place < len(arguments):
            yield from _pattern_faults(name, arguments[place])
    if name in ("like", "ilike") and len(arguments) > 1:
        yield from _like_faults(arguments[1])
    if name in _FORMATS and arguments:
        yield from _format_faults(name, arguments[0])


def _number_faults(name: str, arguments: Sequence[exp.Expr]) -> Iterator[Fault]:
    place, most = _NUMBERS[name]
    if place >= len(arguments):
        return
    if name == "format_number" and text_of(arguments[place]) is not None:
        return  # a pattern, as long as it is written
    size = _number(arguments[place])
    if size is None or abs(size) > most:
        yield Fault(f"{name} takes a written number of at most {most} as its length")


def _pattern_faults(name: str, node: exp.Expr) -> Iterator[Fault]:
    pattern = text_of(node)
    if pattern is None:
        yield Fault(f"{name} takes its pattern as a written text")
        return
    refused = regex.fault(pattern)
    if refused is not None:
        yield Fault(f"the pattern {short(pattern)} of {name} is refused: {refused.why}", refused.hint)


def _like_faults(node: exp.Expr) -> Iterator[Fault]:
    pattern = text_of(node)
    if pattern is None:
        yield Fault("LIKE takes its pattern as a written text; contains, startswith and endswith compare with a column")
    elif pattern.count("%") > MAX_LIKE or len(pattern) > regex.MAX_LENGTH:
        yield Fault(f"the pattern {short(pattern)} of LIKE has more than {MAX_LIKE} % or {regex.MAX_LENGTH} characters")


def _format_faults(name: str, node: exp.Expr) -> Iterator[Fault]:
    written = text_of(node)
    if written is None:
        yield Fault(f"{name} takes its format as a written text")
        return
    for part in _PART.finditer(written):
        for number in (part[3], part[4]):
            if number and (len(number) > 9 or int(number) > MAX_WIDTH):
                yield Fault(f"{short(part[0])} of {name} asks for more than {MAX_WIDTH} characters")
    rest = _PART.sub("", written)
    if "%" in rest:
        yield Fault(f"{short(written)} is no format of {name}: a % in it belongs to nothing")


# --- sizes -----------------------------------------------------------------------------------------------------------


def _size(node: exp.Expr) -> int:
    """About how many characters, or elements, a result has at most."""
    if type(node) in (exp.Literal, exp.RawString):
        return len(str(node.this)) if text_of(node) is not None else 20
    if type(node) in (exp.Column, exp.Dot):
        return COLUMN
    if type(node) is exp.Anonymous:
        return _size_of_call(str(node.this).lower(), node.expressions)
    return max(1, sum(_size(one) for one in _children(node)))


def _children(node: exp.Expr) -> Iterator[exp.Expr]:
    for value in node.args.values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, exp.Expr) and not isinstance(one, exp.DataType | exp.Identifier | exp.Var):
                yield one


def _size_of_call(name: str, arguments: Sequence[exp.Expr]) -> int:
    sizes = [_size(one) for one in arguments]
    total = sum(sizes, 1)
    return min(_CALLS[name](sizes, arguments), MAX_SIZE * MAX_SIZE) if name in _CALLS else total * _GROWS.get(name, 1)


def _at(arguments: Sequence[exp.Expr], place: int) -> int:
    found = _number(arguments[place]) if place < len(arguments) else None
    return max(0, found or 0)


def _of_format(sizes: Sequence[int], arguments: Sequence[exp.Expr]) -> int:
    """Each part may be any argument, whole, and at least its width and precision."""
    parts = [*_PART.finditer(text_of(arguments[0]) or "")]
    widths = sum(int(number) for part in parts for number in (part[3], part[4]) if number)
    return sizes[0] + widths + len(parts) * max(sizes[1:], default=0)


_CALLS: Final[dict[str, Callable[[Sequence[int], Sequence[exp.Expr]], int]]] = {
    "repeat": lambda sizes, arguments: (sizes or [0])[0] * max(1, _at(arguments, 1)),
    "array_repeat": lambda sizes, arguments: (sizes or [0])[0] * max(1, _at(arguments, 1)),
    "space": lambda _, arguments: _at(arguments, 0),
    "lpad": lambda sizes, arguments: max((sizes or [0])[0], _at(arguments, 1)),
    "rpad": lambda sizes, arguments: max((sizes or [0])[0], _at(arguments, 1)),
    "array_insert": lambda sizes, arguments: sum(sizes) + _at(arguments, 1),
    # each character may be replaced, or have a separator before it
    "replace": lambda sizes, _: (sizes or [0])[0] * max(1, *sizes[2:3], 1),
    "regexp_replace": lambda sizes, _: ((sizes or [0])[0] + 1) * max(1, *sizes[2:3], 1),
    "array_join": lambda sizes, _: (sizes or [0])[0] * (1 + sum(sizes[1:])),
    "concat_ws": lambda sizes, _: sum(sizes[1:]) * (1 + (sizes or [0])[0]),
    "format_string": _of_format,
    "printf": _of_format,
}


# --- what is written -------------------------------------------------------------------------------------------------


def text_of(node: object) -> str | None:
    """The text that stands there: a literal, or several joined by || or concat; None of anything else."""
    if type(node) is exp.Paren:
        return text_of(node.this)
    if type(node) is exp.RawString or (type(node) is exp.Literal and bool(node.args.get("is_string"))):
        return str(node.this)
    parts: Sequence[object] = ()
    if type(node) is exp.DPipe:
        parts = (node.this, node.args["expression"])
    elif type(node) is exp.Anonymous and str(node.this).lower() == "concat":
        parts = node.expressions
    texts = [text_of(part) for part in parts]
    return "".join(text or "" for text in texts) if texts and None not in texts else None


def _number(node: exp.Expr) -> int | None:
    """The whole number that stands there, perhaps with a sign."""
    if type(node) is exp.Paren:
        return _number(node.this)
    if type(node) is exp.Neg:
        inner = _number(node.this)
        return None if inner is None else -inner
    if type(node) is not exp.Literal or node.is_string:
        return None
    found = decimal(str(node.this))
    return int(found) if found.is_finite() and found.adjusted() < 12 and found == found.to_integral_value() else None


__all__ = ["MAX_DIGITS", "MAX_LIKE", "MAX_REPEAT", "MAX_SIZE", "MAX_WIDTH", "fault", "text_of"]
