"""What can be expected of what: names, actions and invariants that do not fit are refused when a topology is built."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from lakestreams import Json, StreamsBuilder, Text, invariants
from lakestreams.errors import InvalidName, InvalidOption, LakestreamsError, TopologyInvalid

if TYPE_CHECKING:
    from lakestreams.topology.kinds import Predicate


class Parts:
    """A pipeline with one of everything."""

    def __init__(self) -> None:
        self.builder = StreamsBuilder("p")
        self.stream = self.builder.stream("s", key=Text("id"), value=Json("a int"))
        self.other = self.builder.stream("o", key=Text("id"), value=Json("b int"))
        self.keyed = self.builder.stream("k", key=Text("id"), value=Json("a int"), keys_not_null="warn")
        self.table = self.builder.table("t", key=Text("id"), value=Json("c int"))
        self.windowed = self.stream.left_join(self.other, within="1 minute", name="windowed")
        self.inner = self.stream.join(self.table, name="inner")
        self.mapped = self.table.map_values(lambda row: {"c": row.c}, name="mapped")
        self.output = self.windowed.to_delta("silver.x")
        self.merged = self.mapped.to_delta("silver.y")


@pytest.mark.parametrize(
    ("expect", "text"),
    [
        (lambda p: p.mapped.expect_or_drop("r", "c > 0"), "a table that steps make"),
        (lambda p: p.stream.holds(invariants.FanOut()), "it is one of joins"),
        (lambda p: p.windowed.holds(invariants.Skew()), "it is one of sources"),
        (lambda p: p.inner.holds(invariants.MatchRate()), "an inner join does not tell"),
        (lambda p: p.inner.holds(invariants.TimeSkew()), "joins of two streams"),
        (lambda p: p.windowed.holds(invariants.ForeignKeyExists()), "foreign-key left joins"),
        (lambda p: p.windowed.holds(invariants.UniqueKey(columns=("id",))), "outputs that are appended to"),
        (lambda p: p.merged.holds(invariants.UniqueKey(columns=("id",))), "outputs that are appended to"),
        (lambda p: p.output.holds(invariants.UniqueKey()), "it names no columns"),
        (lambda p: p.stream.holds(invariants.NoDuplicateResult()), "steps and outputs"),
        (lambda p: p.stream.expect("r", "a > 0").expect("r", "a > 1"), "stands 2 times"),
        (lambda p: p.windowed.holds(invariants.FanOut(), invariants.FanOut("fail", 100)), "'fan_out' stands 2 times"),
        (lambda p: p.windowed.expect("fan_out", "a > 0").holds(invariants.FanOut()), "'fan_out' stands 2 times"),
        (lambda p: p.keyed.expect("keys_not_null", "a > 0"), "'keys_not_null' stands 2 times"),
        (lambda p: p.output.expect("rows.matched", "a > 0"), "'rows.matched' is called as the counts"),
    ],
)
def test_what_does_not_fit_is_refused_with_all_other_faults(expect: Callable[[Parts], Any], text: str) -> None:
    parts = Parts()
    expect(parts)
    with pytest.raises(TopologyInvalid, match=text):
        parts.builder.build()


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda p: p.stream.expect("", "a > 0"), InvalidName),
        (lambda p: p.stream.expect("1st", "a > 0"), InvalidName),
        (lambda p: p.stream.expect("r", "  "), InvalidOption),
        (lambda _: invariants.FanOut("drop"), InvalidOption),
        (lambda _: invariants.Rule("s", "r", "a > 0", "quarantine"), InvalidOption),
    ],
)
def test_bad_names_actions_and_conditions_are_refused_at_once(
    make: Callable[[Parts], Any], error: type[LakestreamsError]
) -> None:
    with pytest.raises(error):
        make(Parts())


def test_holds_takes_invariants_only() -> None:
    with pytest.raises(InvalidOption, match="takes invariants, not 'fan_out'"):
        Parts().windowed.holds("fan_out")  # type: ignore[arg-type]


def test_an_expectation_is_no_step_and_stands_in_the_description() -> None:
    parts = Parts()
    assert parts.stream.expect("r", "a > 0") is parts.stream
    parts.output.expect_all_or_fail({"x": "id is not null", "y": lambda row: row.id.isNotNull()})
    parts.windowed.holds(invariants.FanOut("fail", 3))
    topology = parts.builder.build()
    text = topology.describe()
    assert "expect r: a > 0 (warn)" in text
    assert "expect x: id is not null (fail)" in text
    assert "invariant fan_out: at_most 3, fail" in text
    assert "expect" not in topology.semantics(), "what only counts changes no result"
    dropping = Parts()
    dropping.stream.expect_or_drop("r", "a > 0")
    assert "expect r: a > 0 (drop)" in dropping.builder.build().semantics()


def test_another_condition_is_another_rule() -> None:
    of = [invariants.Rule("s", "r", "a > 0").id, invariants.Rule("s", "r", "a > 1").id]
    of += [invariants.Rule("s", "r", lambda row: row.a > 0).id, invariants.Rule("s", "r", lambda row: row.a > 1).id]
    of += [invariants.Rule("s", "r", lambda row: row.b > 0).id]
    of += [invariants.Rule("s", "r", _above(bound)).id for bound in (1, 2)]
    of += [invariants.Rule("s", "r", lambda row: all(one > 0 for one in (row.a, row.b))).id]
    of += [invariants.Rule("s", "r", lambda row: all(one > 1 for one in (row.a, row.b))).id]
    assert len(set(of)) == 9
    assert invariants.Rule("s", "r", "a > 0").id == of[0]
    assert invariants.Rule("s", "r", _above(2)).id == of[6]


def _above(bound: int) -> Predicate:
    return lambda row: row.a > bound


def test_a_rule_is_the_same_in_every_process() -> None:
    """Its functions within functions, and its sets, too."""
    told = """if True:
        from lakestreams import invariants
        print(invariants.Rule("s", "r", lambda row: [(lambda one: one in {"a", "b", "c"})(row.a)]).id)
    """
    ids = set()
    for seed in "12":
        given = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", told]
        ids.add(subprocess.run(command, env=given, capture_output=True, text=True, check=True).stdout)
    assert len(ids) == 1
