"""Runs cases on an executor and counts: every join case that it takes passes or fails; why others do not is told."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.conformance.cases import Case, Rules
from tests.conformance.compare import difference
from tests.conformance.executors import Executor, Outcome


@dataclass(frozen=True)
class Report:
    """The result of a run."""

    passed: tuple[str, ...]
    failed: Mapping[str, str]  # case id -> why
    not_claimed: Mapping[str, str]  # case id -> why
    outside: tuple[str, ...]  # cases that say nothing about these rules
    left_out: Mapping[str, str]  # case id -> why the executor cannot take it
    seconds: float

    def lines(self) -> list[str]:
        """The report as it is printed."""
        texts = []
        for id_, why in self.failed.items():
            texts += [f"FAILED {id_}", *(f"    {line}" for line in why.splitlines()), ""]
        texts += [f"not claimed: {id_}: {why}" for id_, why in self.not_claimed.items()]
        if self.outside:
            texts.append(f"not about these rules: {len(self.outside)} cases without expected_strict")
        for why, count in Counter(self.left_out.values()).most_common():
            texts.append(f"left out: {count} case{'' if count == 1 else 's'}: {why}")
        texts.append(f"{self.seconds:.1f} s")
        left_out = [f"{len(self.left_out)} left out"] if self.left_out else []
        texts.append(", ".join([f"{len(self.passed)} passed", f"{len(self.failed)} failed", *left_out]))
        return texts


def run(cases: Sequence[Case], executor: Executor, rules: Rules) -> Report:
    """Runs what is claimed; under `strict` only cases that say what is right then."""
    started = time.perf_counter()
    not_claimed = {case.id: case.not_claimed for case in cases if case.not_claimed is not None}
    claimed = [case for case in cases if case.not_claimed is None]
    outside = () if rules == "kafka" else tuple(case.id for case in claimed if _is_outside(case))
    judged = [case for case in claimed if case.id not in set(outside)]
    outcomes = _outcomes([case for case in judged if case.fault is None], executor, rules)
    failed: dict[str, str] = {}
    left_out: dict[str, str] = {}
    passed: list[str] = []
    for case in judged:
        outcome = outcomes.get(case.id)
        if outcome is not None and outcome.left_out is not None:
            left_out[case.id] = outcome.left_out
            continue
        why = difference(case, outcome, rules)
        if why is None:
            passed.append(case.id)
        else:
            failed[case.id] = why
    return Report(tuple(passed), failed, not_claimed, outside, left_out, time.perf_counter() - started)


def _outcomes(cases: Sequence[Case], executor: Executor, rules: Rules) -> Mapping[str, Outcome]:
    try:
        return executor.run(cases, rules)
    except Exception as error:  # noqa: BLE001 - an executor that breaks has run nothing
        return {case.id: Outcome(error=f"the executor broke: {type(error).__name__}: {error}") for case in cases}


def _is_outside(case: Case) -> bool:
    return case.fault is None and case.expected_strict is None
