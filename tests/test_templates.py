"""Templates and `.format` agree on the names that are filled in.

A name in braces is a text for every other check, so that a renaming passes it by: two statements of `verify` once failed
for that, where they ran.
"""

from __future__ import annotations

import ast
import string
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import lakestreams

SOURCE = Path(lakestreams.__file__).parent


@dataclass(frozen=True)
class Template:
    """The names that a text leaves to be filled in, and whether it has no others: an f-string may get some more inserted."""

    names: set[str]
    whole: bool = True

    def fits(self, given: set[str]) -> bool:
        return self.names == given if self.whole else self.names <= given


def template_of(node: ast.expr | None) -> Template | None:
    """What an expression says as a template; None if that cannot be read off it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return Template(_names(node.value))
    if isinstance(node, ast.JoinedStr):
        pieces = (part.value if isinstance(part, ast.Constant) else "?" for part in node.values)
        return Template(_names("".join(map(str, pieces))), whole=False)
    return None


def _names(text: str) -> set[str]:
    try:
        found = [name for _, name, _, _ in string.Formatter().parse(text) if name]
    except ValueError:  # braces of something else
        return set()
    return {name for one in found if (name := one.partition(".")[0].partition("[")[0]).isidentifier()}


def constants(tree: ast.Module) -> dict[str, Template | None]:
    """What a module gives a name at its top."""
    found: dict[str, Template | None] = {}
    for node in tree.body:
        for target in node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]:
            if isinstance(target, ast.Name):
                found[target.id] = template_of(getattr(node, "value", None))
    return found


def wrong(text: str, other: Mapping[str, Template | None]) -> Iterator[str]:
    """Calls of `.format` in a module whose template has other names than the call gives it.

    Judged are calls with names alone, of a text that stands there or is a constant of the module, or of one of `other`.
    """
    tree = ast.parse(text)
    known = {**other, **constants(tree)}
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "format"):
            continue
        of = call.func.value
        template = known.get(of.id) if isinstance(of, ast.Name) else template_of(of)
        given = {str(one.arg) for one in call.keywords if one.arg is not None}
        if template is None or call.args or len(given) < len(call.keywords) or template.fits(given):
            continue
        yield f"line {call.lineno}: {sorted(template.names)} are filled with {sorted(given)}"


FILES = {file.relative_to(SOURCE).as_posix(): file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py")}


def test_templates_are_filled_with_the_names_that_they_have() -> None:
    each = [constants(ast.parse(text)) for text in FILES.values()]
    defined = Counter(name for one in each for name in one)
    shared = {name: template for one in each for name, template in one.items() if defined[name] == 1}
    assert {name: faults for name, text in FILES.items() if (faults := [*wrong(text, shared)])} == {}


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("A = 'select {one}'\nA.format(one=1)", 0),
        ("A = 'select {one}'\nA.format(other=1)", 1),
        ("A: Final = 'select {one} {two.part} {three[0]}'\nA.format(one=1, two=2, three=3)", 0),
        ("'{one}'.format(one=1, two=2)", 1),
        ("'{}'.format(1)", 0),
        ("A = '{one}'\nA.format(**names)", 0),
        ("SHARED.format(key=1)", 0),
        ("SHARED.format(keys=1)", 1),
        ("SHARED = other()\nSHARED.format(keys=1)", 0),
        ("A = f'select {one} {{two}}'\nA.format(two=1, three=2)", 0),
        ("A = f'select {one} {{two}}'\nA.format(three=2)", 1),
    ],
)
def test_a_wrong_name_is_found(text: str, faults: int) -> None:
    assert len([*wrong(text, {"SHARED": Template({"key"})})]) == faults
