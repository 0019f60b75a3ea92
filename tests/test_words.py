"""Names and docstrings are in the field's words: none of those that only this project knew come back.

Held are all names that the package defines. Names of local variables are held to `PRIVATE` only: what they hold is said a
line above or below, so that `found` or `given` misleads nobody there. Texts that users see are held by `tests/docs`.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakestreams

SOURCE = Path(lakestreams.__file__).parent

PRIVATE = {
    "apart", "arms", "beside", "busy", "closing", "closings", "dataflow", "expecting", "fate", "fates", "few", "halves",
    "lane", "lanes", "observed", "olds", "opened", "opinion", "opinions", "pace", "passing", "plural", "race", "raced",
    "races", "silence", "standing", "stretch", "stretches", "tails", "tallies", "tally", "telling", "tells", "upkeep",
}  # fmt: skip
"""Words of no name at all."""

VAGUE = {"found", "given", "made", "there", "told"}
"""Words of no name but that of a local variable: they say that something is, not what it is."""

IN_PROSE = {
    "anew", "beside", "dataflow", "fate", "fates", "lane", "lanes", "olds", "opinion", "pace", "passing", "races", "stretch",
    "stretches", "tally", "told", "upkeep",
}  # fmt: skip
"""Words of no docstring and no comment."""

ALLOWED = {
    ("cli/status.py", "races"): "a key of what `status --json` prints",
    ("config/cases.py", "GivenSpec"): "a name in conf/schema/cases.json",
    ("config/cases.py", "given"): "a key of files with cases",
    ("testing/cases.py", "given"): "the same key, as a case is run",
    ("engine/publish/event_log.py", "fates"): "a field of the event log's details",
    ("expectations/cycle_metrics.py", "fates"): "the same field, as the ledger keeps it",
    ("errors/base.py", "given"): "an attribute of the errors that users catch",
    ("registry/client.py", "_NOT_FOUND"): "what HTTP calls its status 404",
}
"""Place and text of names that hold such a word, each with its reason."""

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_CODE = re.compile(r"``[^`]*``|`[^`]*`")
_ENTRY = re.compile(r"(?m)^ +(\w+, )*\w+: ")
"""What begins an entry of `Args:` or `Attributes:`, which names a parameter or field: those are held as names."""


def words(text: str) -> set[str]:
    """The words of a name in snake or camel case, or of a sentence."""
    return {part.lower() for part in _PARTS.findall(text)}


def names(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Line and text of each name that a module defines, and whether it is that of a local variable."""
    inner = {
        id(node) for part in ast.walk(tree) if isinstance(part, ast.FunctionDef | ast.Lambda) for node in ast.walk(part)
    }
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield node.lineno, name, False
            case ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name, False
            case ast.alias(asname=str(name)):
                yield node.lineno, name, False
            case ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name, id(node) in inner
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield node.lineno, name, True


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each line of a docstring, and of each comment; code in them is left out."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            text = _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), _ENTRY.sub("", node.value.value))
            yield from enumerate(text.splitlines(), node.lineno)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], _CODE.sub("", token.string)


def modules() -> Iterator[tuple[str, str]]:
    """Place and text of each module."""
    for file in sorted(SOURCE.rglob("*.py")):
        yield file.relative_to(SOURCE).as_posix(), file.read_text(encoding="utf-8")


def test_what_a_name_is() -> None:
    source = '''
class Tally:
    """Of `given` rows, told."""

    found: int  # a lane

    def made(self, there, *, in_lanes):
        self.few_rows = given = there
        return [given for told in in_lanes]
'''
    found = {(name, is_local) for _, name, is_local in names(ast.parse(source))}
    local = {("given", True), ("told", True)}
    assert found == local | {
        (name, False) for name in ("Tally", "found", "made", "self", "there", "in_lanes", "few_rows")
    }
    assert [(line, text.strip()) for line, text in prose(source)] == [(3, "Of         rows, told."), (5, "# a lane")]
    assert words("_FEW_RowsOfLANE") == {"few", "rows", "of", "lane"}


def test_names_are_in_the_fields_words() -> None:
    wrong = []
    for place, source in modules():
        if words(place) & (PRIVATE | VAGUE):
            wrong.append(place)
        for line, name, is_local in names(ast.parse(source)):
            if (place, name) not in ALLOWED and words(name) & (PRIVATE if is_local else PRIVATE | VAGUE):
                wrong.append(f"{place}:{line}: {name}")
    assert wrong == []


def test_docstrings_and_comments_are_in_the_fields_words() -> None:
    wrong = [
        f"{place}:{line}: {text.strip()}"
        for place, source in modules()
        for line, text in prose(source)
        if words(text) & IN_PROSE
    ]
    assert wrong == []


@pytest.mark.parametrize(("place", "name"), ALLOWED)
def test_what_is_allowed_is_there(place: str, name: str) -> None:
    source = (SOURCE / place).read_text(encoding="utf-8")
    assert name in {one for _, one, _ in names(ast.parse(source))}
