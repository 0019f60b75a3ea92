"""Every join case, recorded and random, on the join kernels: in one batch, and cut at random places."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

import pytest
from tests.conformance.__main__ import DEFAULT
from tests.conformance.cases import Case, Rules, load
from tests.conformance.executors import EXECUTORS
from tests.conformance.params import Params
from tests.conformance.runner import run
from tests.conformance.sample import pairs
from tests.conformance.topologies import Kind, kind_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 20261121
COUNTS = {"kafka": 787, "strict": 207}


def text_of(kind: Kind) -> bytes:
    """What a kind differs in from Kafka's defaults: the same however many parameters there are."""
    own = {field.name: getattr(kind.params, field.name) for field in fields(kind.params)}
    told = {name: value for name, value in own.items() if value != getattr(Params(), name)}
    return f"{kind.join} {kind.how} {kind.send_old_values} {kind.rules} {sorted(told.items())}".encode()


def covering(cases: Sequence[Case], rules: Rules) -> list[Case]:
    """The cases of so many kinds that each shape of join has each of its settings: a kind is a plan, and costs seconds."""
    kinds: dict[Kind, list[Case]] = defaultdict(list)
    for case in cases:
        kinds[kind_of(case, rules)].append(case)
    shown = {kind: frozenset().union(*(pairs(case, rules) for case in own)) for kind, own in kinds.items()}
    left, chosen = frozenset().union(*shown.values()), list[Case]()
    while left:
        kind = max(kinds, key=lambda one: (len(shown[one] & left), len(kinds[one]), text_of(one)))
        left -= shown[kind]
        chosen += kinds[kind]
    return chosen


@pytest.mark.slow
@pytest.mark.lts
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rules", ["kafka", "strict"])
def test_every_shape_with_every_setting_in_one_batch(spark: SparkSession, rules: Rules) -> None:
    """Those of kernels over arrays all run without Spark (`tests/operators`); every case through Spark is in `make soak`."""
    del spark  # the executor takes the session that is there
    cases, faults = load(DEFAULT)
    assert not faults
    joins = [case for case in cases if case.not_claimed is None]
    chosen = covering([case for case in joins if rules == "kafka" or case.expected_strict is not None], rules)
    report = run(chosen, EXECUTORS["batch"](SEED), rules)
    assert report.failed == {}, "\n".join(report.lines())
    assert len(report.passed) + len(report.left_out) == len(chosen)
    assert len(report.passed) > COUNTS[rules] // 2, "the sample is too small to stand for all"


@pytest.mark.soak
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("rules", ["kafka", "strict"])
def test_every_case_in_one_batch(spark: SparkSession, rules: Rules) -> None:
    del spark
    cases, _ = load(DEFAULT)
    report = run(cases, EXECUTORS["batch"](SEED), rules)
    assert report.failed == {}, "\n".join(report.lines())
    assert len(report.passed) == COUNTS[rules]


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("rules", ["kafka", "strict"])
def test_every_case_cut_at_random_places(spark: SparkSession, rules: Rules) -> None:
    del spark
    cases, _ = load(DEFAULT)
    report = run(cases, EXECUTORS["cuts"](SEED), rules)
    assert report.failed == {}, "\n".join(report.lines())
    assert len(report.passed) == COUNTS[rules]
