"""Every join case, recorded and random, on the join kernels: in one batch, and cut at random places."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from tests.conformance.__main__ import DEFAULT
from tests.conformance.cases import Rules, load
from tests.conformance.executors import EXECUTORS
from tests.conformance.params import DERIVED, Params
from tests.conformance.runner import run
from tests.conformance.topologies import Kind, kind_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 20261121
SAMPLE = {"kafka": 4, "strict": 9}
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
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("rules", ["kafka", "strict"])
def test_a_sample_of_topologies_cut_at_random_places(spark: SparkSession, rules: Rules) -> None:
    """All cases of one topology in sixteen: further cases of a topology cost little, further topologies a lot."""
    del spark
    cases, _ = load(DEFAULT)
    claimed = [case for case in cases if case.not_claimed is None]
    chosen = [case for case in claimed if crc32(text_of(kind_of(case, rules))) % 16 == SAMPLE[rules]]
    report = run(chosen, EXECUTORS["cuts"](SEED), rules)
    assert report.failed == {}, "\n".join(report.lines())
    assert len(report.passed) > 20


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_derived_tables_cut_at_random_places(spark: SparkSession) -> None:
    """Half of the cases of aggregations and `suppress`, a join with a suppressed table among them."""
    del spark
    cases, _ = load(DEFAULT)
    chosen = [case for case in cases if case.join in DERIVED or case.params.suppress_side][::2]
    report = run(chosen, EXECUTORS["cuts"](SEED), "kafka")
    assert report.failed == {}, "\n".join(report.lines())
    assert len(report.passed) == 7


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("rules", ["kafka", "strict"])
def test_every_case_cut_at_random_places(spark: SparkSession, rules: Rules) -> None:
    del spark
    cases, _ = load(DEFAULT)
    report = run(cases, EXECUTORS["cuts"](SEED), rules)
    assert report.failed == {}, "\n".join(report.lines())
    assert len(report.passed) == COUNTS[rules]
