"""Which commits of a table are ours, and what a RESTORE takes back; no Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from lakestreams.engine.runtime.commits import Commit, changed_by_others, holds, newest_property
from lakestreams.engine.runtime.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIM = '["(((attempt#1 > 0) AND (seq#2L < 3)) OR ((attempt#1 = 0) AND (offset#3L < 9)))"]'
DEDUPED = '["(((partition#1 = partition#0) AND (offset#2L = offset#1L)) AND (attempt#3 = attempt#2))"]'
GONE = '[{"predicate":"((_lineage#1.cycle < _lineage#2.cycle) AND _gone#3)","actionType":"delete"}]'

HARMLESS = ("OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "CLUSTER BY", "ADD COLUMNS", "COMPUTE STATS",
            "REORG", "AUTO COMPACTION")  # fmt: skip
OURS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("WRITE", {"mark": "lakestreams shop/silver.named 7"}),
    ("MERGE", {"parameters": {"matchedPredicates": GONE, "predicate": '["(id#1 <=> id#2)"]'}}),
    ("MERGE", {"parameters": {"matchedPredicates": '[{"actionType":"delete"}]', "predicate": DEDUPED}}),
    ("DELETE", {"parameters": {"predicate": TRIM}}),
)
OTHERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("WRITE", {}),
    ("WRITE", {"mark": "nightly load", "parameters": {"mode": "Overwrite"}}),
    ("DELETE", {"parameters": {"predicate": '["true"]'}}),
    ("DELETE", {"parameters": {"predicate": '["(user#1 = alice)"]'}}),
    ("UPDATE", {"parameters": {"predicate": '["(user#1 = alice)"]'}}),
    ("MERGE", {"parameters": {"matchedPredicates": '[{"actionType":"update"}]', "predicate": '["(id#1 = id#2)"]'}}),
    ("TRUNCATE", {}),
    ("CREATE OR REPLACE TABLE AS SELECT", {}),
    ("CREATE OR REPLACE TABLE", {}),
    ("CREATE TABLE", {}),
    ("CLONE", {}),
    ("COPY INTO", {}),
    ("STREAMING UPDATE", {}),
    ("FSCK", {}),
    ("DROP COLUMNS", {}),
    ("RENAME COLUMN", {}),
    ("something that a later Delta does", {}),
    ("RESTORE", {"parameters": {"version": "2", "timestamp": None}}),
    ("RESTORE", {"parameters": {"version": None, "timestamp": "2026-01-01"}}),
)


def history(*commits: tuple[str, dict[str, Any]], first: int = 5) -> list[Commit]:
    return [Commit(first + place, name, **more) for place, (name, more) in enumerate(commits)]


def restored(version: int) -> tuple[str, dict[str, Any]]:
    return "RESTORE", {"parameters": {"version": str(version), "timestamp": None}}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_changes_no_row_is_let_pass(name: str) -> None:
    assert changed_by_others(history((name, {}), OURS[0], (name, {})), 4) is None


@pytest.mark.parametrize("one", OURS, ids=lambda one: str(one)[:40])
def test_our_own_commits_are_let_pass(one: tuple[str, dict[str, Any]]) -> None:
    assert changed_by_others(history(one, ("OPTIMIZE", {}), one), 4) is None


@pytest.mark.parametrize("one", OTHERS, ids=lambda one: str(one)[:60])
def test_a_change_by_others_is_told_with_the_version_before_it(one: tuple[str, dict[str, Any]]) -> None:
    found = changed_by_others(history(OURS[0], one, ("OPTIMIZE", {})), 4)
    assert found is not None
    assert (found.commit.version, found.commit.operation, found.good) == (6, one[0], 5)


@pytest.mark.parametrize("one", OTHERS, ids=lambda one: str(one)[:60])
def test_a_change_by_others_before_the_recorded_version_is_passed_over(one: tuple[str, dict[str, Any]]) -> None:
    assert changed_by_others(history(one, OURS[0]), 5) is None


@pytest.mark.parametrize("one", OTHERS, ids=lambda one: str(one)[:60])
def test_a_restore_to_the_version_before_takes_any_change_back(one: tuple[str, dict[str, Any]]) -> None:
    assert changed_by_others(history(OURS[0], one, ("SET TBLPROPERTIES", {}), restored(5)), 4) is None
    assert changed_by_others(history(OURS[0], one, restored(5), OURS[0], ("OPTIMIZE", {})), 4) is None


def test_a_restore_takes_nothing_back_that_leads_elsewhere_or_loses_our_rows() -> None:
    bad = ("DELETE", {"parameters": {"predicate": '["true"]'}})
    to_the_bad_one = changed_by_others(history(OURS[0], bad, restored(6)), 4)
    before_what_was_known = changed_by_others(history(OURS[0], bad, restored(3)), 4)
    before_our_rows = changed_by_others(history(OURS[0], bad, restored(4)), 4)
    assert to_the_bad_one is not None
    assert before_what_was_known is not None
    assert before_our_rows is not None
    assert (to_the_bad_one.good, before_what_was_known.good, before_our_rows.good) == (5, 5, 5)
    assert changed_by_others(history(OURS[0], bad, restored(4), restored(5)), 4) is None, "and then to the good one"


def test_rows_of_ours_behind_a_change_leave_no_version_to_go_back_to() -> None:
    found = changed_by_others(history(OURS[0], OTHERS[0], OURS[0]), 4)
    assert found is not None
    assert found.good is None
    again = changed_by_others(history(OURS[0], OTHERS[0], OURS[0], restored(5)), 4)
    assert again is not None


def test_a_restore_without_another_change_loses_our_rows() -> None:
    found = changed_by_others(history(OURS[0], OURS[0], restored(5)), 4)
    assert found is not None
    assert found.good == 6
    assert changed_by_others(history(OURS[0], ("OPTIMIZE", {}), restored(5)), 4) is None, "nothing was lost"


def test_commits_that_the_history_lacks_are_not_judged() -> None:
    commits = [Commit(9, "WRITE", mark="lakestreams p 1"), Commit(12, "WRITE")]
    found = changed_by_others(commits, 3)
    assert found is not None
    assert (found.commit.version, found.good) == (12, 9)


def test_a_property_is_what_it_was_set_to_last() -> None:
    def set_to(value: str) -> tuple[str, dict[str, Any]]:
        return "SET TBLPROPERTIES", {"parameters": {"properties": f'{{"lakestreams.sealed.shop":"{value}"}}'}}

    commits = history(set_to("3"), OURS[0], set_to("4"), ("SET TBLPROPERTIES", {"parameters": {"properties": None}}))
    assert newest_property(commits, "lakestreams.sealed.shop") == "4"
    assert newest_property(commits[3:], "lakestreams.sealed.shop") is None
    assert newest_property(commits, "lakestreams.sealed.other") is None


def logged(folder: Path, first: int, *operations: str) -> Table:
    """A table of whose log these commits are left; each has the mark `ours`."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    for version, operation in enumerate(operations, first):
        info = {"commitInfo": {"operation": operation, "operationParameters": {}, "userMetadata": "ours"}}
        (log / f"{version:020}.json").write_text(json.dumps(info))
    return Table("t", "t", str(folder))


@pytest.mark.parametrize(
    ("first", "operations", "known"),
    [
        (0, ("WRITE", "VACUUM START", "VACUUM END"), True),
        (0, ("CREATE OR REPLACE TABLE AS SELECT", "OPTIMIZE"), True),
        (0, ("WRITE", *["VACUUM END"] * 60), True),
        (0, ("CREATE TABLE", "OPTIMIZE"), False),
        (0, ("WRITE", "DELETE"), False),
        (40, ("WRITE", "OPTIMIZE"), True),
        (40, ("OPTIMIZE", "DELETE"), False),
    ],
)
def test_a_table_holds_what_was_written_last(
    tmp_path: Path, first: int, operations: Sequence[str], known: bool
) -> None:
    table = logged(tmp_path, first, *operations)
    assert holds(cast("SparkSession", None), table, "ours", or_older=True) is known
    assert holds(cast("SparkSession", None), table, "ours") is known
    assert not holds(cast("SparkSession", None), table, "another's", or_older=True)


def test_what_was_written_before_the_history_begins_may_hold(tmp_path: Path) -> None:
    """Delta keeps a log for 30 days; a pipeline that stores seldom, or stands still, is older."""
    table = logged(tmp_path, 12, *["VACUUM START", "VACUUM END"] * 30)
    assert holds(cast("SparkSession", None), table, "ours", or_older=True)
    assert not holds(cast("SparkSession", None), table, "ours"), "who can make it anew does"
