"""Every join case, recorded and random, on the join kernels: in one batch, and cut at random places."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from tests.conformance.__main__ import DEFAULT
from tests.conformance.cases import Rules, load
from tests.conformance.executors import EXECUTORS
from tests.conformance.params import DERIVED
from tests.conformance.runner import run
from tests.conformance.topologies import kind_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 20261121
SAMPLE = {"kafka": 3, "strict": 2}
COUNTS = {"kafka": 787, "strict": 207}


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("rules", ["kafka", "strict"])
def test_every_case_in_one_batch(spark: SparkSession, rules: Rules) -> None:
    del spark  # the executor takes the session that is there
    cases, faults = load(DEFAULT)
    assert not faults
    report = run(cases, EXECUTORS["batch"](SEED), rules)
    assert report.failed == {}, "\n".join(report.lines())
    assert len(report.passed) == COUNTS[rules]


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("rules", ["kafka", "strict"])
def test_a_sample_of_topologies_cut_at_random_places(spark: SparkSession, rules: Rules) -> None:
    """All cases of one topology in eight: further cases of a topology cost little, further topologies a lot."""
    del spark
    cases, _ = load(DEFAULT)
    claimed = [case for case in cases if case.not_claimed is None]
    chosen = [case for case in claimed if crc32(repr(kind_of(case, rules)).encode()) % 8 == SAMPLE[rules]]
    report = run(chosen, EXECUTORS["cuts"](SEED), rules)
    assert report.failed == {}, "\n".join(report.lines())
    assert len(report.passed) > 20


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_derived_tables_cut_at_random_places(spark: SparkSession) -> None:
    """All cases of aggregations, `toTable` and `suppress`, those of joins with a suppressed table among them."""
    del spark
    cases, _ = load(DEFAULT)
    chosen = [case for case in cases if case.join in DERIVED or case.params.suppress_side]
    report = run(chosen, EXECUTORS["cuts"](SEED), "kafka")
    assert report.failed == {}, "\n".join(report.lines())
    assert len(report.passed) == 14


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("rules", ["kafka", "strict"])
def test_every_case_cut_at_random_places(spark: SparkSession, rules: Rules) -> None:
    del spark
    cases, _ = load(DEFAULT)
    report = run(cases, EXECUTORS["cuts"](SEED), rules)
    assert report.failed == {}, "\n".join(report.lines())
    assert len(report.passed) == COUNTS[rules]
