"""A real run, its event log, its page, and the pictures of it that the docs show.

With LAKESTREAMS_WRITE_IMAGES=1 the run is longer and the pictures are written to docs/images; without, only facts are
compared.
"""

from __future__ import annotations

import json
import os
import random
import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.report.browser import Browser, find
from typer.testing import CliRunner

from lakestreams.cli.app import app
from lakestreams.engine.runtime.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker, pytest.mark.soak]

IMAGES = Path(__file__).parents[2] / "docs" / "images"
ZERO_MS = 1_763_800_000_000
WRITES_IMAGES = os.environ.get("LAKESTREAMS_WRITE_IMAGES") == "1"
BATCHES = 10 if WRITES_IMAGES else 3
AT_ONCE = 900
ORDERS = BATCHES * AT_ONCE * 10 // 19  # most have a payment

SOURCES = """\
kafka: {{bootstrap_servers: "{servers}"}}
topics:
  orders:
    kind: stream
    topic: orders-{tag}
    key: {{text: order_id}}
    value: {{json: "customer_id string, amount int"}}
    expect: {{has_customer: customer_id is not null}}
    expect_or_drop: {{amount_positive: amount > 0}}
  payments:
    kind: stream
    topic: payments-{tag}
    key: {{text: order_id}}
    value: {{json: "reference string"}}
"""
PIPELINE = """\
pipeline: order_payments
steps:
  matched:
    left_join: {left: orders, right: payments, within: 5 minutes, grace: 1 minute}
    select: {customer_id: customer_id, amount: amount, reference: reference}
    invariants: {one_outcome_per_left: {action: warn}}
  paid:
    filter: {from: matched, where: reference is not null}
outputs:
  silver.order_payments: {from: matched, cluster_by: [order_id], expect: {"is_paid": reference is not null}}
  silver.paid_orders: {from: paid, cluster_by: [order_id]}
settings: {max_offsets_per_trigger: %d, max_bad_share: 0.2}
"""


def produce(broker: Broker, tag: str) -> None:
    """Orders, one every 900 ms, and payments of most of them; some broken, some refused by a rule, some late."""
    chance = random.Random(8)
    orders, payments = [], []
    for number in range(ORDERS):
        at = ZERO_MS + number * 900 - (chance.randrange(600_000) if chance.random() < 0.02 else 0)
        amount = -1 if chance.random() < 0.01 else chance.randrange(1, 500)
        value = json.dumps({"customer_id": f"c{number % 40}" if number % 90 else None, "amount": amount})
        orders.append((f"o{number}", "{" if chance.random() < 0.004 else value, at))
        unpaid = 0.35 if ORDERS * 0.5 < number < ORDERS * 0.7 else 0.06  # a provider that fails for a while
        if chance.random() > unpaid:
            payments.append((f"o{number}", json.dumps({"reference": f"r{number}"}), at + chance.randrange(90_000)))
    payments.sort(key=lambda record: record[2])
    for topic, records in ((f"orders-{tag}", orders), (f"payments-{tag}", payments)):
        broker.create_topic(topic, 2)
        broker.produce(topic, records)


def test_a_run_s_page_tells_what_is_in_the_tables(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    tag = uuid.uuid4().hex[:8]
    produce(broker, tag)
    (tmp_path / "sources.yml").write_text(SOURCES.format(servers=broker.bootstrap_servers, tag=tag))
    (tmp_path / "order_payments.yml").write_text(PIPELINE % AT_ONCE)
    root, page = str(tmp_path / "lake"), tmp_path / "report.html"

    def invoke(command: str, *arguments: str) -> dict:
        result = CliRunner().invoke(
            app, [command, str(tmp_path / "order_payments.yml"), "--root", root, "--json", *arguments]
        )
        assert result.exit_code == 0, result.output + result.stderr
        return json.loads(result.stdout)

    (ran,) = invoke("run", "--drain")["pipelines"]
    told = invoke("report", "--out", str(page))
    lake = Lake(root)
    silver = lake.output("silver.order_payments").read(spark)
    quarantine = lake.control("quarantine").read(spark)
    assert (len(told["cycles"]), told["records"]) == (ran["cycles"], ran["records"])
    assert len(told["cycles"]) >= BATCHES - 1, "enough to draw lines"
    assert told["quarantined"] == quarantine.count() > 0
    assert told["written"] == silver.count() + lake.output("silver.paid_orders").read(spark).count()

    text = page.read_text(encoding="utf-8")
    kinds = {row[0]: row[1] for row in silver.groupBy("_lineage.kind").count().collect()}
    nodes = text.partition('id="nodes"')[2].partition("</section>")[0]
    (matched,) = re.findall(r'<td class="name">matched</td>(.*?)</tr>', nodes, re.DOTALL)
    numbers = re.findall(r'<td class="number[^"]*">([^<]*)</td>', matched)
    assert numbers[1:4] == [f"{number:,}" for number in (silver.count(), kinds["matched"], kinds["unmatched"])]
    dropped = quarantine.where(F.col("code") == "EXPECTATION").count()
    assert f'<dd id="dropped">{dropped:,}</dd>' in text
    assert text.count("</svg>") == 7, "the drawing and six charts"

    program = find()
    if program is None:
        pytest.skip("the page is right; no browser to look at it: apt-get install chromium, or LAKESTREAMS_BROWSER")
    with Browser(program) as browser:
        for width, scheme in ((1280, "light"), (1280, "dark"), (390, "light")):
            browser.open(page, width=width, scheme=scheme)
            assert browser.told == []
            assert browser.value("document.documentElement.scrollWidth") <= width
            folder = IMAGES if WRITES_IMAGES else tmp_path
            name = "report-phone.png" if width < 600 else f"report-{scheme}.png"
            browser.screenshot(folder / name, height=1_500 if width < 600 else None)
            if name == "report-light.png":
                browser.screenshot(folder / "report-top.png", height=1_270)  # README has the first screen only
            assert (folder / name).stat().st_size > 50_000
