"""Recorded and random cases through the real engine: a topology of each join in `make test`, all in `make soak`."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from tests.conformance.__main__ import DEFAULT
from tests.conformance.cases import Case, Rules, load
from tests.conformance.runner import run
from tests.conformance.stream import Stream, cut, takes, topology_of
from tests.conformance.test_kernels import text_of
from tests.conformance.topologies import Kind, kind_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

PIECES = 2  # each is a run, which takes seconds


def cases_of(rules: Rules) -> list[Case]:
    cases, faults = load(DEFAULT)
    assert not faults
    return [case for case in cases if takes(case) and (rules == "kafka" or case.expected_strict is not None)]


def sample(rules: Rules) -> list[Case]:
    """Of each join and kind of it, the topology that comes first by a hash, with its cases of few pieces."""
    kinds: dict[Kind, list[Case]] = {}
    for case in cases_of(rules):
        kind = kind_of(case, rules)
        if len(cut(topology_of(kind), case)) <= PIECES:
            kinds.setdefault(kind, []).append(case)
    chosen: dict[tuple[str, str], Kind] = {}
    for kind in sorted(kinds, key=lambda kind: crc32(text_of(kind))):
        chosen.setdefault((kind.join, kind.how if rules == "strict" else ""), kind)
    return [case for kind in chosen.values() for case in kinds[kind][:6]]


@pytest.mark.timeout(1500)
def test_a_sample_through_the_engine(spark: SparkSession, broker: Broker) -> None:
    """Under Kafka's rules; strict ones differ in kernels, which other tests look at."""
    del spark  # the executor takes the session that is there
    chosen = sample("kafka")
    report = run(chosen, Stream(broker), "kafka")
    assert report.failed == {}, "\n".join(report.lines())
    assert len(report.passed) == len(chosen) > 8


@pytest.mark.soak
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("rules", ["kafka", "strict"])
def test_every_case_through_the_engine(spark: SparkSession, broker: Broker, rules: Rules) -> None:
    del spark
    chosen = cases_of(rules)
    report = run(chosen, Stream(broker), rules)
    assert report.failed == {}, "\n".join(report.lines())
    assert len(report.passed) == len(chosen)
