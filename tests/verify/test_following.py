"""What `why` says of a record that a join has not let out, without a session."""

from __future__ import annotations

import pytest

from lakestreams import Json, StreamsBuilder, Text
from lakestreams.engine.ledger.plans import Plan
from lakestreams.topology.topology import Topology
from lakestreams.verify import following
from lakestreams.verify.trace import Trace

WAITS = "waits in named until the clock"
HAD_NONE = "has no partner in named: Customers had no row of its key while it waited"


def topology_of(how: str, *, rekeyed: bool) -> Topology:
    builder = StreamsBuilder("orders")
    orders = builder.stream("Orders", key=Text("order"), value=Json("customer string"))
    customers = builder.table("Customers", key=Text("customer"), value=Json("name string"))
    side = orders.select_key("customer", name="by_customer") if rekeyed else orders
    getattr(side, how)(customers, wait="10 ms", name="named").to_delta("silver.named")
    return builder.build()


@pytest.mark.parametrize(
    ("how", "rekeyed", "clocks", "told"),
    [
        ("left_join", False, {0: 105, 1: 200}, f"{WAITS}, now at 105, passes 110"),
        ("left_join", True, {0: 105, 1: 106}, f"{WAITS}, now at 106, passes 110"),
        # the newest clock has passed it, and the record has not come out: its key's task has another clock
        ("left_join", True, {0: 105, 1: 200}, f"{WAITS} of its key's task passes 110; others have passed it"),
        ("join", False, {0: 200, 1: 105}, HAD_NONE),
        ("join", True, {0: 105, 1: 200}, HAD_NONE),
    ],
)
def test_a_left_join_that_waits_holds_what_it_has_not_let_out(
    how: str, rekeyed: bool, clocks: dict[int, int], told: str
) -> None:
    topology = topology_of(how, rekeyed=rekeyed)
    (join,) = topology.joins
    trace = Trace("Orders", 0, 2, 0, 1, "o3", "{}", 100, 1)
    plan = Plan(cycle=1, fingerprint="", ranges=(), clocks=clocks, seq_from=1, seq=1)
    assert following._lost(join, trace, [plan], {join.left: True}) == told


@pytest.mark.parametrize(
    ("side", "told"),
    [
        ("left", "has no partner in pair yet: one may come until the clock, now at 150, passes 205"),
        ("right", "has no partner in pair: none of its key lies within its window"),
    ],
)
def test_the_side_that_a_record_came_to_says_how_long_its_window_is_open(side: str, told: str) -> None:
    """One topic feeds both sides, so it does not say which one a record is of."""
    builder = StreamsBuilder("steps")
    steps = builder.stream("Steps", key=Text("id"), value=Text("step"))
    began = steps.filter(lambda row: row.step == "began", name="began")
    ended = steps.filter(lambda row: row.step == "ended", name="ended")
    began.join(ended, before="20 ms", after="100 ms", grace="5 ms", name="pair").to_delta("silver.pairs")
    (join,) = builder.build().joins
    trace = Trace("Steps", 0, 0, 0, 1, "a", side, 100, 1)
    plan = Plan(cycle=1, fingerprint="", ranges=(), clocks={0: 150}, seq_from=1, seq=1)
    assert following._lost(join, trace, [plan], {getattr(join, side): True}) == told


@pytest.mark.parametrize(
    ("topic", "told"),
    [("Orders", "deleted the row of its key in silver.known"), ("Customers", "took rows out of silver.known")],
)
def test_a_deletion_of_the_other_side_has_another_key_than_the_rows_that_go(topic: str, told: str) -> None:
    builder = StreamsBuilder("known")
    orders = builder.table("Orders", key=Text("id"), value=Json("customer string"))
    customers = builder.table("Customers", key=Text("customer"), value=Text("name"))
    orders.join(customers, left_on="customer").to_delta("silver.known")
    topology = builder.build()
    (join,) = topology.joins
    trace = Trace(topic, 0, 0, 0, 1, "a", None, 100, 1)
    assert following._unwritten(topology, trace, {join: False}) == [told]
