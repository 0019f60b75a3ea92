"""Where bronze stands, as a driver knows: what is read, what no cycle has taken, and when records came."""

from __future__ import annotations

from lakestreams.engine.ingest.kafka import Lag
from lakestreams.engine.ingest.position import BronzePosition
from lakestreams.engine.ledger.last_cycle import LastCycle
from lakestreams.engine.ledger.plans import Ingest, Plan, Range
from lakestreams.expectations.cycle_metrics import CycleMetrics
from lakestreams.kafka.noted import Noted

VIEWS, USERS = ("views", 0), ("users", 0)


def batch(seq: int, views: tuple[int, int], users: tuple[int, int] = (0, 0)) -> Ingest:
    parts = ((VIEWS, views), (USERS, users))
    return Ingest(seq, seq, tuple(Range(*at, start, end, records=end - start) for at, (start, end) in parts))


def plan(cycle: int, views: int, users: int, seq: int) -> Plan:
    return Plan(cycle, "f", (Range(*VIEWS, 0, views), Range(*USERS, 0, users)), {}, 1, seq)


def closed(*plans: Plan) -> LastCycle:
    last = LastCycle("p")
    for one in plans:
        last.planned(one, {}, 0)
        last.executed(CycleMetrics())
        last.closed()
    return last


def test_partitions_are_read_up_to_the_newest_batch_or_plan_and_past_accepted_losses() -> None:
    bronze = BronzePosition(closed(plan(1, 5, 9, 1)), Noted())
    assert bronze.positions == {VIEWS: 5, USERS: 9}
    bronze.add(batch(2, (5, 7), (9, 9)), 100)
    assert bronze.positions == {VIEWS: 7, USERS: 9}
    bronze.lost = {USERS: 12, VIEWS: 6, ("other", 0): 3}
    assert bronze.positions == {VIEWS: 7, USERS: 12}, "of a topic that was never read nothing is lost"


def test_a_plan_empties_batches_and_the_newest_stays() -> None:
    bronze = BronzePosition(closed(), Noted())
    one, two, three = batch(1, (0, 2)), batch(2, (2, 4)), batch(3, (4, 6))
    for each in (one, two, three):
        bronze.add(each, 100)
    assert bronze.unplanned == [one, two, three]
    bronze.planned(plan(1, 3, 0, 2))
    assert bronze.batches == [two, three], "the plan has cut the second"
    bronze.planned(plan(2, 6, 0, 3))
    assert bronze.batches == [three]
    assert bronze.state.seq == 3


def test_batches_behind_the_last_plan_are_unplanned() -> None:
    bronze = BronzePosition(closed(plan(1, 2, 0, 1)), Noted())
    for each in (batch(1, (0, 2)), batch(2, (2, 4))):
        bronze.add(each, 100)
    assert [one.seq for one in bronze.unplanned] == [2]


def test_only_records_count_as_arrived() -> None:
    bronze = BronzePosition(closed(), Noted())
    bronze.add(batch(1, (0, 2), (0, 1)), 100)
    bronze.add(batch(2, (2, 2), (1, 2)), 200)
    assert bronze.arrived == {VIEWS: 100, USERS: 200}


def test_how_many_offsets_are_still_to_be_read() -> None:
    assert Lag({VIEWS: 3, USERS: 7}, {VIEWS: 10}, is_known=True).offsets == 7
