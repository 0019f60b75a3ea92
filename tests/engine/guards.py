"""The protocol with one of its guards removed: each loses or doubles something, or stops the newer driver (`test_late_statements`).

`pytest -s` prints which story shows which mutant. Outputs and quarantine have two guards that stand for each other as long as the
configuration stays (a number and a fence); what one of them alone is for is shown in `test_taken_over`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.engine.harness import claimed, facts
from tests.engine.late import STATEMENTS, Shop, Statement, answers_lost, assert_told_once, land

from lakestreams.engine.ingest.idempotent_append import append_once
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.protocol import decisions
from lakestreams.engine.protocol.commands import Transaction
from lakestreams.engine.runtime.table import Table
from lakestreams.errors import LakestreamsError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Facts = dict[str, list[tuple[Any, ...]]]
Patch = Callable[[pytest.MonkeyPatch], None]

CUSTOMERS, ORDERS = STATEMENTS[0], STATEMENTS[1]
LEDGER: Final = "_lakestreams.ledger"


# --- guards that are removed -----------------------------------------------------------------------------------------


def unsealed(name: str) -> Patch:
    """A takeover does not seal this table."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        seal = Table.seal
        monkeypatch.setattr(Table, "seal", lambda self, *given: None if self.name == name else seal(self, *given))

    return patch


def unfenced(module: str) -> Patch:
    """Statements of this room are not fenced."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        fence = Ledger.fence

        def passing(self: Ledger, spark: SparkSession, rows: DataFrame) -> DataFrame:
            made_in = sys._getframe(1).f_globals["__name__"]
            return rows if made_in == f"lakestreams.engine.{module}" else fence(self, spark, rows)

        monkeypatch.setattr(Ledger, "fence", passing)

    return patch


def unnumbered(name: str) -> Patch:
    """Each append to this table has a transaction of its own, a repeated one too."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        append, count = Table.append, iter(range(1 << 60, 1 << 61))

        def fresh(self: Table, rows: DataFrame, application: str, version: int) -> bool:
            return append(self, rows, application, next(count) if self.name == name else version)

        monkeypatch.setattr(Table, "append", fresh)

    return patch


def without_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch's append has the batch's number alone."""
    monkeypatch.setattr(decisions, "of_batch", lambda topic, _, seq: Transaction(f"bronze/{topic}", seq))


# --- stories that show it --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Landing:
    """An older driver's statement lands at a point of the newer one."""

    statement: Statement
    how: str
    point: str

    def __call__(self, shop: Shop, monkeypatch: pytest.MonkeyPatch, name: str) -> Facts:
        return land(shop, monkeypatch, name, self.statement, self.how, self.point)[0]

    def __str__(self) -> str:
        return f"{self.statement} {self.how}, landing at {self.point}"


def lost_answers(shop: Shop, monkeypatch: pytest.MonkeyPatch, name: str) -> Facts:
    """Each statement is made twice."""
    bench = shop.copy(name)
    with answers_lost(monkeypatch):
        bench.run()
    assert_told_once(bench)
    return facts(bench)


def empty_append(shop: Shop, monkeypatch: pytest.MonkeyPatch, name: str) -> Facts:
    """A driver has appended a batch without rows and fallen before it was closed; the next one has rows."""
    bench = shop.copy(name)
    (source,) = (one for one in bench.topology.sources if one.name == "orders")
    table = bench.lake.bronze("shop", source.topic)
    last = bench.ledger().where("kind = 'ingest'").agg({"seq": "max"}).first()
    assert last is not None
    fallen = bench.driver()
    ledger = fallen.setup.ledger
    ledger = claimed(shop.spark, ledger, "fallen", ledger.history(shop.spark), fallen.setup.configured)
    nothing = table.read(shop.spark).where("false")
    append_once(shop.spark, ledger, source.topic, nothing, decisions.of_batch(source.topic, ledger.epoch, last[0] + 1))
    bench.run()
    return facts(bench)


Story = Callable[[Shop, pytest.MonkeyPatch, str], Facts]
MUTANTS: Final[dict[str, tuple[Patch, Story]]] = {
    "bronze is not numbered by epoch": (without_epoch, empty_append),
    "bronze is not sealed": (unsealed(ORDERS.table), Landing(ORDERS, "in flight", "bronze.before")),
    "bronze is not fenced": (unfenced("ingest.idempotent_append"), Landing(ORDERS, "paused", "bronze.before")),
    "the ledger is not sealed, a batch": (unsealed(LEDGER), Landing(Statement(LEDGER, "ingest"), "in flight", "ingest.before")),
    "the ledger is not sealed, a plan": (unsealed(LEDGER), Landing(Statement(LEDGER, "plan"), "in flight", "plan.before")),
    "the ledger is not fenced, a plan": (unfenced("ledger.ledger"), Landing(Statement(LEDGER, "plan"), "paused", "plan.before")),
    **{
        f"{name} has no transaction": (unnumbered(name), lost_answers)
        for name in (ORDERS.table, LEDGER, "silver.named", "_lakestreams.quarantine", "_lakestreams.events")
    },
}  # fmt: skip
# In `make test`; there `tests/protocol` removes the guards of bronze, the ledger and outputs from the same functions.
SAMPLE_OF_MUTANTS: Final = ("bronze is not numbered by epoch",)


def assert_found_wrong(shop: Shop, monkeypatch: pytest.MonkeyPatch, mutant: str) -> None:
    """The story of a mutant shows it."""
    patch, story = MUTANTS[mutant]
    shown = str(story) if isinstance(story, Landing) else str(story.__doc__)
    name = f"mutant-{list(MUTANTS).index(mutant)}"
    with monkeypatch.context() as patched:
        patch(patched)
        try:
            found = story(shop, patched, name)
        except (
            LakestreamsError,
            AssertionError,
        ) as error:  # it is stopped by what it should not have met, or told it twice
            print(f"{mutant}: killed by: {shown}: {type(error).__name__}")  # noqa: T201 - which story shows it
            return
    wrong = [table for table, rows in shop.expected.items() if found[table] != rows]
    print(f"{mutant}: killed by: {shown}: {', '.join(wrong)}")  # noqa: T201 - which story shows it
    assert wrong, f"{mutant}: nothing has shown it"
