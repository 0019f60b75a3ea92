"""Rooms import downward only, as docs/architecture.md says; what is imported for type checkers counts as well."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import lakestreams

SOURCE = Path(lakestreams.__file__).parent
# From the bottom: a room imports from layers below its own only, so rooms of one layer know nothing of each other.
# `package` is lakestreams/__init__.py, and `python -m lakestreams` beside it.
LAYERS = (
    ("passing", "spark", "sql", "visible"),
    ("errors",),
    ("formats",),
    ("topology",),
    ("config", "joins"),
    ("tables",),
    ("expectations",),
    ("flow",),
    ("engine",),
    ("audit", "costs", "local", "report", "upkeep"),
    ("jobs", "testing"),
    ("bundle",),
    ("cli",),
    ("package",),
)
LAYER = {room: number for number, layer in enumerate(LAYERS) for room in layer}
# What a room leaves alone although it lies below.
APART = {
    "joins": ("formats",),  # typed columns come in
    "tables": ("formats", "config"),
    "flow": ("config",),
    "report": ("config", "joins", "tables", "expectations", "flow", "engine"),  # rows come in, without Spark
    "local": ("formats", "topology", "config", "joins", "tables", "expectations", "flow", "engine"),  # knows laptops
    "audit": ("expectations",),
}
# What breaks the order today, with the reason. An entry that is no longer true fails, so there are only ever fewer.
EXCEPTIONS = {
    ("engine/publish/events.py", "engine"): "events are made of a plan, whose type is the ledger's",
    ("cli/entry_points.py", "cli"): "the wheel's entry points verify and maintain are commands; they belong in cli/",
}


def room_of(file: Path) -> str:
    """The room that a file lies in; a file beside the rooms is one of its own."""
    parts = file.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else "package" if file.stem.startswith("__") else file.stem


ROOMS = sorted({room_of(file) for file in SOURCE.rglob("*.py")})


def imported(tree: ast.AST) -> Iterator[str]:
    """Modules that are imported anywhere in the code, inside functions and for type checkers too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports say whole names"
            yield from (f"{node.module}.{one.name}" for one in node.names)


def room_named(name: str) -> str | None:
    """The room that an imported name lies in; None for others' modules, and for the package's folder and version."""
    package, _, rest = name.partition(".")
    if package != "lakestreams" or rest in ("", "__version__"):
        return None
    first = rest.partition(".")[0]
    return first if first in ROOMS else "package"


@cache
def upward() -> dict[tuple[str, str], set[str]]:
    """Every file and room that break the order, with the names."""
    found: dict[tuple[str, str], set[str]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        own = room_of(file)
        for name in imported(ast.parse(file.read_text(encoding="utf-8"))):
            room = room_named(name)
            if room in (None, own) or (LAYER[room] < LAYER[own] and room not in APART.get(own, ())):
                continue
            found.setdefault((file.relative_to(SOURCE).as_posix(), room), set()).add(name)
    return found


def test_what_an_import_is() -> None:
    text = "import a.b\nif TYPE_CHECKING:\n    import c\ndef f():\n    from lakestreams.engine import lake, cycle\n"
    assert set(imported(ast.parse(text))) == {
        "a.b",
        "c",
        "lakestreams.engine.runtime.lake",
        "lakestreams.engine.publish.cycle",
    }
    names = [
        "lakestreams",
        "lakestreams.__version__",
        "lakestreams.engine.runtime.lake",
        "lakestreams.sql",
        "lakestreams.KTable",
    ]
    assert [room_named(name) for name in [*names, "pyspark.sql"]] == [None, None, "engine", "sql", "package", None]


def test_every_room_has_one_layer() -> None:
    assert sorted(room for layer in LAYERS for room in layer) == ROOMS


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_from_below_only(room: str) -> None:
    found = {place: names for place, names in upward().items() if room_of(SOURCE / place[0]) == room}
    assert {place: names for place, names in found.items() if place not in EXCEPTIONS} == {}


@pytest.mark.parametrize("place", EXCEPTIONS, ids=" imports ".join)
def test_an_exception_is_still_one(place: tuple[str, str]) -> None:
    assert place in upward(), "it is mended: take it off the list"


@pytest.mark.parametrize(("room", "other"), [(room, other) for room, others in APART.items() for other in others])
def test_what_is_left_alone_lies_below(room: str, other: str) -> None:
    """Else the layers say it already."""
    assert LAYER[other] < LAYER[room]


def test_every_room_is_on_the_page() -> None:
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert {room for room in rooms if f"`{room}/`" not in page} == set()
