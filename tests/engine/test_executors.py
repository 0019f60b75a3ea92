"""The jobs on executors that are JVMs of their own, as on a cluster: what travels to them must travel, and tables are equal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.engine.harness import Bench, facts, fresh_topics
from tests.engine.jobs import JOBS, Job

from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker, pytest.mark.soak]
MASTER = "local-cluster[2,1,4096]"


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS.keys())
def test_separate_executors_give_equal_tables(spark: SparkSession, broker: Broker, tmp_path: Path, job: Job) -> None:
    topics = fresh_topics(broker, 3, job.topics)
    for name, topic in zip(job.topics, topics, strict=True):
        broker.produce(topic, job.old()[name])
    here, there = (Bench(spark, broker, tmp_path / name, job.build(*topics)) for name in ("threads", "executors"))
    here.run(max_offsets_per_trigger=70, snapshot_every=1)
    there.root.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "tests.engine.victim",
        str(there.root),
        broker.bootstrap_servers,
        job.name,
        *topics,
    ]
    done = subprocess.run(
        command, env=os.environ | {"LAKESTREAMS_TEST_MASTER": MASTER}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (there.root / "ready").read_text(encoding="utf-8") == MASTER
    assert facts(there) == facts(here)
    assert all(facts(here).values())
