"""Which records `check --data` reads, and which topics it compares; without Spark."""

from __future__ import annotations

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.engine.ledger.plans import Ingest, Range
from lakestreams.engine.publish import partitioning


def batch(seq: int, *ranges: tuple[str, int, int, int, int]) -> Ingest:
    """A batch of topic, partition, offsets and records."""
    return Ingest(seq, seq, tuple(Range(*one) for one in ranges))


BATCHES = [
    batch(1, ("t", 0, 0, 100, 100), ("t", 1, 0, 50, 50), ("t", 2, 0, 0, 0)),
    batch(2, ("u", 0, 0, 10, 10), ("t", 0, 100, 100, 0)),
    batch(3, ("t", 0, 100, 160, 60), ("t", 1, 50, 90, 40), ("t", 2, 0, 0, 0)),
]


def ranges(most: int) -> tuple[dict[int, tuple[int, int]], int]:
    found = partitioning._newest(BATCHES, "t", most)
    return dict(found.ranges), found.seq_from


def test_the_newest_batches_are_read_and_the_last_one_in_part():
    assert ranges(1_000) == ({0: (0, 160), 1: (0, 90)}, 1)
    assert ranges(250) == ({0: (0, 160), 1: (0, 90)}, 1)
    assert ranges(175) == ({0: (50, 160), 1: (25, 90)}, 1)  # half of the first batch, of both partitions
    assert ranges(100) == ({0: (100, 160), 1: (50, 90)}, 3)
    assert ranges(50) == ({0: (130, 160), 1: (70, 90)}, 3)
    assert partitioning._newest(BATCHES, "nothing", 10) is None


def test_partitions_without_a_record_count():
    assert partitioning._partition_counts(BATCHES) == {"t": 3, "u": 1}


def topology() -> Topology:
    builder = StreamsBuilder("meeting")
    orders = builder.stream("Orders", key=Text("user"), value=Text("what"))
    payments = builder.stream("Payments", key=Text("user"), value=Text("sum"))
    users = builder.table("Users", key=Text("user"), value=Text("region"))
    shops = builder.global_table("Shops", key=Text("shop"), value=Text("city"))
    both = orders.join(payments, within="5 minutes", name="both")
    both.left_join(users, name="with_users").to_delta("silver.a")
    both.join(shops, left_on="what", name="with_shops").to_delta("silver.b")
    payments.select_key("sum").left_join(users, name="by_sum").to_delta("silver.c")
    return builder.build()


def test_topics_meet_where_records_are_joined_as_they_lie():
    """Not with a global table, and not behind a new key."""
    assert partitioning.meeting(topology()) == [("Orders", "Payments"), ("Orders", "Users"), ("Payments", "Users")]
