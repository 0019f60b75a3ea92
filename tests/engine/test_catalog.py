"""Tables of a catalog, as on Databricks, by name and not by folder: Delta records some statements otherwise there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.engine.harness import Bench, assert_sound, facts, fresh_topics
from tests.engine.jobs import JOBS

from lakestreams.engine.ledger import fingerprint
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.runtime.lake import Lake
from lakestreams.maintenance.maintain import Options, maintain
from lakestreams.maintenance.trimming import Trimming
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.runtime.progress import Event
    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker, pytest.mark.slow]

ANY_TIME = 2**53


@dataclass
class CatalogBench(Bench):
    """One pipeline whose tables are named, in schemas that were created before, as a bundle creates them."""

    def __post_init__(self) -> None:
        for schema in (self.lake.bronze_schema, self.lake.silver_schema, self.lake.control_schema):
            self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")

    @property
    def lake(self) -> Lake:
        name = self.root.name
        return Lake(str(self.root), "spark_catalog", f"bronze_{name}", f"silver_{name}", f"control_{name}")

    def stored(self) -> int:
        """How many tables of what nodes keep, and of snapshots, there are."""
        names = [row["tableName"] for row in self.spark.sql(f"SHOW TABLES IN {self.lake.control_schema}").collect()]
        return sum(one.startswith(("state_", "snapshot_")) for one in names)

    def close(self) -> None:
        for schema in (self.lake.bronze_schema, self.lake.silver_schema, self.lake.control_schema):
            self.spark.sql(f"DROP SCHEMA {schema} CASCADE")


@pytest.mark.parametrize("job", JOBS)
def test_a_job_restarts_from_what_it_stored_in_a_catalog(
    spark: SparkSession, broker: Broker, tmp_path: Path, job: str
) -> None:
    """Its caches are known again, bronze is trimmed behind them, and results are those of folders."""
    own = JOBS[job]
    topics = fresh_topics(broker, 2, own.topics)
    topology = own.build(*topics)
    named, folders = CatalogBench(spark, broker, tmp_path / f"named_{job}", topology), Bench(spark, broker, tmp_path / "folders", topology)
    with small(spark):
        try:
            for records in (own.old(), own.new()):
                for topic, name in zip(topics, own.topics, strict=True):
                    broker.produce(topic, records[name])
                named.run(max_offsets_per_trigger=80, snapshot_every=1)
                folders.run(max_offsets_per_trigger=80, snapshot_every=1)
                assert facts(named) == facts(folders)
            assert_sound(named)
            assert named.stored()
            for row in spark.sql(f"SHOW TABLES IN {named.lake.control_schema}").collect():
                print(row["tableName"], [tuple(r) for r in spark.sql(f"describe history {named.lake.control_schema}.{row['tableName']}").select("operation","userMetadata").collect()][:4])
            trimmed = Trimming(spark, Ledger(named.lake, topology.name), topology, fingerprint.of_state(topology, "")).run(ANY_TIME)
            assert trimmed.cycle > 1
            print(trimmed)
            print(maintain(spark, named.lake, topology, Options(outputs=True)))
            for topic, name in zip(topics, own.topics, strict=True):
                broker.produce(topic, own.new()[name])
            named.run(snapshot_every=1)
            folders.run(snapshot_every=1)
            outputs = [one.name for one in topology.sinks]
            left, right = facts(named), facts(folders)
            assert {one: left[one] for one in outputs} == {one: right[one] for one in outputs}
        finally:
            named.close()
