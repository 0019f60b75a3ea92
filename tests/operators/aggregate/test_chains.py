"""Chains of joins and aggregations: no cut matters, and the final tables are what SQL makes of the final input.

DuckDB is the judge. It is given what the tables hold in the end and what the streams brought, and asked one query a
chain. Random histories over one to four partitions, each whole in one batch and cut twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.operators.aggregate.settings import VALUE, number
from tests.operators.wild import OUTPUT, History, Outcome, Setting, Wild, run

from lakestreams import StreamsBuilder, Text, agg
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SEED, COUNT = 20261121, 40
NUMBER = "try_cast(substr({}, 2) as bigint)"
TEXT = "coalesce(cast({} as varchar), '-')"


@pytest.fixture(scope="module", autouse=True)
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def text(of: Any) -> Any:
    return F.coalesce(of.cast("string"), F.lit("-"))


def totals(lines: Any, orders: Any) -> Any:
    """Lines of orders that are there, summed up by order; an order without lines has no total."""
    named = lines.join(orders, lambda line, order: {"of": number(line), "to": line.to, "b": order.a}, left_on="to")
    grouped = named.group_by(lambda one: {"k": one.to})
    return grouped.aggregate(
        lambda one: {"lines": agg.count(), "total": agg.sum(one.of), "most": agg.max(one.of)},
        empty="delete",
        name="totals",
    )


def order_totals(left: Any, right: Any) -> Any:
    made = totals(left, right).left_join(right, name="joined")
    both = lambda one: F.concat_ws("/", one.lines.cast("string"), one.total.cast("string"), text(one.most))  # noqa: E731
    return made.map_values(lambda one: {"left": both(one), "right": text(one.a)})


ORDER_TOTALS = f"""
    select r.k, count(*) || '/' || coalesce(sum({NUMBER.format("l.a")}), 0) || '/'
        || {TEXT.format(f"max({NUMBER.format('l.a')})")}, {TEXT.format("any_value(r.a)")}
    from l join r on l.refers_to = r.k group by r.k
"""


def counts_beside_rows(left: Any, right: Any) -> Any:
    counts = left.to_stream().filter(lambda one: one.a.isNotNull()).group_by(lambda one: {"k": one.to}).count(name="n")
    made = counts.outer_join(right, lambda mine, other: {"left": text(mine["count"]), "right": text(other.a)})
    return made.filter(lambda one: (one.left != "-") | (one.right != "-"))


COUNTS_BESIDE_ROWS = f"""
    select * from (
        select coalesce(c.k, r.k) k, {TEXT.format("c.n")} a, {TEXT.format("r.a")} b
        from (select refers_to k, count(*) n from events where a is not null and refers_to is not null group by all) c
        full join r on c.k = r.k
    ) where a <> '-' or b <> '-'
"""


def how_many_have_how_many(left: Any, right: Any) -> Any:
    del right
    sizes = left.group_by(lambda one: {"k": one.to}).aggregate(
        lambda one: {"size": agg.count(), "low": agg.min(number(one))}, empty="delete", name="sizes"
    )
    grouped = sizes.group_by(lambda one: ({"k": one["size"].cast("string")}, {"low": one.low}))
    made = grouped.aggregate(lambda one: {"many": agg.count(), "lowest": agg.min(one.low)}, empty="delete", name="many")
    return made.map_values(lambda one: {"left": text(one.many), "right": text(one.lowest)})


HOW_MANY_HAVE_HOW_MANY = f"""
    select cast(size as varchar), cast(count(*) as varchar), {TEXT.format("min(low)")} from (
        select count(*) size, min({NUMBER.format("a")}) low from l where refers_to is not null group by refers_to
    ) group by size
"""


def totals_of_totals(left: Any, right: Any) -> Any:
    """Join, aggregate, join, aggregate: totals of orders by where the orders point to."""
    made = totals(left, right).join(right, lambda mine, order: {"total": mine.total, "to": order.to}, name="joined")
    grouped = made.group_by(lambda one: {"k": one.to})
    summed = grouped.aggregate(lambda one: {"n": agg.count(), "all": agg.sum(one.total)}, empty="delete", name="all")
    return summed.map_values(lambda one: {"left": text(one.n), "right": text(one["all"])})


TOTALS_OF_TOTALS = f"""
    select refers_to, cast(count(*) as varchar), cast(sum(total) as varchar) from (
        select r.k, any_value(r.refers_to) refers_to, coalesce(sum({NUMBER.format("l.a")}), 0) total
        from l join r on l.refers_to = r.k group by r.k
    ) where refers_to is not null group by refers_to
"""

CHAINS: Mapping[str, tuple[Any, str]] = {
    "order totals": (order_totals, ORDER_TOTALS),
    "counts beside rows": (counts_beside_rows, COUNTS_BESIDE_ROWS),
    "how many have how many": (how_many_have_how_many, HOW_MANY_HAVE_HOW_MANY),
    "totals of totals": (totals_of_totals, TOTALS_OF_TOTALS),
}


def setting(name: str) -> Setting:
    builder = StreamsBuilder("chain")
    left, right = (builder.table(side, key=Text("k"), value=VALUE) for side in ("left", "right"))
    CHAINS[name][0](left, right).to_delta(OUTPUT)
    if name == "how many have how many":
        right.to_delta("unused")

    def no_page() -> Any:
        raise NotImplementedError(name)

    return Setting(name, builder.build(), no_page, ("left", "right"))


def told_by_sql(name: str, history: History) -> dict[str, tuple[str, str]]:
    sql = duckdb.connect()
    for table in ("l", "r", "events"):
        sql.execute(f"create table {table} (k varchar, a varchar, refers_to varchar)")
    rows: dict[str, dict[str, Any]] = {"left": {}, "right": {}}
    for event in history.events:
        if event.key is not None:
            rows[event.source].pop(event.key, None)
            if event.value is not None:
                rows[event.source][event.key] = event.value
                if event.source == "left":
                    sql.execute(
                        "insert into events values ($1, $2, $3)", [event.key, event.value["a"], event.value["to"]]
                    )
    for table, source in (("l", "left"), ("r", "right")):
        for key, value in rows[source].items():
            sql.execute(f"insert into {table} values ($1, $2, $3)", [key, value["a"], value["to"]])
    return {key: (one, other) for key, one, other in sql.execute(CHAINS[name][1]).fetchall()}


def table_of(outcome: Outcome) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for _, key, left, right, _, kind, _ in outcome.rows:
        if kind == "tombstone":
            found.pop(key, None)
        else:
            found[key] = (left, right)
    return found


def check(spark: SparkSession, count: int, steps: int, seed: object, some: slice = slice(None)) -> None:
    lots = [(setting(name), Wild().histories(count, f"{seed}/{name}")) for name in list(CHAINS)[some]]
    faults = []
    for one in run(spark, lots, steps=steps, seed=seed):
        whole: dict[int, Outcome] = {}
        seen = 0
        for history, ends, outcome in one.by_history():
            first = whole.setdefault(id(history), outcome)
            table, wanted = table_of(outcome), told_by_sql(one.setting.name, history)
            seen += bool(wanted)
            if outcome.rows != first.rows:
                faults.append(f"{one.setting.name}: cut {ends} is not one batch\n{history.shown()}")
            if table != wanted:
                shown = f"expected {json.dumps(wanted)}\ngot      {json.dumps(table)}"
                faults.append(f"{one.setting.name}, cut {ends}\n{shown}\n{history.shown()}")
        assert seen > count, "the histories have something to show"
    assert not faults, f"seed {seed}: {len(faults)} faults\n" + min(faults, key=len)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("place", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_every_chain(spark: SparkSession, place: int) -> None:
    check(spark, COUNT, 2, SEED, slice(place, None, 2))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number_of_run", range(3))
def test_every_chain_for_long(spark: SparkSession, number_of_run: int) -> None:
    seed = SEED + 1 + number_of_run
    print(f"seed {seed}")  # noqa: T201  # shown by pytest -s
    check(spark, 200, 4, seed)
