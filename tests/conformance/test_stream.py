"""Recorded and random cases through the real engine: one of each join in `make test`, all in `make soak`."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.conformance import reference
from tests.conformance.__main__ import DEFAULT, main
from tests.conformance.cases import Case, Rules, load
from tests.conformance.runner import run
from tests.conformance.sample import pairs, runs, sample, shape_of
from tests.conformance.stream import ENDS_AT_ZERO, LATER_MS, Stream, takes
from tests.sampling import chosen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

RECORDED, RANDOM = DEFAULT
MOST = 2  # runs of a case of a shape; each takes seconds
OLD = "it compares the value before, which tables do not hold"
ENDS = "its window would end before time 0, and ends there"
STOPS = "it stops the run, which other cases share"


def cases_of(rules: Rules) -> list[Case]:
    cases, faults = load(DEFAULT)
    assert not faults
    return [case for case in cases if takes(case) and (rules == "kafka" or case.expected_strict is not None)]


def of_each_shape() -> list[Case]:
    """One case of each shape. Kernels show every shape with every setting, too (`test_kernels`)."""
    (recorded, _), (random, _) = load([RECORDED]), load([RANDOM])
    return sample(recorded, random, "kafka", MOST)


def of_each_join() -> list[Case]:
    """A case of each join, its kind by a seed, of those that take one run; they share two pipelines."""
    at_once: dict[str, list[Case]] = defaultdict(list)
    for case in of_each_shape():
        if runs(case, "kafka") == 1:
            at_once[case.join].append(case)
    return [one for cases in at_once.values() for one in chosen(cases, 1)]


def run_through(cases: list[Case], broker: Broker, rules: Rules) -> None:
    """Each case comes out of the engine as Kafka Streams has it."""
    report = run(cases, Stream(broker), rules)
    assert report.failed == {}, "\n".join(report.lines())
    assert len(report.passed) == len(cases)


# --- which cases -----------------------------------------------------------------------------------------------------


def test_the_sample_has_every_shape_and_most_settings() -> None:
    of_each, cases = of_each_shape(), cases_of("kafka")
    assert sorted(map(shape_of, of_each)) == sorted({shape_of(case) for case in cases})
    settings = {setting for case in of_each for _, setting in pairs(case, "kafka")}
    engines = {"plain", "grace", "self-join", "eager", "chain", "left as of", "right as of", "cache"}
    assert engines <= settings
    assert sorted(case.join for case in of_each_join()) == sorted({case.join for case in cases})


def test_what_the_engine_cannot_be_given_is_left_out_and_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """All of these are left out, so that no Spark is started. There are six; all others go through the engine."""
    cases, _ = load(DEFAULT)
    wanted = [case for case in cases if case.not_claimed is None and not takes(case)]
    report = run(wanted, Stream(), "kafka")
    assert (report.passed, report.failed) == ((), {})
    assert Counter(report.left_out.values()) == {ENDS: 2, OLD: 3, STOPS: 1}
    (old, *_), (fails,) = [case for case in wanted if case.compares_old], [case for case in wanted if case.fails]
    assert main(["--executor", "stream", "--only", old.id, "--only", fails.id]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert set(lines[:2]) == {f"left out: 1 case: {OLD}", f"left out: 1 case: {STOPS}"}
    assert lines[-1] == "0 passed, 0 failed, 2 left out"


def test_of_cases_that_are_dated_later_only_those_that_are_left_out_give_something_else() -> None:
    cases, _ = load(DEFAULT)
    at_zero = [case for case in cases if case.not_claimed is None and any(one.ts == 0 for one in case.inputs)]
    moved = [
        replace(
            case,
            inputs=tuple(replace(one, ts=one.ts + LATER_MS) for one in case.inputs),
            expected=tuple(replace(row, ts=row.ts + LATER_MS) for row in case.expected),
        )
        for case in at_zero
        if not case.fails
    ]
    report = run(moved, reference.executor(1), "kafka")
    assert set(report.failed) == ENDS_AT_ZERO
    assert len(report.passed) > 300


# --- through the engine ----------------------------------------------------------------------------------------------


@pytest.mark.broker
@pytest.mark.timeout(1500)
def test_a_sample_through_the_engine(spark: SparkSession, broker: Broker) -> None:
    """Under Kafka's rules; strict ones differ in kernels, which other tests look at."""
    del spark  # the executor takes the session that is there
    run_through(of_each_join(), broker, "kafka")


@pytest.mark.broker
@pytest.mark.soak
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("rules", ["kafka", "strict"])
def test_every_case_through_the_engine(spark: SparkSession, broker: Broker, rules: Rules) -> None:
    del spark
    run_through(cases_of(rules), broker, rules)
