"""The three works that contenders are measured by: what is loaded, what is joined, and what must come out.

Each is the same for every contender: a stream with a table (`enrichment`), two streams in a window (`correlation`), two
tables by a foreign key (`foreign_key`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.data import customers, fk_orders, orders, payments, profiles, views
from lakestreams import Json, StreamsBuilder, Text

if TYPE_CHECKING:
    from bench import kafka_streams
    from lakestreams import Topology

Records = Iterable[tuple[Any, ...]]  # what Broker.produce takes
VIEW: Final = "ms bigint, page string, session string, referrer string"
PROFILE: Final = "region string, plan string, since bigint"
ORDER: Final = "amount int, ms bigint"
PAYMENT: Final = "method string, ms bigint"
FK_ORDER: Final = "customer string, amount int"
CUSTOMER: Final = "name string, tier string"
WITHIN: Final = "5 minutes"


@dataclass(frozen=True)
class Work:
    """One join and its input.

    Attributes:
        name: what it is called, by the contenders too.
        size: how many records its larger topic has at scale 1.
        topics: topic to the columns of its value, and its records for so many of the larger topic's; in the order in
            which they are loaded.
        value: columns of a result's JSON value.
        key: name of the key's column in our output.
        newest: whether only the last result of each key counts (a table), or every one (a stream).
        topology: the pipeline; with `join` false its floor, which copies one side.
        copied: the topic that the floor copies.
        answer: the rows that must come out, as SQL over views of its topics with `key`, `time_ms`, `at` (the order of a
            partition) and the value's columns. No engine of ours, no state, no order but that of a partition.
        flink: what Flink inserts, as SQL over its topics with `event_time` and the columns that key and value have here.
    """

    name: kafka_streams.Work
    size: int
    topics: dict[str, tuple[str, Callable[[int], Records]]]
    value: str
    key: str
    newest: bool
    topology: Callable[[bool], Topology]
    copied: str
    answer: str
    flink: str

    @property
    def columns(self) -> list[str]:
        """Names of the value's columns."""
        return [one.split()[0] for one in self.value.split(", ")]


def _enrichment(join: bool) -> Topology:
    builder = StreamsBuilder("bench_enrichment" if join else "floor_enrichment")
    stream = builder.stream("views", key=Text("user"), value=Json(VIEW))
    table = builder.table("profiles", key=Text("user"), value=Json(PROFILE))
    if join:
        rows = stream.left_join(
            table, lambda view, user: {"ms": view.ms, "page": view.page, "region": user.region, "plan": user.plan}
        )
    else:
        rows = stream.map_values(
            lambda view: {"ms": view.ms, "page": view.page, "session": view.session, "referrer": view.referrer}
        )
    rows.to_delta("silver.enrichment" if join else "silver.floor")
    return builder.build()


def _correlation(join: bool) -> Topology:
    builder = StreamsBuilder("bench_correlation" if join else "floor_correlation")
    left = builder.stream("orders", key=Text("order_id"), value=Json(ORDER))
    right = builder.stream("payments", key=Text("order_id"), value=Json(PAYMENT))
    if join:
        rows = left.left_join(
            right,
            lambda order, payment: {"amount": order.amount, "method": payment.method},
            within=WITHIN,
            grace="0 minutes",
        )
    else:
        rows = left.map_values(lambda order: {"amount": order.amount, "ms": order.ms})
    rows.to_delta("silver.correlation" if join else "silver.floor")
    return builder.build()


def _foreign_key(join: bool) -> Topology:
    builder = StreamsBuilder("bench_foreign_key" if join else "floor_foreign_key")
    left = builder.table("fk_orders", key=Text("order_id"), value=Json(FK_ORDER))
    right = builder.table("customers", key=Text("customer_id"), value=Json(CUSTOMER))
    if join:
        rows = left.left_join(
            right,
            lambda order, customer: {
                "customer": order.customer, "amount": order.amount, "name": customer.name, "tier": customer.tier,
            },
            left_on=lambda order: order.customer,
        )  # fmt: skip
    else:
        rows = left.map_values(lambda order: {"customer": order.customer, "amount": order.amount})
    rows.to_delta("silver.foreign_key" if join else "silver.floor")
    return builder.build()


WORKS: Final[dict[str, Work]] = {
    work.name: work
    for work in (
        Work(
            "enrichment",
            4_000_000,
            {
                "profiles": (PROFILE, lambda count: profiles(max(1, count // 10))),
                "views": (VIEW, lambda count: views(count, max(1, count // 10))),
            },
            "ms bigint, page string, region string, plan string",
            "user",
            False,
            _enrichment,
            "views",
            "select v.key, v.ms, v.page, p.region, p.plan from views v left join profiles p on v.key = p.key",
            "SELECT v.`user`, v.`ms`, v.`page`, p.`region`, p.`plan` FROM `views` AS v "
            "LEFT JOIN `profiles` FOR SYSTEM_TIME AS OF v.event_time AS p ON v.`user` = p.`user`",
        ),
        Work(
            "correlation",
            2_000_000,
            {"orders": (ORDER, orders), "payments": (PAYMENT, payments)},
            "amount int, method string",
            "order_id",
            False,
            _correlation,
            "orders",
            "select o.key, o.amount, p.method from orders o left join payments p on o.key = p.key "
            "and abs(o.time_ms - p.time_ms) <= 300000",
            "SELECT o.`order_id`, o.`amount`, p.`method` FROM `orders` AS o LEFT JOIN `payments` AS p "
            "ON o.`order_id` = p.`order_id` AND p.event_time BETWEEN "
            "o.event_time - INTERVAL '5' MINUTE AND o.event_time + INTERVAL '5' MINUTE",
        ),
        Work(
            "foreign_key",
            1_000_000,
            {"customers": (CUSTOMER, lambda _: customers()), "fk_orders": (FK_ORDER, fk_orders)},
            "customer string, amount int, name string, tier string",
            "order_id",
            True,
            _foreign_key,
            "fk_orders",
            "select o.key, o.customer, o.amount, c.name, c.tier from fk_orders o left join "
            "(select key, max_by(name, at) as name, max_by(tier, at) as tier from customers group by key) c "
            "on o.customer = c.key",
            "SELECT o.`order_id`, o.`customer`, o.`amount`, c.`name`, c.`tier` FROM `fk_orders` AS o "
            "LEFT JOIN `customers` AS c ON o.`customer` = c.`customer_id` ON CONFLICT DO DEDUPLICATE",
        ),
    )
}
