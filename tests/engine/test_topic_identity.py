"""Whether a topic is the one that was read: what is compared, decided by plain values; no Spark and no broker."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lakestreams.engine.ingest.topic_identity import require_same, require_unchanged, warnings
from lakestreams.engine.ledger.plans import REPLAYED, Ingest, Range
from lakestreams.errors import TopicRecreated
from lakestreams.kafka.cluster_view import ClusterView
from lakestreams.kafka.noted import Noted

AT, OTHER = ("views", 0), ("views", 1)
TABLE = "delta:shop.users"
CALLED = {TABLE: "Delta table shop.users"}
VIEW = ClusterView({AT: 10, OTHER: 3}, {AT: 2, OTHER: 0}, {"views": "A"}, leader_epochs={AT: 4, OTHER: 1})
READ = {AT: 10, OTHER: 3}


def without_ids(view: ClusterView) -> ClusterView:
    return replace(view, topic_ids={})


SAME: dict[str, tuple[ClusterView, ClusterView, dict[Any, int]]] = {
    "nothing has changed": (VIEW, VIEW, READ),
    "it has grown, and its oldest records have expired": (
        VIEW, replace(VIEW, ends={AT: 90, OTHER: 30}, starts={AT: 50, OTHER: 30}), READ),
    "its leaders have changed": (VIEW, replace(VIEW, leader_epochs={AT: 9, OTHER: 2}), READ),
    "it has another partition": (VIEW, replace(VIEW, ends={**VIEW.ends, ("views", 2): 0}), READ),
    "nothing was read of the one before": (VIEW, replace(VIEW, topic_ids={"views": "B"}), {AT: 0, OTHER: 0}),
    "nothing was read and it is shorter": (
        VIEW, replace(VIEW, topic_ids={"views": "B"}, ends={AT: 0}, starts={}), {AT: 0}),
    "no id was known before": (without_ids(VIEW), VIEW, READ),
    "no id is known now": (VIEW, without_ids(VIEW), READ),
    "nothing was noted at all": (ClusterView({}), VIEW, READ),
    "its id is the same, whatever else a broker says": (VIEW, replace(VIEW, starts={AT: 0}, leader_epochs={AT: 0}), READ),
    "it is not read any more": (VIEW, ClusterView({}), READ),
    "a leader epoch is unknown": (without_ids(VIEW), replace(without_ids(VIEW), leader_epochs={}), READ),
}  # fmt: skip
ANOTHER: dict[str, tuple[ClusterView, ClusterView, dict[Any, int], str]] = {
    "another id": (VIEW, replace(VIEW, topic_ids={"views": "B"}), READ, r"topic views was deleted.*\(id A, now B\)"),
    "another id, and longer than before": (
        VIEW, replace(VIEW, topic_ids={"views": "B"}, ends={AT: 99, OTHER: 99}), READ, "id A, now B"),
    "another id, and one partition of it was read": (
        VIEW, replace(VIEW, topic_ids={"views": "B"}), {AT: 0, OTHER: 3}, "id A, now B"),
    "another id, and only transaction markers were read": (
        VIEW, replace(VIEW, topic_ids={"views": "B"}), {AT: 1}, "id A, now B"),
    "an end before what was read": (
        VIEW, replace(VIEW, ends={AT: 9, OTHER: 3}), READ, "partition 0 ends at offset 9, but 10 were already read"),
    "an end before what was read, without ids": (
        ClusterView({}), replace(without_ids(VIEW), ends={AT: 10, OTHER: 2}), READ, "partition 1 ends at offset 2"),
    "a leader epoch that went back, without ids": (
        without_ids(VIEW), replace(without_ids(VIEW), leader_epochs={AT: 3}), READ, "leader epoch of partition 0 .* 4 to 3"),
    "a first offset that went back, without ids": (
        without_ids(VIEW), replace(without_ids(VIEW), starts={AT: 1}), READ, "first offset of partition 0 .* 2 to 1"),
    "a first offset that went back, the id known before alone": (
        VIEW, replace(without_ids(VIEW), starts={AT: 0}), READ, "first offset of partition 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", SAME)
def test_a_topic_is_the_same_as_long_as_nothing_goes_back(case: str) -> None:
    before, now, read = SAME[case]
    require_same(before.noted, now, read, CALLED)


@pytest.mark.parametrize("case", ANOTHER)
def test_a_topic_that_was_made_anew_is_another_one(case: str) -> None:
    before, now, read, told = ANOTHER[case]
    with pytest.raises(TopicRecreated, match=told):
        require_same(before.noted, now, read, CALLED)


def test_a_delta_table_of_another_id_is_another_table() -> None:
    at = (TABLE, 0)
    before = ClusterView({at: 3 << 32}, topic_ids={TABLE: "A"})
    require_same(before.noted, before, {at: 3 << 32}, CALLED)
    with pytest.raises(
        TopicRecreated, match=r"Delta table shop.users is not the table that was read before \(id A, now B\)"
    ):
        require_same(before.noted, replace(before, topic_ids={TABLE: "B"}), {at: 3 << 32}, CALLED)
    with pytest.raises(TopicRecreated, match=r"Delta table shop.users has 2 versions, but 3 were already read"):
        require_same(before.noted, replace(before, ends={at: 2 << 32}), {at: 3 << 32}, CALLED)


# --- what bronze holds of it -----------------------------------------------------------------------------------------

BATCHES = [
    Ingest(5, 5, (Range("views", 0, 10, 20, records=10), Range("views", 1, 3, 3), Range("users", 0, 0, 4, records=4))),
    Ingest(6, 6, (Range("views", 0, 20, 25, records=5), Range("views", 1, 3, 7, records=4))),
    Ingest(7, 7, (Range("views", REPLAYED, 7, 8, records=1),)),
]


def test_the_refusal_names_what_no_cycle_has_taken() -> None:
    other = replace(VIEW, topic_ids={"views": "B"})
    with pytest.raises(TopicRecreated) as refused:
        require_same(VIEW.noted, other, READ, CALLED, BATCHES)
    assert "no cycle has taken views-0: offsets 10 to 24, views-1: offsets 3 to 6, which may be of" in str(
        refused.value
    )
    with pytest.raises(TopicRecreated) as refused:
        require_same(VIEW.noted, other, READ, CALLED, BATCHES[2:])
    assert "no cycle" not in str(refused.value)


def test_a_topic_that_changes_while_it_is_read_stops_the_cycle_over_it() -> None:
    require_unchanged(VIEW, {"views": "A", "other": "B"}, CALLED, BATCHES)
    require_unchanged(VIEW, {}, CALLED, BATCHES)
    with pytest.raises(
        TopicRecreated, match=r"while it was read \(id A, now B\); no cycle has taken views-0: offsets 10 to 24"
    ):
        require_unchanged(VIEW, {"views": "B"}, CALLED, BATCHES)


# --- what is noted ---------------------------------------------------------------------------------------------------


def test_what_is_noted_is_read_back_as_it_was() -> None:
    gap = replace(VIEW, starts={("views", 2): 7}, leader_epochs={("views", 1): 0, ("users", 0): 3}).noted
    for noted in (VIEW.noted, gap, Noted()):
        assert Noted.from_details(noted.ids, json.loads(json.dumps(noted.details()))) == noted
    assert Noted.from_details(None, {}) == Noted(), "rows of older versions"
    assert Noted().details() == {}


def test_what_a_later_look_does_not_show_stays_noted() -> None:
    later = ClusterView({}, {AT: 5}, {"users": "U"}).noted
    assert VIEW.noted.then(later) == Noted({"views": "A", "users": "U"}, {AT: 4, OTHER: 1}, {AT: 5, OTHER: 0})


def test_a_run_that_cannot_compare_ids_says_why() -> None:
    assert warnings(VIEW) == []
    (told,) = warnings(replace(VIEW, unchecked="only Spark's client understands x"))
    assert told == (
        "topic ids are not compared, so a topic that was deleted and created again may go unnoticed: only Spark's client "
        "understands x"
    )


def test_a_look_at_some_topics_notes_those_alone() -> None:
    both = replace(VIEW, ends={**VIEW.ends, ("users", 0): 1}, topic_ids={"views": "A", "users": "U"}, unchecked="why")
    assert both.only(["views"]) == replace(VIEW, unchecked="why")
