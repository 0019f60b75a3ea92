"""Rooms import downward only, as docs/architecture.md says; what is imported for type checkers counts as well."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import lakestreams

SOURCE = Path(lakestreams.__file__).parent
# From the bottom: a room imports from layers below its own only, so rooms of one layer know nothing of each other.
# `package` is lakestreams/__init__.py, and `python -m lakestreams` beside it.
LAYERS = (
    ("nesting", "spark", "sql", "times", "visible"),
    ("errors",),
    ("formats", "kafka"),
    ("local", "registry", "topology"),
    ("api", "expressions", "infer", "operators", "partitioning", "report"),
    ("config", "expectations"),
    ("evaluate",),
    ("engine",),
    ("costs", "maintenance", "testing", "verify"),
    ("run",),
    ("deploy", "jobs"),
    ("cli",),
    ("package",),
)
LAYER = {room: number for number, layer in enumerate(LAYERS) for room in layer}
# What a room leaves alone although it lies below.
APART = {
    "operators": ("formats", "kafka"),  # typed columns come in
    "evaluate": ("config", "expressions", "kafka"),
    "report": ("formats", "kafka"),  # rows come in, without Spark
    "local": ("formats",),  # knows laptops
    "registry": ("formats",),  # schemas are texts to it
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
def trees() -> dict[Path, ast.Module]:
    """Every file's code."""
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(SOURCE.rglob("*.py"))}


@cache
def upward() -> dict[tuple[str, str], set[str]]:
    """Every file and room that break the order, with the names."""
    found: dict[tuple[str, str], set[str]] = {}
    for file, tree in trees().items():
        own = room_of(file)
        for name in imported(tree):
            room = room_named(name)
            if room in (None, own) or (LAYER[room] < LAYER[own] and room not in APART.get(own, ())):
                continue
            found.setdefault((file.relative_to(SOURCE).as_posix(), room), set()).add(name)
    return found


def test_what_an_import_is() -> None:
    text = "import a.b\nif TYPE_CHECKING:\n    import c\ndef f():\n    from lakestreams.engine.runtime import lake, tuning\n"
    assert set(imported(ast.parse(text))) == {
        "a.b",
        "c",
        "lakestreams.engine.runtime.lake",
        "lakestreams.engine.runtime.tuning",
    }
    names = [
        "lakestreams",
        "lakestreams.__version__",
        "lakestreams.engine.runtime.lake",
        "lakestreams.sql",
        "lakestreams.KTable",
    ]
    assert [room_named(name) for name in [*names, "pyspark.sql"]] == [None, None, "engine", "sql", "package", None]


# --- circles -----------------------------------------------------------------------------------------------------------

# Modules whose annotations name each other, and nothing else of each other: none is needed to load another.
NAMED_IN_A_CIRCLE = {
    "api": {
        "builder",
        "grouped",
        "handles",
        "streams",
        "tables",
    },  # a fluent interface: each call gives the next handle
    "expressions": {
        "calls",
        "casts",
        "literals",
        "names",
        "operators",
        "sql",
    },  # one grammar, whose parts hold each other
    "formats": {"base", "decoding", "headers", "writers"},  # a format tells what decoding gives
    "topology": {"endpoints", "merging", "node", "steps"},  # a node tells its sources
}


def loaded(tree: ast.AST) -> Iterator[ast.AST]:
    """The code that runs when a module is loaded: not that of functions, nor what is for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from loaded(node)


@cache
def arrows(*, only_loaded: bool) -> dict[str, set[str]]:
    """Module to the modules that it imports, the package itself left out: it is imported for its version."""
    files = {file.relative_to(SOURCE).with_suffix("").as_posix().removesuffix("/__init__"): file for file in trees()}
    found = {}
    for module, file in files.items():
        tree: ast.AST = trees()[file]
        if only_loaded:
            tree = ast.Module([one for one in loaded(tree) if isinstance(one, ast.Import | ast.ImportFrom)], [])
        names = {name.removeprefix("lakestreams.").replace(".", "/") for name in imported(tree) if "." in name}
        named = {name if name in files else name.rpartition("/")[0] for name in names}
        found[module] = named & (files.keys() - {module, "__init__", ""})
    return found


def circles(graph: Mapping[str, Iterable[str]]) -> set[frozenset[str]]:
    """The largest sets of modules each of which leads to all others of its set."""
    reach = {module: {module} for module in graph}
    grown = True
    while grown:
        grown = False
        for module, others in graph.items():
            more = reach[module].union(*(reach[one] for one in others))
            grown |= len(more) > len(reach[module])
            reach[module] = more
    sets = {frozenset(other for other in reach[module] if module in reach[other]) for module in graph}
    return {one for one in sets if len(one) > 1}


def test_what_a_circle_is() -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": ["b"], "d": ["a"]}) == {frozenset("bc")}
    text = "import a\nif TYPE_CHECKING:\n    import b\ntry:\n    import c\nexcept E:\n    pass\ndef f():\n    import d"
    tree = ast.Module([one for one in loaded(ast.parse(text)) if isinstance(one, ast.Import)], [])
    assert [*imported(tree)] == ["a", "c"]


def test_modules_load_without_a_circle() -> None:
    try:
        TopologicalSorter(arrows(only_loaded=True)).prepare()
    except CycleError as error:
        pytest.fail(str(error))


def test_modules_name_each_other_in_a_circle_in_few_rooms() -> None:
    wanted = {frozenset(f"{room}/{one}" for one in names) for room, names in NAMED_IN_A_CIRCLE.items()}
    assert circles(arrows(only_loaded=False)) == wanted


def test_every_room_has_one_layer() -> None:
    assert sorted(room for layer in LAYERS for room in layer) == ROOMS


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_from_below_only(room: str) -> None:
    found = {place: names for place, names in upward().items() if room_of(SOURCE / place[0]) == room}
    assert found == {}


@pytest.mark.parametrize(("room", "other"), [(room, other) for room, others in APART.items() for other in others])
def test_what_is_left_alone_lies_below(room: str, other: str) -> None:
    """Else the layers say it already."""
    assert LAYER[other] < LAYER[room]


def test_the_tree_on_the_page_is_the_one_on_disk() -> None:
    """Every room and its rooms, each with the first sentence that it says of itself, from the bottom up."""
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    block = page.partition("## The tree")[2].partition("```\n")[2].partition("\n```")[0]
    named, above = {}, ""
    for line in block.splitlines():
        name, text = line.split(maxsplit=1)
        above = above if line.startswith(" ") else name
        named[above + name if line.startswith(" ") else name] = text
    files = {f"{file.name}": file for file in SOURCE.glob("*.py") if not file.stem.startswith("__")}
    rooms = {f"{file.parent.relative_to(SOURCE).as_posix()}/": file for file in SOURCE.rglob("*/__init__.py")}
    said = {
        name: ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) for name, file in (files | rooms).items()
    }
    assert named == {name: text.partition("\n")[0] for name, text in said.items() if text is not None}
    order = [
        name.strip("/").removesuffix(".py") for name in named if name.count("/") < 2 and "/" not in name.strip("/")
    ]
    assert order == sorted(order, key=lambda room: LAYER[room]), "from the bottom up"
