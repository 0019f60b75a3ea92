"""Every join case, recorded and random, on the join kernels: in one batch, and cut at random places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.conformance.__main__ import DEFAULT
from tests.conformance.cases import Rules, load
from tests.conformance.executors import EXECUTORS
from tests.conformance.runner import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 20261121
COUNTS = {"kafka": 773, "strict": 207}


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("rules", ["kafka", "strict"])
@pytest.mark.parametrize("executor", ["batch", "cuts"])
def test_every_case_on_the_kernels(spark: SparkSession, executor: str, rules: Rules) -> None:
    cases, faults = load(DEFAULT)
    assert not faults
    report = run(cases, EXECUTORS[executor](SEED), rules)
    assert report.failed == {}, "\n".join(report.lines())
    assert len(report.passed) == COUNTS[rules]
