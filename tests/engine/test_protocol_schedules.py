"""Schedules of the checker on the real engine: with the same guard removed it doubles or loses rows, too.

The checker (`tests/protocol`) finds a shortest schedule; what of it counts is named here (`steps`) and brought about by failpoints,
or by a statement that is held (`late`). The guard is removed by replacing the same function of `engine.protocol` under both.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import pytest
from tests.engine.guards import empty_append
from tests.engine.harness import facts
from tests.engine.late import BEFORE, PIPELINE, SOURCES, STATEMENTS, LakeBench, Shop, land, under_way
from tests.protocol.mutants import MUTANTS

from lakestreams.engine.driver import Driver
from lakestreams.engine.protocol import decisions
from lakestreams.engine.protocol.commands import Transaction
from lakestreams.engine.runtime import failpoints
from lakestreams.engine.runtime.failpoints import FailpointReached
from lakestreams.errors import Fenced
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.crash

More = dict[str, int]  # table to how many rows more it has than it should
Story = Callable[[Shop, pytest.MonkeyPatch, str], More]
ORDERS: Final = STATEMENTS[1]
SILVER: Final = "silver.named"


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with small(spark):
        yield Shop.opened(spark, tmp_path_factory.mktemp("shop"))


def more(shop: Shop, found: Mapping[str, Sequence[object]]) -> More:
    return {table: len(found[table]) - len(rows) for table, rows in shop.expected.items()}


# --- schedules -------------------------------------------------------------------------------------------------------


def landing(shop: Shop, monkeypatch: pytest.MonkeyPatch, name: str) -> More:
    """An older driver's append to bronze is under way while a newer one takes over, and commits behind its first read."""
    with contextlib.suppress(Fenced):  # it reads back what it has not written
        land(shop, monkeypatch, name, ORDERS, "in flight", "bronze.before")
    bench = LakeBench(shop.spark, shop.root / name, shop.root / "shop.yml")
    bench.run()
    return more(shop, facts(bench))


def without_rows(shop: Shop, monkeypatch: pytest.MonkeyPatch, name: str) -> More:
    """A driver crashes behind an append without rows; the next one's batch has the same number."""
    return more(shop, empty_append(shop, monkeypatch, name))


def crash_at(point: str) -> Story:
    """A driver crashes at a point, and the next one runs undisturbed."""

    def story(shop: Shop, monkeypatch: pytest.MonkeyPatch, name: str) -> More:
        bench = shop.copy(name)
        with monkeypatch.context() as patched:
            patched.setenv(failpoints.VARIABLE, point)
            with pytest.raises(FailpointReached):
                bench.run()
        with contextlib.suppress(Fenced):  # it reads back what it has not written
            bench.run()
        return more(shop, facts(bench))

    return story


def first_append_of_a_topic(shop: Shop, _: pytest.MonkeyPatch, name: str) -> More:
    """A driver that knew no batch has ingested customers alone; orders come, and their first append commits late."""
    root = shop.root / name
    root.mkdir()
    (root / "sources.yml").write_text(SOURCES.replace("shop.", f"{root}/tables/"))
    (root / "shop.yml").write_text(PIPELINE)

    def made(statement: str) -> None:
        shop.spark.sql(statement.replace("{", f"delta.`{root}/tables/").replace("}", "`"))

    *before, orders_come = BEFORE
    for statement in before:
        made(statement)
    bench = LakeBench(shop.spark, root / "lake", root / "shop.yml")
    older = Driver(shop.spark.newSession(), bench.topology, bench.lake, bench.settings())
    older.start()
    older.round()
    made(orders_come)
    with (
        pytest.MonkeyPatch.context() as patched,
        under_way(patched, ORDERS, "in flight", root, older.round) as (_, go_on),
    ):
        newer = bench.driver()
        newer.start()
        go_on()
        with contextlib.suppress(Fenced):  # it reads back what it has not written
            newer.round()
    bench.run()
    found = facts(bench)
    return {table: len(found[table]) - 1 for table in ("delta/orders", SILVER)}


@dataclass(frozen=True)
class Replay:
    """A guard, its schedule on the engine, and what is then doubled (more rows) or lost (fewer).

    Attributes:
        steps: what the checker's schedule has, in this order.
        removed: functions of the protocol as the engine is to have them, where they differ from the checker's.
    """

    mutant: str
    story: Story
    steps: tuple[str, ...]
    doubles: bool
    removed: dict[str, Callable[..., Any]] | None = None


def _a1(topic: str, epoch: int, seq: int) -> Transaction:
    """A topic's first append of a driver had the number of the batch behind those that the driver knew at its start."""
    return Transaction(f"bronze/{topic}", 1 if epoch == 1 else seq)


# An append of bronze is under way while another driver takes over, and commits behind its seals.
BESIDE: Final = ("begins beside: append ('a'", "raise epoch", "has sealed", "commits beside: append ('a'")
_fresh = itertools.count(1 << 60)
REPLAYS: Final = (
    Replay("fault A1", first_append_of_a_topic, BESIDE, doubles=True,
           removed={"of_batch": _a1, "sealed": lambda *_: ()}),
    Replay("bronze is not sealed", landing, BESIDE, doubles=True,
           removed={"sealed": lambda ledger, _, outputs, others: (ledger, *outputs, *others)}),
    Replay("bronze is not numbered by epoch", without_rows, ("to a as bronze/a 1 under epoch 1", "has sealed", "to a as bronze/a 1 under epoch 2"),
           doubles=False),
    Replay("nothing is recovered", crash_at("ingest.before"), ("commits beside: append ('a'", "has sealed", "commits beside: append ('a'"), doubles=True),
    Replay("an open plan is not repeated", crash_at("plan.after"), ("commits beside: append plan 1", "has sealed", "wait"),
           doubles=False),
    Replay("outputs are not numbered", crash_at(f"publish.after/{SILVER}"), ("to silver", "answer is lost", "to silver"),
           doubles=True, removed={"of_output": lambda name, _: Transaction(name, next(_fresh))}),
)  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("replay", REPLAYS, ids=lambda one: one.mutant)
def test_a_schedule_of_the_checker_breaks_the_engine_alike(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, replay: Replay
) -> None:
    one = MUTANTS[replay.mutant]
    schedule = iter(one.search().schedule)
    assert all(any(step in told for told in schedule) for step in replay.steps), "the schedule is another one"
    name = replay.mutant.replace(" ", "-")
    with one.removed() if replay.removed is None else patch.multiple(decisions, **replay.removed):
        found = replay.story(shop, monkeypatch, name)
    wrong = {table: extra for table, extra in found.items() if extra}
    print(f"{replay.mutant}: {wrong}")  # noqa: T201 - which tables
    assert wrong
    assert any((extra > 0) == replay.doubles for extra in wrong.values())
