"""Windows behind steps that let rows wait: which of them may close before such rows come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakestreams import Json, StreamsBuilder, Text
from lakestreams.cli.check import late_behind_waits
from lakestreams.topology.durations import to_text

ORDERS = Json("region string, amount int")
WAITS: dict[str, tuple[Callable[[Any, Any, Any], Any], int]] = {
    "nothing": (lambda orders, _payments, _customers: orders, 0),
    "wait": (lambda orders, _payments, customers: orders.left_join(customers, wait="10 minutes", name="w"), 10),
    "amend": (lambda orders, _payments, customers: orders.left_join(customers, amend="10 minutes", name="w"), 10),
    "a row at once": (lambda orders, _payments, customers: orders.left_join(customers, name="w"), 0),
    "window, inner": (lambda orders, payments, _customers: orders.join(payments, within="10 minutes", name="w"), 0),
    "window, left": (
        lambda orders, payments, _customers: orders.left_join(payments, within="10 minutes", name="w"),
        10,
    ),
    "window, eager": (
        lambda orders, payments, _customers: orders.left_join(
            payments, within="10 minutes", emit_unmatched="eager", name="w"
        ),
        0,
    ),
    "wait after wait": (
        lambda orders, payments, customers: orders.left_join(payments, within="5 minutes", name="v").left_join(
            customers, wait="10 minutes", name="w"
        ),
        15,
    ),
}


@pytest.mark.parametrize("grace", [0, 9, 10, 15])
@pytest.mark.parametrize("way", WAITS)
def test_a_window_that_closes_before_rows_that_waited_come_is_told(way: str, grace: int) -> None:
    builder = StreamsBuilder("orders")
    orders = builder.stream("Orders", key=Text("customer"), value=ORDERS)
    payments = builder.stream("Payments", key=Text("customer"), value=Json("paid int"))
    customers = builder.table("Customers", key=Text("customer"), value=Json("name string"))
    make, waited = WAITS[way]
    counts = make(orders, payments, customers).group_by_key().windowed_by("1 hour", grace=f"{grace} minutes")
    counts.count(name="per_hour").to_delta("silver.per_hour")
    payments.to_delta("silver.payments")
    customers.to_delta("silver.customers")
    told = late_behind_waits(builder.build())
    missing = waited - grace
    if missing <= 0:
        assert told == []
        return
    assert [one.partition(":")[0] for one in told] == ["per_hour"]
    assert f"up to {waited} minutes behind its clock" in told[0]
    assert told[0].endswith(f"make its grace {to_text(missing * 60_000)} longer")
