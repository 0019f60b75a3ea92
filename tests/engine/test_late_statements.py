"""Whatever an older driver still has on its way lands before a newer one reads, or not at all; and no guard of that is idle."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

import pytest
from tests.engine.guards import MUTANTS, SAMPLE_OF_MUTANTS, assert_found_wrong, empty_append
from tests.engine.harness import facts
from tests.engine.late import (
    POINTS,
    STATEMENTS,
    LakeBench,
    Shop,
    Statement,
    answers_lost,
    assert_told_once,
    land,
    stopped,
)

from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.crash

EARLY = ("epoch.before", "epoch.after")  # the fence is not raised: what lands then is the older driver's right
EVERY = [(one, how, point) for one, how, point in product(STATEMENTS, ("in flight", "paused"), POINTS)]
# Of an output in the normal lane; all of them in `make soak`. `test_two_drivers` has one of bronze, and stops a row of the ledger
# by a seal.
SAMPLE = [(STATEMENTS[4], "paused", POINTS[7])]


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with small(spark):
        yield Shop.opened(spark, tmp_path_factory.mktemp("shop"))


def _check(shop: Shop, monkeypatch: pytest.MonkeyPatch, statement: Statement, how: str, point: str) -> None:
    name = f"{statement}-{how}-{point}".replace("/", "-").replace(" ", "-")
    found, raised = land(shop, monkeypatch, name, statement, how, point)
    for table, rows in shop.expected.items():
        assert found[table] == rows, table
    assert_told_once(LakeBench(shop.spark, shop.root / name, shop.root / "shop.yml"))
    if point not in EARLY:
        # The last statement of a run may find that the newer driver has told the same: Delta skips it, and nothing is left.
        assert stopped(raised) or (statement.table == "_lakestreams.events" and not raised), raised


@pytest.mark.parametrize(("statement", "how", "point"), SAMPLE, ids=str)
def test_a_statement_that_lands_beside_a_newer_driver_changes_no_table(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, statement: Statement, how: str, point: str
) -> None:
    _check(shop, monkeypatch, statement, how, point)


@pytest.mark.soak
@pytest.mark.parametrize(("statement", "how", "point"), [one for one in EVERY if one not in SAMPLE], ids=str)
def test_a_statement_that_lands_at_any_other_point_changes_no_table(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, statement: Statement, how: str, point: str
) -> None:
    _check(shop, monkeypatch, statement, how, point)


def test_statements_whose_answers_are_lost_are_made_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = shop.copy("lost")
    with answers_lost(monkeypatch) as made:
        bench.run()
    assert {one.table for one in STATEMENTS} <= set(made)
    assert_told_once(bench)
    found = facts(bench)
    for table, rows in shop.expected.items():
        assert found[table] == rows, table


# --- with one guard removed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mutant", SAMPLE_OF_MUTANTS)
def test_a_protocol_without_one_of_its_guards_is_found_wrong(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, mutant: str
) -> None:
    assert_found_wrong(shop, monkeypatch, mutant)


@pytest.mark.soak
@pytest.mark.parametrize("mutant", [one for one in MUTANTS if one not in SAMPLE_OF_MUTANTS])
def test_a_protocol_without_any_other_of_its_guards_is_found_wrong(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, mutant: str
) -> None:
    assert_found_wrong(shop, monkeypatch, mutant)


@pytest.mark.soak  # beside its mutant; a batch without rows and the next one are in test_faults
def test_the_story_of_an_empty_append_is_right_where_no_guard_is_removed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the other mutants are the tests above."""
    found = empty_append(shop, monkeypatch, "whole-empty-append")
    for table, rows in shop.expected.items():
        assert found[table] == rows, table
