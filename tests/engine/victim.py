"""A driver in a process of its own, to be killed or stopped: `python -m tests.engine.victim ROOT SERVERS JOB TOPICS...`.

`LAKESTREAMS_TEST_MASTER` is Spark's master, such as `local-cluster[2,1,4096]`; by default threads of one JVM.
With `LAKESTREAMS_TEST_ENDLESS` it goes on round after round, as with an interval, until it is killed.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from tests.engine.jobs import JOBS

from lakestreams.engine.driver import Driver
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.runtime.settings import RunSettings
from lakestreams.errors import Fenced, LakestreamsError
from lakestreams.local.session import spark_session

BATCH = 70


def on(master: str | None) -> dict[str, str]:
    """Settings of a session whose executors are processes of their own."""
    return {} if master is None else {"spark.master": master, "spark.executor.memory": "2g"}


def main() -> int:
    root, servers, job, *topics = sys.argv[1:]
    spark = spark_session(quick=True, extra_conf=on(os.environ.get("LAKESTREAMS_TEST_MASTER")))
    Path(root, "ready").write_text(spark.sparkContext.master, encoding="utf-8")
    settings = RunSettings(
        kafka={"kafka.bootstrap.servers": servers, "kafka.isolation.level": "read_committed"},
        max_offsets_per_trigger=BATCH,
        snapshot_every=1,
    )
    try:
        driver = Driver(spark, JOBS[job].build(*topics), Lake(root), settings)
        endless = "LAKESTREAMS_TEST_ENDLESS" in os.environ
        driver.run(ends=not endless)
        while endless:
            time.sleep(0.1)
            driver.round()
    except Fenced as error:
        print(error, flush=True)  # noqa: T201  # shown by pytest -s and in the log
        return 3
    except LakestreamsError as error:
        print(error, flush=True)  # noqa: T201  # shown by pytest -s and in the log
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
