"""What has to be read at once stays small: files, functions, classes, tuples. And modules hold no state of their own."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import lakestreams

SOURCE = Path(lakestreams.__file__).parent
MOST_LINES = 400  # of a file
MOST_OF_A_FUNCTION = 60  # lines
MOST_METHODS = 20  # of a class
MOST_IN_A_TUPLE = 4  # elements that differ only by their place
MOST_OF_A_KERNEL = 199  # lines
MOST_OF_A_LAW = 3  # sentences

DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
CONSTRUCTORS = {
    "list",
    "dict",
    "set",
    "bytearray",
    "defaultdict",
    "deque",
    "Counter",
    "OrderedDict",
    "WeakKeyDictionary",
}
MUTATORS = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove",
    "setdefault", "sort", "update",
}  # fmt: skip


def methods(one: ast.ClassDef) -> set[str]:
    """A class's methods, overloads once, without its traits: properties of one `return`, which read as attributes do.

    `topology/node.py` has forty of them: what is known of every kind of node, one line each, in one list.
    """
    return {part.name for part in one.body if isinstance(part, ast.FunctionDef) and not is_trait(part)}


def is_trait(one: ast.FunctionDef) -> bool:
    """Whether a function is a property whose body is one `return`."""
    code = [part for part in one.body if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))]
    is_property = any(isinstance(mark, ast.Name) and mark.id == "property" for mark in one.decorator_list)
    return is_property and len(code) == 1 and isinstance(code[0], ast.Return)


def large_files(tree: ast.Module, text: str) -> Iterator[str]:
    del tree
    if text.count("\n") > MOST_LINES:
        yield ""


def large_functions(tree: ast.Module, _text: str) -> Iterator[str]:
    for node in ast.walk(tree):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and (node.end_lineno or 0) - node.lineno + 1 > MOST_OF_A_FUNCTION:
            yield node.name


def large_classes(tree: ast.Module, _text: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and len(methods(node)) > MOST_METHODS:
            yield node.name


def large_tuples(tree: ast.Module, _text: str) -> Iterator[str]:
    """Tuples that are returned, and annotations of tuples, by the code that they stand in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            elements = node.value.elts
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("tuple", "Tuple"):
            elements = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
        else:
            continue
        if len(elements) > MOST_IN_A_TUPLE:
            yield ast.unparse(node)


def states(tree: ast.Module, _text: str) -> Iterator[str]:
    """Names of a module whose values its code changes, or binds anew."""
    mutable = {name for statement in tree.body for name in made_mutable(statement)}
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    found = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    found |= {name for function in functions for node in ast.walk(function) for name in changed(node)} & mutable
    yield from sorted(found)


def made_mutable(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement binds to a list, a dict, a set or the like."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return
    value = statement.value
    called = ast.unparse(value.func).rpartition(".")[2] if isinstance(value, ast.Call) else ""
    if isinstance(value, DISPLAYS) or called in CONSTRUCTORS:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (one.id for one in targets if isinstance(one, ast.Name))


def changed(node: ast.AST) -> Iterator[str]:
    """The names whose values a piece of code changes in place."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
        targets = [node.func]
    elif isinstance(node, ast.Assign | ast.Delete):
        targets = [one for one in node.targets if isinstance(one, ast.Subscript)]
    elif isinstance(node, ast.AugAssign):
        targets = [node.target]
    for target in targets:
        inner: ast.expr = target
        while isinstance(inner, ast.Attribute | ast.Subscript | ast.Call):
            inner = inner.func if isinstance(inner, ast.Call) else inner.value
        if isinstance(inner, ast.Name):
            yield inner.id


@cache
def sources() -> dict[str, tuple[ast.Module, str]]:
    texts = {file: file.read_text(encoding="utf-8") for file in sorted(SOURCE.rglob("*.py"))}
    return {file.relative_to(SOURCE).as_posix(): (ast.parse(text), text) for file, text in texts.items()}


def over(limit: Callable[[ast.Module, str], Iterator[str]]) -> set[str]:
    """The places that are over a limit: the file and what in it."""
    return {f"{file} {what}".strip() for file, source in sources().items() for what in limit(*source)}


@pytest.mark.parametrize("limit", [large_files, large_functions, large_classes, large_tuples])
def test_what_is_read_at_once_is_small(limit: Callable[[ast.Module, str], Iterator[str]]) -> None:
    assert over(limit) == set()


def test_modules_hold_no_state_but_of_one_machine() -> None:
    """What `local/` holds is of the one machine that it is for."""
    assert {place for place in over(states) if not place.startswith("local/")} == set()


def kernels(files: Iterable[str]) -> dict[str, set[str]]:
    """The folder of each shape, and the files that state its laws: `kernel.py`, or the files that execute a join each."""
    rooms: dict[str, set[str]] = {}
    for file in files:
        room, _, name = file.rpartition("/")
        if room.startswith("operators/") and name != "__init__.py":
            rooms.setdefault(room, set()).add(file)
    return {
        room: {f"{room}/kernel.py"} if f"{room}/kernel.py" in inside else {file for file in inside if executes(file)}
        for room, inside in rooms.items()
    }


def executes(file: str) -> bool:
    """Whether a file defines `execute`."""
    return any(isinstance(part, ast.FunctionDef) and part.name == "execute" for part in sources()[file][0].body)


def laws(docstring: str) -> list[list[str]]:
    """The sentences of each paragraph that states a law."""
    paragraphs = [" ".join(text.split()) for text in docstring.split("\n\n")]
    return [re.split(r"(?<=[.!?]) ", text) for text in paragraphs if text.startswith("The law")]


def test_every_shape_has_a_kernel() -> None:
    shapes = kernels(sources())
    assert {"operators/stream_table", "operators/aggregate"} < set(shapes)
    assert [room for room, files in shapes.items() if not files] == []
    assert shapes["operators/foreign_key"] == {
        "operators/foreign_key/stream_table.py",
        "operators/foreign_key/table_table.py",
    }


@pytest.mark.parametrize("kernel", sorted({file for files in kernels(sources()).values() for file in files}))
def test_a_kernel_is_short_and_its_law_has_three_sentences(kernel: str) -> None:
    tree, text = sources()[kernel]
    assert text.count("\n") <= MOST_OF_A_KERNEL
    stated = laws(ast.get_docstring(tree) or "")
    assert len(stated) == 1, "one paragraph that begins with: The law"
    assert len(stated[0]) <= MOST_OF_A_LAW, "\n".join(stated[0])


def test_what_a_law_is() -> None:
    text = "What it does.\n\nThe law: a row is\none row (see `a.b`). It is 4.1 wide.\n\nPlan: none. At all."
    assert laws(text) == [["The law: a row is one row (see `a.b`).", "It is 4.1 wide."]]
    assert laws("What it does.\n\nPlan: the law is elsewhere.") == []


def found(limit: Callable[[ast.Module, str], Iterator[str]], text: str) -> list[str]:
    return [*limit(ast.parse(text), text)]


def test_what_is_over_a_limit() -> None:
    assert found(large_files, "\n" * 401) == [""]
    assert found(large_files, "\n" * 400) == []
    assert found(large_functions, "def f():\n" + "    g()\n" * 60) == ["f"]
    assert found(large_functions, "def f():\n" + "    g()\n" * 59) == []
    many = "class C:\n" + "".join(f"    def m{n}(self): return 1\n" for n in range(21))
    assert found(large_classes, many) == ["C"]
    assert found(large_classes, many.replace("    def m7", "    @property\n    def m7")) == [], "a trait reads as data"
    assert found(large_tuples, "def f(): return a, b, c, d, e") == ["return (a, b, c, d, e)"]
    assert found(large_tuples, "x: dict[str, tuple[int, int, str, str, str]]") == ["tuple[int, int, str, str, str]"]
    assert found(large_tuples, "def f() -> tuple[int, ...]: return a, b, c, d") == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("A = {}\ndef f(): A['x'] = 1", ["A"]),
        ("a: list[int] = []\ndef f(): a.append(1)", ["a"]),
        ("a = Counter()\ndef f(): a['x'] += 1", ["a"]),
        ("a = defaultdict(list)\ndef f(): a['x'].append(1)", ["a"]),
        ("a = set()\ndef f(): a.clear()\ndef g(): a.add(1)", ["a"]),
        ("a = {}\ndef f():\n del a['x']", ["a"]),
        ("a = None\ndef f():\n global a\n a = 1", ["a"]),
        ("a = {'x': 1}\ndef f(): return a['x']", []),
        ("a = []\nfor x in y: a.append(x)\ndef f(): return a", []),
        ("def f():\n a = []\n a.append(1)", []),
    ],
)
def test_what_state_is(text: str, names: list[str]) -> None:
    assert found(states, text) == names
