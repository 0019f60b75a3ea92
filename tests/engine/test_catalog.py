"""Tables of a catalog, as on Databricks: they have names and no folders, and Delta records some statements otherwise there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.engine.harness import Bench, assert_ledger_sound, fresh_topics
from tests.engine.jobs import JOBS, Record

from lakestreams.engine.ledger import fingerprint
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.state import snapshots, store
from lakestreams.maintenance.maintain import Options, maintain
from lakestreams.maintenance.trimming import Trimming
from lakestreams.testing.small import small
from lakestreams.verify.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker, pytest.mark.slow]

NAMED = Lake("", "spark_catalog", "bronze_named", "silver_named", "control_named")
SCHEMAS = (NAMED.bronze_schema, NAMED.silver_schema, NAMED.control_schema)


@dataclass
class CatalogBench(Bench):
    """One pipeline whose tables lie in a catalog; its checkpoints are in a folder, as in a volume."""

    @property
    def lake(self) -> Lake:
        return Lake(str(self.root), NAMED.catalog, *SCHEMAS)


@pytest.fixture
def _schemas(spark: SparkSession) -> Iterator[None]:
    """They are there before, as a bundle creates them."""
    for schema in SCHEMAS:
        spark.sql(f"CREATE SCHEMA {schema}")
    with small(spark):
        yield
    for schema in SCHEMAS:
        spark.sql(f"DROP SCHEMA {schema} CASCADE")


def assert_caches_are_known(bench: Bench) -> None:
    """What was stored last is what the next run builds on."""
    ledger = Ledger(bench.lake, bench.topology.name)
    history = ledger.history(bench.spark)
    if history.state is not None:
        assert store.is_usable(bench.spark, ledger, history.state, fingerprint.of_state(bench.topology, ""))
        return
    for source in bench.topology.sources:
        if source.kind != "stream":
            found = snapshots.find(bench.spark, ledger, source, bench.topology.expectations)
            assert found.cycle == history.done_cycle


@pytest.mark.usefixtures("_schemas")
@pytest.mark.parametrize(
    ("name", "tended"), [("correlation", False), *(pytest.param(job, True, marks=pytest.mark.soak) for job in JOBS)]
)
def test_a_job_goes_on_from_what_it_stored_in_a_catalog(
    spark: SparkSession, broker: Broker, tmp_path: Path, name: str, *, tended: bool
) -> None:
    """Bronze is trimmed meanwhile, so nothing else could take the place of what was stored."""
    job = JOBS[name]
    topics = fresh_topics(broker, 2, job.topics)
    bench = CatalogBench(spark, broker, tmp_path, job.build(*topics))

    def run(records: Mapping[str, Sequence[Record]]) -> None:
        for topic, known_as in zip(topics, job.topics, strict=True):
            broker.produce(topic, records[known_as])
        bench.run(snapshot_every=1)
        assert_caches_are_known(bench)

    run(job.old())
    own = fingerprint.of_state(bench.topology, "")
    trimmed = Trimming(spark, Ledger(bench.lake, bench.topology.name), bench.topology, own).run(2**53)
    assert sum(trimmed.rows.values()) > 0
    if tended:
        maintain(spark, bench.lake, bench.topology, Options(outputs=True))  # files are joined, and no row changes
    run(job.new())
    assert verify(spark, bench.lake, bench.topology).equal
    assert_ledger_sound(bench)
