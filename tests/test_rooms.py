"""Rooms import downward only, as docs/architecture.md says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakestreams

SOURCE = Path(lakestreams.__file__).parent
# Each room with all that it may not import, inside functions neither: what stands above it, and its neighbours.
ABOVE = ["audit", "upkeep", "costs", "jobs", "cli", "testing", "report", "bundle", "local"]
FORBIDDEN = {
    "topology": ["joins", "tables", "flow", "engine", *ABOVE],
    "formats": ["joins", "tables", "flow", "engine", *ABOVE],
    "joins": ["tables", "flow", "engine", "formats", *ABOVE],
    "tables": ["flow", "engine", *ABOVE],
    "expectations": ["flow", "engine", *ABOVE],
    "flow": ["engine", *ABOVE],
    "engine": ABOVE,
    "audit": ["upkeep", "costs", "cli", "jobs", "local"],
    "upkeep": ["audit", "costs", "cli", "jobs", "local"],
    "costs": ["audit", "upkeep", "cli", "jobs", "local"],
    "config": ["joins", "tables", "flow", "engine", *ABOVE],
    "report": ["joins", "tables", "flow", "engine", "cli", "local"],
    "local": ["joins", "tables", "flow", "engine", "jobs", "cli"],
}


def imported(tree: ast.AST) -> Iterator[str]:
    """Modules that are imported when the code runs; what is for type checkers alone is left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports say whole names"
            yield from (f"{node.module}.{one.name}" for one in node.names)
        else:
            yield from imported(node)


def test_what_an_import_is() -> None:
    text = "import a.b\nif TYPE_CHECKING:\n    import c\ndef f():\n    from lakestreams.engine import lake, cycle\n"
    assert list(imported(ast.parse(text))) == ["a.b", "lakestreams.engine.lake", "lakestreams.engine.cycle"]


@pytest.mark.parametrize("room", FORBIDDEN)
def test_a_room_imports_nothing_from_above(room: str) -> None:
    files = sorted((SOURCE / room).rglob("*.py"))
    assert files
    taboo = tuple(f"lakestreams.{other}." for other in FORBIDDEN[room])
    found = {
        str(file.relative_to(SOURCE)): [
            name for name in imported(ast.parse(file.read_text())) if f"{name}.".startswith(taboo)
        ]
        for file in files
    }
    assert {file: names for file, names in found.items() if names} == {}


def test_every_room_is_on_the_page() -> None:
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert {room for room in rooms if f"`{room}/`" not in page} == set()
