"""Every join case, recorded and random, on the join kernels: in one batch, and cut at random places."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import pytest
from tests.conformance.__main__ import DEFAULT
from tests.conformance.cases import Rules, load
from tests.conformance.executors import EXECUTORS
from tests.conformance.params import Params
from tests.conformance.runner import run
from tests.conformance.topologies import Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 20261121
COUNTS = {"kafka": 787, "strict": 207}


def text_of(kind: Kind) -> bytes:
    """What a kind differs in from Kafka's defaults: the same however many parameters there are."""
    own = {field.name: getattr(kind.params, field.name) for field in fields(kind.params)}
    told = {name: value for name, value in own.items() if value != getattr(Params(), name)}
    return f"{kind.join} {kind.how} {kind.olds} {kind.rules} {sorted(told.items())}".encode()


@pytest.mark.slow
@pytest.mark.lts
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("rules", ["kafka", "strict"])
def test_every_case_in_one_batch(spark: SparkSession, rules: Rules) -> None:
    del spark  # the executor takes the session that is there
    cases, faults = load(DEFAULT)
    assert not faults
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
