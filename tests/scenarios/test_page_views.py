"""Section 1 of the acceptance scenarios: the profiles as a table, or their changes as a stream that is made into one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.testing import TopologyTestDriver, assert_results
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from lakestreams import Fields

VIEWS, USERS, CHANGES = "PageViews", "UserProfiles", "UserProfileChanges"
OUTPUTS = BY_TABLE, BY_CHANGES = "silver.views_by_table", "silver.views_by_changes"
PROFILES = (("alice", "us-east", 0), ("bob", "eu-west", 0), ("carol", "ap-south", 0))
# topic, key, value, ms; of one time the profiles come first
RECORDS = (
    *((topic, *profile) for topic in (USERS, CHANGES) for profile in PROFILES),
    (VIEWS, "alice", "/home", 1),
    (VIEWS, "bob", "/products", 2),
    (VIEWS, "carol", "/checkout", 3),
    (VIEWS, "dave", "/home", 4),
)
ENRICHED = (
    ("alice", {"page": "/home", "region": "us-east"}, 1),
    ("bob", {"page": "/products", "region": "eu-west"}, 2),
    ("carol", {"page": "/checkout", "region": "ap-south"}, 3),
    ("dave", {"page": "/home", "region": "<unknown>"}, 4),
)


def enriched() -> Topology:
    """The views joined with both tables."""
    builder = StreamsBuilder("page_views")
    views = builder.stream(VIEWS, key=Text("user"), value=Text("page"))
    users = builder.table(USERS, key=Text("user"), value=Text("region"))
    changes = builder.stream(CHANGES, key=Text("user"), value=Text("region"))

    def with_region(view: Fields, user: Fields) -> dict[str, Column]:
        return {"page": view.page, "region": F.coalesce(user.region, F.lit("<unknown>"))}

    views.left_join(users, with_region, name="by_table").to_delta(BY_TABLE)
    views.left_join(changes.to_table(name="latest"), with_region, name="by_changes").to_delta(BY_CHANGES)
    return builder.build()


def test_changes_made_into_a_table_enrich_the_views_as_the_table_does(spark: SparkSession) -> None:
    with small(spark):
        driver = TopologyTestDriver(enriched(), spark)
        for record in RECORDS:
            driver.pipe(*record)
        for output in OUTPUTS:
            assert_results(driver.read(output), list(ENRICHED))
        assert driver.refused() == []
