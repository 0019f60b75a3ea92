"""The types that a user's type checker sees: which side may be missing, and which options a join takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api")

# each line with `# no: text` is refused with that text, every other one passes
SOURCE = """
from lakestreams import Fields, GlobalKTable, KStream, KTable, MaybeFields, is_missing
from lakestreams.topology.kinds import Projection


def both(left: Fields, right: Fields) -> Projection:
    return {"a": left.a, "b": right.b}


def right_may_miss(left: Fields, right: MaybeFields) -> Projection:
    return {"a": left.a, "missing": is_missing(right)}


def either_may_miss(left: MaybeFields, right: MaybeFields) -> Projection:
    return {"missing": is_missing(left) | is_missing(right)}


def use(s: KStream, t: KTable, g: GlobalKTable) -> None:
    s.join(s, both, within="1 s")
    s.join(t, both, co_partitioning="off", grace="1 s")
    s.join(t, both, right_on="a")
    s.join(g, both, left_on=("a", "b"))
    t.join(t, both)
    t.join(t, both, left_on=lambda row: {"a": row.a})
    s.left_join(s, right_may_miss, before="1 s", emit_unmatched="eager")
    s.left_join(t, right_may_miss)
    s.left_join(t, right_may_miss, right_on="a")
    s.left_join(g, right_may_miss, left_on="a")
    t.left_join(t, right_may_miss)
    s.outer_join(s, either_may_miss, within="1 s", rules="kafka")
    t.outer_join(t, either_may_miss)
    s.left_join(t, lambda view, user: {"missing": is_missing(user)}).to_delta("a")
    s.outer_join(s, lambda view, click: {"missing": is_missing(view)}, within="1 s")
    t.to_delta("b", mode="changes")
    s.join(s, right_may_miss, within="1 s")  # no: expected "Callable[[Fields, Fields]
    s.join(t, right_may_miss)  # no: expected "Callable[[Fields, Fields]
    t.join(t, right_may_miss)  # no: expected "Callable[[Fields, Fields]
    s.left_join(t, either_may_miss)  # no: expected "Callable[[Fields, MaybeFields]
    s.left_join(t, lambda view, user: {"missing": is_missing(view)})  # no: expected "MaybeFields"
    s.join(t, lambda view, user: {"missing": is_missing(user)})  # no: expected "MaybeFields"
    s.join(s, within="1 s", emit_unmatched="eager")  # no: overload
    s.join(t, within="1 s")  # no: overload
    s.join(t, wait="1 s")
    s.left_join(t, wait="1 s", amend="1 h").to_delta("f", mode="merge")
    s.join(t, amend="1 h")  # no: overload
    s.join(g)  # no: overload
    s.join(s, within="1 s", rules="lax")  # no: overload
    s.outer_join(t)  # no: expected "KStream"
    s.outer_join(s, left_on="a")  # no: Unexpected keyword argument
    t.outer_join(t, left_on="a")  # no: Unexpected keyword argument
    t.join(g)  # no: overload
    t.join(s)  # no: overload
    s.merge(t)  # no: expected "KStream"
    s.to_delta("c", mode="changes")  # no: expected "Literal['append', 'merge']"
    t.to_delta("d", mode="append")  # no: expected "Literal['merge', 'changes']"
    g.to_delta("e")  # no: no attribute
"""


@pytest.mark.slow
def test_the_types_say_which_side_may_be_missing(tmp_path: Path) -> None:
    file = tmp_path / "use.py"
    file.write_text(SOURCE, encoding="utf-8")
    out, err, _ = api.run([str(file)])  # with the project's own settings, so that its cache serves and is not lost
    assert err == ""
    found: dict[int, str] = {}
    for line in out.splitlines():
        if match := re.search(r"use\.py:(\d+): error: (.*)", line):
            found[int(match[1])] = f"{found.get(int(match[1]), '')} {match[2]}"
    for number, line in enumerate(SOURCE.splitlines(), 1):
        _, refused, text = line.partition("# no: ")
        assert (number in found) is bool(refused), f"{line}: {found.get(number)}"
        assert text in found.get(number, ""), line
