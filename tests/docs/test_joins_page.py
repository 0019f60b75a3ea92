"""The last example of `docs/joins.md` does what its comments and its table say; the first is tested with scenario 2."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.docs.blocks import blocks, topology_of

from lakestreams.testing import TopologyTestDriver
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "joins.md"
RECORDS = [
    ("Orders", "o1", {"customer": "c", "amount": 5}, 10),
    ("Customers", "c", {"name": "Ada"}, 3),
    ("Orders", "o1", {"customer": "d", "amount": 5}, 12),
    ("Lines", "l2", {"order": "o1", "item": "pen"}, 20),
    ("Lines", "l1", {"order": "o1", "item": "ink"}, 20),
    ("Events", "o1", "COMPLETED", 15),
    ("Events", "o9", "COMPLETED", 21),
    ("Prices", "pen", {"price": 2}, 0),
    ("Sales", "pen", {"pieces": 7}, 1_000),
    ("Prices", "pen", {"price": 3}, 500),
    ("Sales", "pen", {"pieces": 1}, 700_000),
    ("Logins", "ada", "FAILED", 0),
    ("Logins", "bob", "OK", 360_001),
]


@pytest.fixture(scope="module")
def driver(spark: SparkSession) -> Iterator[TopologyTestDriver]:
    code = [block.text for block in blocks(PAGE) if block.language == "python"][-1]
    with small(spark):
        driver = TopologyTestDriver(topology_of(code), spark)
        for record in RECORDS:
            driver.pipe(*record)
        yield driver


def read(driver: TopologyTestDriver, output: str) -> list[tuple[Any, Any, int]]:
    return [(one.key, one.value, one.timestamp) for one in driver.read(output)]


def test_by_foreign_key_names_follow(driver: TopologyTestDriver) -> None:
    assert read(driver, "orders_with_names") == [
        ("o1", {"amount": 5, "customer": "unknown"}, 10),
        ("o1", {"amount": 5, "customer": "Ada"}, 3),
        ("o1", {"amount": 5, "customer": "unknown"}, 12),
    ]


def test_by_foreign_key_of_a_table_an_event_meets_all_lines(driver: TopologyTestDriver) -> None:
    assert read(driver, "done") == [
        ("o1", {"event": "COMPLETED", "item": "ink"}, 15),
        ("o1", {"event": "COMPLETED", "item": "pen"}, 15),
        ("o9", {"event": "COMPLETED", "item": None}, 21),
    ]


def test_as_of_a_late_price_counts_while_the_sale_waits(driver: TopologyTestDriver) -> None:
    assert read(driver, "priced_sales") == [("pen", {"pieces": 7, "price": 3}, 1_000)]


def test_the_rules_of_kafka_hold_an_unmatched_login(driver: TopologyTestDriver) -> None:
    assert read(driver, "alarmed_logins") == [("ada", {"outcome": "FAILED", "alarm": None}, 0)]
