"""The jobs as the crash tests run them: a topology each, old data, and new data that arrives before a restart."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import SILVER, ZERO

from lakestreams import Json, StreamsBuilder, Text, Topology, agg, invariants

Record = tuple[str | None, str | bytes | None, int]
USERS = 12


@dataclass(frozen=True)
class Job:
    """A job under test.

    Attributes:
        topics: what it reads.
        build: its topology on topics of these names, in that order.
        old, new: the records of each topic.
    """

    name: str
    topics: tuple[str, ...]
    build: Callable[..., Topology]
    old: Callable[[], Mapping[str, Sequence[Record]]]
    new: Callable[[], Mapping[str, Sequence[Record]]]


# --- enrichment ------------------------------------------------------------------------------------------------------


def page_views(views: str, users: str) -> Topology:
    """Views with their user's region; some views and profiles are not as expected."""
    builder = StreamsBuilder("page_views")
    stream = builder.stream(views, key=Text("user"), value=Text("page"))
    table = builder.table(users, key=Text("user"), value=Text("region"))
    stream.expect("short", "length(page) < 4").expect_or_drop("not_eleven", "page != '/11'")
    table.expect_or_drop("not_r30", "region != 'r30'")
    joined = stream.left_join(
        table,
        lambda view, user: {"page": view.page, "region": F.coalesce(user.region, F.lit("<unknown>"))},
        name="joined",
    )
    joined.expect_or_drop("not_77", "page != '/77'")
    joined.to_delta(SILVER).expect("known", "region != '<unknown>'")
    return builder.build()


def _old_views() -> dict[str, list[Record]]:
    """Views and profiles with updates, tombstones and bad records; event times ascend but for a few."""
    chance = random.Random(7)
    views: list[Record] = []
    users: list[Record] = []
    for number in range(90):
        user = f"u{chance.randrange(USERS)}"
        late = chance.choice([0, 0, 0, 15])
        views.append((user, f"/{number}", ZERO + 10 * number + 5 - late))
        if number % 3 == 0:
            users.append((user, None if number % 12 == 0 else f"r{number}", ZERO + 10 * number))
    views.insert(20, ("u1", b"\xff\xfe", ZERO + 100))
    views.insert(40, ("u1", None, ZERO + 200))
    users.insert(10, (None, "nobody", ZERO + 100))
    return {"PageViews": views, "UserProfiles": users}


def _new_views() -> dict[str, list[Record]]:
    """Dated after all old data."""
    return {
        "PageViews": [(f"u{number % USERS}", f"/new{number}", ZERO + 5_000 + number) for number in range(10)],
        "UserProfiles": [(f"u{number}", f"new{number}", ZERO + 4_990 + number) for number in range(5)],
    }


# --- correlation -----------------------------------------------------------------------------------------------------


def order_payments(orders: str, payments: str) -> Topology:
    """An outer join with grace, whose unmatched rows wait, and a table of counts made of its rows."""
    builder = StreamsBuilder("order_payments")
    left = builder.stream(orders, key=Text("order_id"), value=Text("amount"), name="orders")
    right = builder.stream(payments, key=Text("order_id"), value=Text("reference"), name="payments")
    left.expect("even", "cast(amount as int) % 2 = 0")
    right.expect_or_drop("not_the_tenth", "not endswith(reference, '0')")
    both = left.outer_join(right, within="100 ms", grace="20 ms", name="both")
    both.expect_or_drop("not_p51", "reference is null or reference != 'p51'").expect("paid", "reference is not null")
    both.to_delta("silver.order_payments")
    counted = both.group_by_key().count(name="results")
    counted.to_delta("silver.results_per_order")
    return builder.build()


def _old_orders() -> dict[str, list[Record]]:
    """Most orders are paid in time, some late, some never; records come out of order, a few too late for any window."""
    chance = random.Random(11)
    orders: list[Record] = []
    payments: list[Record] = []
    for number in range(80):
        time = ZERO + 20 * number
        orders.append((f"o{number}", str(number), max(1, time - chance.choice([0, 0, 0, 15, 400]))))
        if number % 4:
            payments.append((f"o{number}", f"p{number}", time + chance.choice([5, 40, 99, 100, 101, 300])))
    payments.sort(key=lambda one: one[2] + chance.randrange(60))
    orders.insert(30, ("o30", b"\xff", ZERO + 500))
    payments.insert(20, (None, "p?", ZERO + 400))
    orders.insert(50, ("o50", None, ZERO + 900))
    return {"Orders": orders, "Payments": payments}


def _new_orders() -> dict[str, list[Record]]:
    return {
        "Orders": [(f"n{number}", "1", ZERO + 5_000 + 10 * number) for number in range(10)],
        "Payments": [(f"n{number}", f"q{number}", ZERO + 5_050 + 30 * number) for number in range(8)],
    }


# --- foreign keys ----------------------------------------------------------------------------------------------------


def customer_orders(orders: str, customers: str) -> Topology:
    """A foreign-key join into a merged table and a change log, and totals of its rows into another merged table."""
    builder = StreamsBuilder("customer_orders")
    left = builder.table(orders, key=Text("order_id"), value=Json("customer string, amount bigint"), name="orders")
    right = builder.table(customers, key=Text("customer_id"), value=Text("name"), name="customers")
    left.expect("has_customer", "customer is not null").expect_or_drop("not_too_much", "amount < 95")
    named = left.left_join(
        right,
        lambda order, customer: {"customer": order.customer, "amount": order.amount, "name": customer.name},
        left_on=lambda order: order.customer,
        name="named",
    )
    named.to_delta("silver.named_orders")
    named.to_delta("silver.named_order_changes", mode="changes").expect_or_drop("named", "name is not null")
    named.holds(invariants.ForeignKeyExists())
    totals = named.group_by(lambda row: {"name": F.coalesce(row.name, F.lit("?"))}).aggregate(
        lambda row: {"amount": agg.sum(row.amount), "most": agg.max(row.amount)}, name="totals"
    )
    totals.to_delta("silver.totals_per_name")
    return builder.build()


def _old_rows() -> dict[str, list[Record]]:
    """Orders that are placed, moved to another customer and deleted; customers that come, change their name and go."""
    chance = random.Random(13)
    orders: list[Record] = []
    customers: list[Record] = []
    for number in range(80):
        time = ZERO + 20 * number
        customer, amount = f"c{chance.randrange(6)}", chance.randrange(100)
        value = f'{{"customer": "{customer}", "amount": {amount}}}'
        orders.append((f"o{chance.randrange(25)}", None if number % 9 == 8 else value, time))
        if number % 4 == 0:
            customers.append((f"c{chance.randrange(6)}", None if number % 16 == 8 else f"n{number}", time - 5))
    gone = ZERO + 20 * 80
    orders += [(f"o{number}", None, gone + number) for number in (3, 7, 20)]  # these do not come again
    orders.insert(10, ("o1", b"{", ZERO + 150))
    customers.insert(5, (None, "nobody", ZERO + 300))
    return {"OrderRows": orders, "Customers": customers}


def _new_rows() -> dict[str, list[Record]]:
    return {
        "OrderRows": [(f"o{number}", '{"customer": "c1", "amount": 7}', ZERO + 5_000 + number) for number in range(5)],
        "Customers": [(f"c{number}", f"new{number}", ZERO + 4_990 + number) for number in range(4)],
    }


# --- records that wait, beside every kind of output ------------------------------------------------------------------


def races(views: str, users: str) -> Topology:
    """Views that wait for their user's profile, or are put right by it; the profiles merged, and as a change log."""
    builder = StreamsBuilder("races")
    stream = builder.stream(views, key=Text("user"), value=Text("page"))
    table = builder.table(users, key=Text("user"), value=Text("region"))
    table.to_delta("silver.users", change_feed=True)
    table.to_delta("silver.user_changes", mode="changes")
    stream.join(table, wait="200 ms", name="waited").to_delta("silver.waited")
    stream.left_join(table, amend="200 ms", name="amended").to_delta("silver.amended")
    return builder.build()


def _old_races() -> dict[str, list[Record]]:
    """Profiles that come, change and go; of the last views some wait, for a profile or in vain."""
    users = [(f"u{number % 6}", None if number % 5 == 4 else f"r{number}", ZERO + 20 * number) for number in range(30)]
    views = [(f"u{number % 9}", f"/{number}", ZERO + 10 * number) for number in range(60)]
    return {"PageViews": views, "UserProfiles": users}


def _new_races() -> dict[str, list[Record]]:
    """Profiles for some of those who wait, a change and a deletion of others, and a view long after."""
    profiles = [("u6", "late"), ("u7", "late"), ("u0", "changed"), ("u1", None), ("u2", None)]
    users = [(user, region, ZERO + 600 + number) for number, (user, region) in enumerate(profiles)]
    return {"PageViews": [("u6", "/new", ZERO + 5_000)], "UserProfiles": users}


RACES = Job("races", ("PageViews", "UserProfiles"), races, _old_races, _new_races)

JOBS = {
    job.name: job
    for job in (
        Job("enrichment", ("PageViews", "UserProfiles"), page_views, _old_views, _new_views),
        Job("correlation", ("Orders", "Payments"), order_payments, _old_orders, _new_orders),
        Job("fk_join", ("OrderRows", "Customers"), customer_orders, _old_rows, _new_rows),
    )
}
