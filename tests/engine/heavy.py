"""A driver in a process of its own with a small heap: `python -m tests.engine.heavy ROOT SERVERS TOPIC HEAP`.

It prints how many rows bronze and the output have, and of how many keys.
"""

from __future__ import annotations

import sys

from pyspark.sql import functions as F  # noqa: N812

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.engine.driver import Driver
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.runtime.settings import RunSettings
from lakestreams.local.session import spark_session

OUTPUT = "silver.letters"


def letters(topic: str) -> Topology:
    """One topic to one table."""
    builder = StreamsBuilder("letters")
    builder.stream(topic, key=Text("who"), value=Text("text")).to_delta(OUTPUT)
    return builder.build()


def main() -> int:
    root, servers, topic, heap = sys.argv[1:]
    settings = RunSettings(kafka={"kafka.bootstrap.servers": servers, "kafka.isolation.level": "read_committed"})
    spark, lake, topology = spark_session(quick=True, memory=heap), Lake(root), letters(topic)
    Driver(spark, topology, lake, settings).run()
    for table, who in ((lake.bronze(topology.name, topic), "k.who"), (lake.output(OUTPUT), "who")):
        found = table.read(spark).agg(F.count("*"), F.count_distinct(who)).first()
        print(*found or ())  # noqa: T201 - what the test reads
    return 0


if __name__ == "__main__":
    sys.exit(main())
