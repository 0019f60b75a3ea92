"""The report's model: its numbers are those of the events, and whatever a log may lack or repeat is borne."""

from __future__ import annotations

import json
import random
from datetime import datetime

import pytest
from tests.report import events

from lakestreams.report import health, wording
from lakestreams.report.build import build
from lakestreams.report.model import LATENESS, Expectation, Flow, Report

LOG = events.log()
REPORT = build(events.PIPELINE, LOG, events.quarantine())


def details(rows, event_type, name=None):
    """What the log says, read without the model: each event's cycle and details, of one node or of cycles."""
    for row in rows:
        if row["event_type"] == event_type and json.loads(row["origin"]).get("flow_name") == name:
            yield row["cycle"], json.loads(row["details"])[event_type]


def changed(rows, change):
    """The log with each event's details changed in place."""
    found = []
    for row in rows:
        told = json.loads(row["details"])
        change(row, told[row["event_type"]])
        found.append({**row, "details": json.dumps(told)})
    return found


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_totals_are_those_of_the_events():
    cycles = [told for _, told in details(LOG, "cycle_progress")]
    assert [one.number for one in REPORT.cycles] == list(range(1, 25))
    assert REPORT.records == sum(one["records"] for one in cycles)
    assert sum(one.bad or 0 for one in REPORT.cycles) == sum(one["bad"] for one in cycles) > 0
    assert REPORT.took_s == pytest.approx(sum(sum(one["seconds"].values()) for one in cycles))
    outputs = ("silver.order_payments", "silver.orders_with_customers", "gold.orders_per_customer")
    written = [
        told["metrics"]["num_output_rows"] for name in outputs for _, told in details(LOG, "flow_progress", name)
    ]
    assert (REPORT.written, len(written)) == (sum(written), 3 * 24)
    assert REPORT.missing == REPORT.unread == 0


def test_nodes_are_added_up_over_the_cycles():
    flows = {flow.name: flow for flow in REPORT.flows}
    told = [one for _, one in details(LOG, "flow_progress", "matched")]
    matched = flows["matched"]
    assert matched.kind == "left_join"
    assert matched.rows_in == sum(one["metrics"]["num_input_rows"] for one in told)
    assert matched.matched == sum(one["lakestreams"]["rows"]["matched"] for one in told)
    assert matched.unmatched == sum(one["lakestreams"]["rows"]["unmatched"] for one in told)
    assert matched.match_rate == pytest.approx(matched.matched / (matched.matched + matched.unmatched))
    assert matched.quarantined == {"LATE": sum(one["lakestreams"]["quarantined"]["LATE"] for one in told)}
    assert flows["by_customer"].rows_out is None, "not counted, which is not 0"
    assert "by_customer" not in REPORT.rows_out
    assert REPORT.rows_out["matched"] == matched.rows_out
    assert [flow.name for flow in REPORT.flows if flow.is_source] == ["orders", "payments", "customers"]
    assert [flow.is_output for flow in REPORT.flows] == [False] * 7 + [True] * 3, "sources first, outputs last"


def test_expectations_are_added_up_and_know_when_they_last_broke():
    told = [
        (cycle, one)
        for cycle, found in details(LOG, "flow_progress", "orders")
        for one in found["data_quality"]["expectations"]
        if one["name"] == "amount_positive"
    ]
    (found,) = [one for one in REPORT.expectations if one.name == "amount_positive"]
    passed = sum(one["passed_records"] for _, one in told)
    failed = sum(one["failed_records"] for _, one in told)
    assert found == Expectation("orders", "amount_positive", "drop", passed, failed, 24)
    assert found.share == pytest.approx(passed / (passed + failed))
    assert REPORT.dropped == failed
    (held,) = [one for one in REPORT.expectations if one.name == "has_customer"]
    assert (held.failed, held.share, held.last_broken) == (0, 1.0, None)
    assert Expectation("orders", "never_looked_at", "warn").share is None


def test_lag_and_lateness_are_those_of_the_partitions():
    newest = next(told for cycle, told in details(LOG, "cycle_progress") if cycle == 24)
    assert REPORT.sources == ("orders", "payments", "customers")
    assert REPORT.cycles[-1].lag_records == sum(one["lag_records"] for one in newest["sources"])
    stretches = [
        one for _, told in details(LOG, "cycle_progress") for one in told["sources"] if one["name"] == "orders"
    ]
    assert REPORT.lateness("orders") == tuple(map(sum, zip(*(one["lateness"] for one in stretches), strict=True)))
    assert len(REPORT.lateness("orders")) == len(LATENESS)
    assert sum(REPORT.lateness("orders")) == sum(one["records"] - one["bad"] for one in stretches)


def test_quarantine_by_reason_is_that_of_the_nodes():
    counted: dict[str, int] = {}
    for row in LOG:
        if row["event_type"] == "flow_progress":
            for code, number in json.loads(row["details"])["flow_progress"]["lakestreams"]["quarantined"].items():
                counted[code] = counted.get(code, 0) + number
    assert REPORT.quarantined == sum(counted.values()) == sum(one.records for one in REPORT.quarantine or ())
    assert list(REPORT.codes) == sorted(counted, key=lambda code: -counted[code])
    assert [(one.node, one.code) for one in REPORT.quarantine or ()][:2] == [
        ("orders", "EXPECTATION"),
        ("matched", "LATE"),
    ]
    first, second, _ = (REPORT.quarantine or ())[0].examples
    assert (first.place, first.rules, first.value) == ("orders-0@41230", ("amount_positive",), None)
    assert second.place == "orders-1@41223, attempt 1"


def test_an_inner_join_tells_no_match_rate_unless_it_counts_what_found_none():
    assert Flow("paid", "join", matched=10, unmatched=0).match_rate is None
    assert Flow("paid", "join", matched=10, unmatched=30).match_rate == 0.25
    assert Flow("paid", "left_join", matched=10, unmatched=0).match_rate == 1.0
    assert Flow("paid", "left_join", matched=0, unmatched=0).match_rate is None
    assert Flow("kept", "filter", matched=1, unmatched=1).match_rate is None


def test_kinds_that_are_not_named_are_none_where_others_are():
    def sparse(_, told):
        rows = told.get("lakestreams", {}).get("rows", {})
        told.get("lakestreams", {})["rows"] = {
            kind: count for kind, count in rows.items() if count and kind != "unmatched"
        }

    first = build(events.PIPELINE, changed(LOG, sparse)).cycles[0].flows
    assert (first["matched"].unmatched, first["matched"].match_rate) == (0, 1.0)
    assert first["orders"].unmatched is None


# --- logs as they may be -----------------------------------------------------------------------------------------------


def test_order_repetition_and_other_pipelines_change_nothing():
    mixed = [*LOG, *LOG[40:90], *events.log(3, pipeline="another")]
    random.Random(4).shuffle(mixed)
    assert build(events.PIPELINE, mixed, events.quarantine()) == REPORT


def test_objects_may_come_as_such_and_times_without_a_zone():
    plain = [
        {**row, "details": json.loads(row["details"]), "origin": json.loads(row["origin"]),
         "timestamp": datetime.fromisoformat(row["timestamp"].isoformat()).replace(tzinfo=None)}
        for row in LOG
    ]  # fmt: skip
    assert build(events.PIPELINE, plain, events.quarantine()) == REPORT
    without = build(events.PIPELINE, changed(plain_text(plain), lambda _, told: told.pop("closed_at_ms", None)))
    assert [one.closed_at_ms for one in without.cycles] == [one.closed_at_ms for one in REPORT.cycles]


def plain_text(rows):
    return [{**row, "details": json.dumps(row["details"])} for row in rows]


def test_nothing_is_a_report_too():
    empty = build("p", [], [])
    assert empty == Report("p", quarantine=())
    assert (empty.records, empty.records_per_second, empty.took_s, empty.missing, empty.rows_out) == (
        None,
        None,
        None,
        0,
        {},
    )
    assert [badge.level for badge in health.badges(empty)] == ["none"]


def test_numbers_that_are_not_there_are_none_and_not_nought():
    def bare(_, told):
        for name in ("metrics", "data_quality", "seconds", "records", "bad", "planned_at_ms", "status"):
            told.pop(name, None)
        told.get("lakestreams", {}).pop("rows", None)
        for stretch in told.get("sources", []):
            stretch["lag_records"] = None
            del stretch["lateness"]

    found = build(events.PIPELINE, changed(LOG, bare))
    assert len(found.cycles) == 24
    assert (found.records, found.written, found.dropped, found.took_s, found.records_per_second) == (None,) * 5
    assert (found.rows_out, found.joins, found.expectations, found.lateness("orders")) == ({}, (), (), ())
    assert found.cycles[0].lag_records is None
    assert found.quarantine is None
    assert not any(flow.failed for flow in found.flows)
    assert health.badges(found)[0].says == "lag unknown"


def test_events_that_make_no_sense_are_counted_and_left_out():
    broken = [{**LOG[0], "id": "x", "details": "{"}, {**LOG[1], "id": "y", "details": '{"flow_progress": 3}'},
              {**LOG[2], "id": "z", "cycle": None}, {**LOG[0], "id": "w", "event_type": "user_action"}]  # fmt: skip
    found = build(events.PIPELINE, [*LOG, *broken], events.quarantine())
    assert (found.unread, found.cycles) == (3, REPORT.cycles)

    def odd(_, told):
        told.update(records="many", seconds={"settle": "long", "join": float("nan"), "finish": 0.25}, sources={"a": 1})
        told["metrics"] = {"num_output_rows": True}

    one = build(events.PIPELINE, changed(LOG, odd)).cycles[0]
    assert (one.records, dict(one.seconds), one.lag, one.flows["orders"].rows_out) == (None, {"finish": 0.25}, {}, None)


def test_topologies_that_follow_each_other_are_told_together():
    def renamed(row, _):
        row["origin"] = row["origin"].replace('"matched"', '"matched_anew"')

    later = [{**row, "sequence": row["sequence"] + 10_000} for row in changed(events.log(4, first=25), renamed)]
    found = build(events.PIPELINE, [*LOG, *later])
    names = [flow.name for flow in found.flows]
    assert {"matched", "matched_anew"} < set(names)
    assert found.joins == ("matched", "with_customer", "matched_anew")
    assert found.cycles[-1].flows.get("matched") is None


def test_stages_are_in_the_order_of_a_cycle():
    def as_the_engine_tells_them(_, told):
        told["seconds"] = {"snapshot": 0.1, "settle": 0.2, "join": 2.0, "ingest": 3.0}

    cycles = [row for row in LOG if row["event_type"] == "cycle_progress"]
    found = build(events.PIPELINE, changed(cycles, as_the_engine_tells_them))
    assert found.stages == ("ingest", "settle", "join", "snapshot")
    assert REPORT.stages == ("settle", "join", "publish", "finish", "store")


# --- judgements --------------------------------------------------------------------------------------------------------


def test_badges_tell_what_wants_attention():
    assert [(one.level, one.says) for one in health.badges(REPORT)] == [
        ("warn", "1,650 records behind"),
        ("warn", "2 expectations broken"),
        ("warn", f"{REPORT.quarantined} in quarantine"),
    ]
    assert "orders" in health.badges(REPORT)[0].why

    def well(_, told):
        for one in told.get("data_quality", {}).get("expectations", []):
            one["failed_records"] = 0
        told.get("lakestreams", {}).update(quarantined={})
        for stretch in told.get("sources", []):
            stretch["lag_records"] = 0

    good = build(events.PIPELINE, changed(LOG, well))
    assert [(one.level, one.says) for one in health.badges(good)] == [
        ("good", "caught up"),
        ("good", "expectations hold"),
        ("good", "nothing quarantined"),
    ]

    def says(report):
        return [(one.level, one.says) for one in health.badges(report)]

    stuck = ("warn", "cycle 25 not finished")
    assert says(build(events.PIPELINE, changed(LOG, well), open_cycle=25)) == [stuck, *says(good)]
    assert says(build("p", [], [], 1)) == [("none", "no cycle in the log"), ("warn", "cycle 1 not finished")]

    def ill(row, told):
        if json.loads(row["origin"]).get("flow_name") == "matched":
            told["status"] = "FAILED"
            told["data_quality"]["expectations"][0]["failed_records"] = 1

    rows = [row for row in changed(LOG, ill) if row["cycle"] not in (5, 6)]
    bad = {one.says: one.level for one in health.badges(build(events.PIPELINE, rows))}
    assert bad["1 node failed"] == bad["3 expectations broken"] == "bad"
    assert bad["2 cycles not in the log"] == "warn"


@pytest.mark.parametrize(
    ("word", "value", "says"),
    [
        (wording.count, 1_234_567, "1,234,567"),
        (wording.count, None, wording.DASH),
        (wording.share, 1.0, "100 %"),
        (wording.share, 0.999_999, "> 99.99 %"),
        (wording.share, 0.000_001, "< 0.01 %"),
        (wording.share, 0.9964, "99.64 %"),
        (wording.short, 12_500, "12.5k"),
        (wording.short, 999.7, "1k"),
        (wording.short, 999_600, "1M"),
        (wording.short, 3e12, "3T"),
        (wording.seconds, 3.25, "3.2 s"),
        (wording.seconds, 3_725, "62 min 05 s"),
        (wording.seconds, 10_000, "2 h 46 min"),
        (wording.instant, 1_763_800_000_000, "22 Nov 2025, 08:26:40"),
        (wording.instant, 10**20, wording.DASH),
    ],
)
def test_wording(word, value, says):
    assert word(value) == says


def test_a_span_names_its_day_once():
    day = 86_400_000
    assert wording.span(0, 3_600_000) == "01 Jan 1970, 00:00 to 01:00 UTC"
    assert wording.span(0, day) == "01 Jan 1970, 00:00 to 02 Jan 1970, 00:00 UTC"
    assert wording.span(None, day) == "02 Jan 1970, 00:00 UTC"
    assert wording.axis_times([0, None, 2 * day]) == ["01 Jan", "", "03 Jan"]
    assert wording.axis_times([0, day]) == ["00:00", "00:00"]
