"""What `verify` says of plans that do not follow each other; without Spark."""

from __future__ import annotations

from lakestreams.engine.ledger.plans import Plan, Range
from lakestreams.verify.bronze import plans_follow_each_other


def plan(cycle: int, *ranges: tuple[int, int]) -> Plan:
    parts = tuple(Range("t", place, begin, end) for place, (begin, end) in enumerate(ranges))
    return Plan(cycle, "f", parts, {}, cycle, cycle)


def test_a_gap_of_offsets_and_a_lost_cycle_are_found() -> None:
    assert plans_follow_each_other([plan(1, (0, 5)), plan(2, (5, 5)), plan(3, (5, 9))]).differs == 0
    gap = plans_follow_each_other([plan(1, (0, 5)), plan(2, (6, 9))])
    assert gap.examples == ("cycle 2: t-0 from 6, not from 5",)
    lost = plans_follow_each_other([plan(1, (0, 5)), plan(3, (5, 9))])  # a cycle of no record leaves no gap
    assert lost.examples == ("cycle 3 comes behind cycle 1",)
