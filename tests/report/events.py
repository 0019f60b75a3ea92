"""A realistic event log and quarantine, made by hand: the columns and the nesting that docs/report.md describes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from lakestreams import Json, StreamsBuilder, Text, Topology

PIPELINE = "order_payments"
BEGIN = datetime(2026, 11, 22, 8, 30, tzinfo=UTC)
_CYCLE_S = 90
_LEFT_SHARES = (0.93, 0.94, 0.92, 0.95, 0.71, 0.62, 0.88, 0.93)  # of matched orders, over and over
_ARRIVED = (2_400, 2_650, 2_500, 3_900, 5_200, 4_100, 2_300, 2_450)  # orders


def topology() -> Topology:
    """The pipeline that the events are of: two joins behind two streams, a table that is counted into, three outputs."""
    builder = StreamsBuilder(PIPELINE)
    orders = builder.stream("orders", key=Text("order_id"), value=Json("amount int, customer_id string"))
    payments = builder.stream("payments", key=Text("order_id"), value=Json("reference string, customer_id string"))
    customers = builder.table("customers", key=Text("customer_id"), value=Json("name string, tier string"))
    matched = orders.left_join(payments, within="5 minutes", grace="1 minute", name="matched")
    matched.to_delta("silver.order_payments")
    by_customer = orders.select_key(lambda one: {"customer_id": one.customer_id}, name="by_customer")
    named = by_customer.left_join(customers, name="with_customer")
    named.to_delta("silver.orders_with_customers")
    named.group_by_key().count(name="per_customer").to_delta("gold.orders_per_customer")
    return builder.build()


def log(cycles: int = 24, first: int = 1, pipeline: str = PIPELINE) -> list[dict[str, Any]]:
    """The rows of `_lakestreams.events` of so many cycles."""
    rows: list[dict[str, Any]] = []
    behind = 0
    for number in range(first, first + cycles):
        place = number - first
        arrived = _ARRIVED[place % len(_ARRIVED)] + 37 * (number % 5)
        taken = min(behind + arrived, 3_400)
        behind = behind + arrived - taken
        rows += _cycle(pipeline, number, BEGIN + timedelta(seconds=_CYCLE_S * place), taken, behind, len(rows))
    return rows


def _cycle(pipeline: str, number: int, at: datetime, orders: int, behind: int, before: int) -> list[dict[str, Any]]:
    payments, customers = orders * 9 // 10, 40
    late, broken, refused, dropped = number % 4 * 3, 12 if number % 8 == 3 else 0, 2 + number % 3, 9 + number % 6
    readable = orders - broken - dropped
    share = _LEFT_SHARES[number % len(_LEFT_SHARES)]
    matched = round(readable * share)
    known = round(readable * 0.985)
    amount = {"name": "amount_positive", "dataset": "orders", "passed_records": orders - broken - dropped,
              "failed_records": dropped, "action": "drop"}  # fmt: skip
    customer = {"name": "has_customer", "dataset": "orders", "passed_records": orders - broken - dropped,
                "failed_records": 0, "action": "warn"}  # fmt: skip
    unique = {"name": "one_outcome_per_left", "dataset": "matched", "passed_records": readable - late,
              "failed_records": 0, "action": "fail"}  # fmt: skip
    tier = {"name": "known_customer", "dataset": "with_customer", "passed_records": known,
            "failed_records": readable - known, "action": "warn"}  # fmt: skip
    flows = [
        _flow("orders", "stream", [], orders, readable, quarantined={"MALFORMED_VALUE": broken, "EXPECTATION": dropped},
              expectations=[amount, customer], dropped=dropped),
        _flow("payments", "stream", [], payments, payments - refused, quarantined={"NULL_VALUE": refused}),
        _flow("customers", "table", [], customers, customers),
        _flow("matched", "left_join", ["orders", "payments"], readable + payments - refused, readable - late,
              rows={"matched": matched - late, "unmatched": readable - matched}, quarantined={"LATE": late},
              expectations=[unique]),
        _flow("by_customer", "select_key", ["orders"], None, None),
        _flow("with_customer", "left_join", ["by_customer", "customers"], readable + customers, readable,
              rows={"matched": known, "unmatched": readable - known}, expectations=[tier]),
        _flow("per_customer", "count", ["with_customer"], readable, readable // 3),
        _flow("silver.order_payments", "to_delta", ["matched"], readable - late, readable - late),
        _flow("silver.orders_with_customers", "to_delta", ["with_customer"], readable, readable),
        _flow("gold.orders_per_customer", "to_delta", ["per_customer"], readable // 3, readable // 3),
    ]  # fmt: skip
    planned = int(at.timestamp() * 1_000)
    seconds = {"settle": 0.2 + number % 3 * 0.05, "join": round(1.6 + orders / 2_000, 3),
               "publish": round(0.5 + orders / 9_000, 3), "finish": 0.25}  # fmt: skip
    if number % 8 == 0:
        seconds["store"] = 2.4
    closed = planned + round(sum(seconds.values()) * 1_000)
    told = {
        "cycle": number,
        "records": orders + payments + customers,
        "bad": broken,
        "planned_at_ms": planned,
        "closed_at_ms": closed,
        "seconds": seconds,
        "clocks": {"0": planned - 1_000, "1": planned - 2_000},
        "ticks": 0,
        "sources": [
            *_stretches("orders", orders, broken, behind, planned),
            *_stretches("payments", payments, 0, behind // 4, planned),
            *_stretches("customers", customers, 0, 0, planned, partitions=1),
        ],
    }
    events = [(name, "STABLE", "flow_progress", details) for name, details in flows]
    events.append((None, "EVOLVING", "cycle_progress", told))
    return [
        {
            "pipeline": pipeline,
            "cycle": number,
            "id": f"{pipeline}/{number}/{n}",
            "sequence": before + n,
            "event_type": event_type,
            "level": "INFO",
            "maturity_level": maturity,
            "timestamp": datetime.fromtimestamp(closed / 1_000, UTC),
            "message": f"cycle {number} of {pipeline} is closed",
            "origin": json.dumps(_origin(pipeline, number, name)),
            "details": json.dumps({event_type: details}),
        }
        for n, (name, maturity, event_type, details) in enumerate(events)
    ]


def _origin(pipeline: str, number: int, name: str | None) -> dict[str, Any]:
    node = {} if name is None else {"flow_name": name, "dataset_name": name}
    return {"pipeline_name": pipeline, "update_id": "run-1", **node, "batch_id": number}


def _flow(
    name: str,
    kind: str,
    parents: list[str],
    rows_in: int | None,
    rows_out: int | None,
    *,
    rows: dict[str, int] | None = None,
    quarantined: dict[str, int] | None = None,
    expectations: list[dict[str, Any]] | None = None,
    dropped: int = 0,
) -> tuple[str, dict[str, Any]]:
    """A node's details; a number that is None has not been counted, and is absent."""
    counted = {"num_output_rows": rows_out, "num_input_rows": rows_in}
    told: dict[str, Any] = {
        "status": "COMPLETED",
        "metrics": {metric: number for metric, number in counted.items() if number is not None},
        "data_quality": {"dropped_records": dropped, "expectations": expectations or []},
        "lakestreams": {"kind": kind, "parents": parents, "quarantined": quarantined or {}},
    }
    if rows is not None:
        told["lakestreams"]["rows"] = {**rows, "amended": 0, "tombstone": 0, "record": 0}
    return name, told


def _stretches(
    name: str, records: int, bad: int, behind: int, now: int, *, partitions: int = 2
) -> list[dict[str, Any]]:
    found = []
    for partition in range(partitions):
        own = records // partitions + (records % partitions if partition == 0 else 0)
        readable = own - (bad if partition == 0 else 0)
        tail = [readable * share // 1_000 for share in (130, 28, 9, 2, 0, 0, 0)]
        found.append(
            {
                "name": name,
                "topic": name,
                "partition": partition,
                "from_offset": 0,
                "to_offset": own,
                "end_offset": own + behind // partitions,
                "records": own,
                "bad": bad if partition == 0 else 0,
                "null_keys": 0,
                "stream_time_ms": now,
                "lag_records": behind // partitions,
                "lag_ms": 400,
                "lateness": [readable - sum(tail), *tail],
            }
        )
    return found


def quarantine(*, values: bool = False) -> list[dict[str, Any]]:
    """What `read_quarantine` gives for it."""
    return [
        _refused("orders", "EXPECTATION", 276, 24, "amount_positive", b'{"amount": -12}', values, ["amount_positive"]),
        _refused("payments", "NULL_VALUE", 72, 24, "a stream's null value gives no result", None, values),
        _refused("matched", "LATE", 108, 23, "late by 61 s: its window closed at 08:58:00", b'{"amount": 7}', values),
        _refused("orders", "MALFORMED_VALUE", 36, 19, "not JSON: unexpected end of text", b'{"amount": \xff', values),
    ]


def _refused(
    node: str, code: str, records: int, newest: int, message: str, value: bytes | None, values: bool,
    rules: list[str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    topic = "orders" if node == "matched" else node
    examples: list[dict[str, Any]] = [
        {"topic": topic, "partition": n % 2, "offset": 41_230 - 7 * n, "attempt": 1 if n == 1 else 0,
         "cycle": newest - n, "message": message, "rules": rules}
        for n in range(3)
    ]  # fmt: skip
    if values:
        examples = [{**one, "key": f"o{number}".encode(), "value": value} for number, one in enumerate(examples)]
    return {"node": node, "code": code, "records": records, "first_cycle": 1, "last_cycle": newest,
            "examples": examples}  # fmt: skip
