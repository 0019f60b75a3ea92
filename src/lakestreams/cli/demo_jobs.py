"""The demo's second half: the jobs `correlation` and `fk_join` on a few orders, and what became of one of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakestreams.cli.screen import Screen, table
from lakestreams.cli.why import show
from lakestreams.run.options import FileOptions, LakeOptions, RunOptions
from lakestreams.run.runner import load, prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker
    from lakestreams.run.runner import Job

ZERO_MS: Final = 1_700_000_000_000
MINUTE_MS: Final = 60_000
SOURCES: Final = """\
kafka:
  bootstrap_servers: {servers}

topics:
  PlacedOrders: {{kind: stream, topic: Orders, key: {{text: order_id}}, value: {{json: "customer_id string, amount int"}}}}
  Payments: {{kind: stream, key: {{text: order_id}}, value: {{json: "reference string"}}}}
  Orders: {{kind: table, key: {{text: order_id}}, value: {{json: "customer_id string, amount int"}}}}
  Customers: {{kind: table, key: {{text: customer_id}}, value: {{json: "name string"}}}}
"""
CORRELATION: Final = """\
pipeline: order_payments

steps:
  with_reference:
    left_join: {left: PlacedOrders, right: Payments, within: 5 minutes}
    select:
      amount: PlacedOrders.amount
      reference: coalesce(Payments.reference, 'PENDING')

outputs:
  silver.order_payments: {from: with_reference}
"""
FK_JOIN: Final = """\
pipeline: orders_by_customer

steps:
  with_names:
    left_join: {left: Orders, right: Customers, left_on: customer_id}

outputs:
  silver.orders_with_names: {from: with_names, mode: merge}
"""
ORDERS: Final = (("o1", "c1", 30, 0), ("o2", "c2", 45, 1), ("o3", "c1", 20, 9))  # the last column: minutes
PAYMENTS: Final = (("o1", "p1", 2),)
CUSTOMERS: Final = (("c1", "Ada", 0), ("c2", "Grace", 0), ("c1", "Ada Lovelace", 8))
PAID: Final = [["o1", 30, "p1", "matched"], ["o2", 45, "PENDING", "unmatched"]]
NAMED: Final = [["o1", "Ada Lovelace", 30], ["o2", "Grace", 45], ["o3", "Ada Lovelace", 20]]


@dataclass
class Orders:
    """The acts on orders.

    Attributes:
        screen: where they are shown.
        folder: of files and tables.
        broker: the demo's.
        spark: the demo's session.
        wrong: what did not come out as it should.
    """

    screen: Screen
    folder: Path
    broker: Broker
    spark: SparkSession
    wrong: list[str] = field(default_factory=list)

    def produce(self) -> None:
        """Topics, records and the pipelines' files."""
        for topic in ("Orders", "Payments", "Customers"):
            self.broker.create_topic(topic, 1)
        at = [(key, f'{{"customer_id": "{who}", "amount": {amount}}}', _at(when)) for key, who, amount, when in ORDERS]
        self.broker.produce("Orders", at)
        self.broker.produce("Payments", [(key, f'{{"reference": "{ref}"}}', _at(when)) for key, ref, when in PAYMENTS])
        self.broker.produce("Customers", [(key, f'{{"name": "{name}"}}', _at(when)) for key, name, when in CUSTOMERS])
        conf = self.folder / "orders"
        conf.mkdir(exist_ok=True)
        (conf / "sources.yml").write_text(SOURCES.format(servers=self.broker.bootstrap_servers), encoding="utf-8")
        (conf / "correlation.yml").write_text(CORRELATION, encoding="utf-8")
        (conf / "fk_join.yml").write_text(FK_JOIN, encoding="utf-8")

    def correlate(self) -> Job:
        """Orders and payments in a window: an unpaid order comes out when its window has closed."""
        job = self._run("correlation")
        rows = job.lake.output("silver.order_payments").read(self.spark).orderBy("order_id")
        paid = [list(row) for row in rows.select("order_id", "amount", "reference", "_lineage.kind").collect()]
        title = "silver.order_payments"
        self.screen.show(table("order_id", "amount", "reference", "kind", title=title, rows=paid))
        self._expect(paid == PAID, f"{title} holds {paid}")
        return job

    def join_by_foreign_key(self) -> None:
        """Orders with their customers' names: a changed name changes all of its orders, in one MERGE."""
        job = self._run("fk_join")
        rows = job.lake.output("silver.orders_with_names").read(self.spark).orderBy("order_id")
        named = [list(row) for row in rows.select("order_id", "name", "amount").collect()]
        title = "silver.orders_with_names"
        self.screen.show(table("order_id", "name", "amount", title=title, rows=named))
        self._expect(named == NAMED, f"{title} holds {named}")

    def tell(self, job: Job) -> list[dict[str, Any]]:
        """Why an order has no result yet, and where the results of another one come from."""
        from lakestreams.verify.why import why  # noqa: PLC0415 - needs pyspark

        facts = []
        for key, word in (("o1", "gave silver.order_payments: matched"), ("o3", "waits in with_reference until")):
            traces = why(self.spark, job.lake, job.pipelines[0].topology, key=key)
            show(self.screen, traces)
            facts += [{"key": key, "told": trace.sentences} for trace in traces]
            said = " ".join(sentence for trace in traces for sentence in trace.sentences)
            self._expect(word in said, f"why says of {key}: {said}")
        return facts

    def _run(self, name: str) -> Job:
        file = self.folder / "orders" / f"{name}.yml"
        options = RunOptions(FileOptions((file,)), LakeOptions(str(self.folder / "lake")), quick=True)
        job = prepare(load(options.files, self.screen.secrets), options)
        outcome = job.run(self.spark)[0]
        if outcome.error is not None:
            raise outcome.error
        return job

    def _expect(self, right: bool, otherwise: str) -> None:
        if not right:
            self.wrong.append(otherwise)


def _at(minutes: int) -> int:
    return ZERO_MS + minutes * MINUTE_MS
