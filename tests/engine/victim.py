"""A driver in a process of its own, to be killed or stopped: `python -m tests.engine.victim ROOT SERVERS JOB TOPICS...`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.engine.jobs import JOBS

from lakestreams.engine.driver import Driver
from lakestreams.engine.lake import Lake
from lakestreams.engine.settings import RunSettings
from lakestreams.errors import Fenced, LakestreamsError
from lakestreams.local.session import spark_session

BATCH = 70


def main() -> int:
    root, servers, job, *topics = sys.argv[1:]
    spark = spark_session(quick=True)
    Path(root, "ready").touch()
    settings = RunSettings(
        kafka={"kafka.bootstrap.servers": servers, "kafka.isolation.level": "read_committed"},
        max_offsets_per_trigger=BATCH,
        snapshot_every=1,
    )
    try:
        Driver(spark, JOBS[job].build(*topics), Lake(root), settings).run()
    except Fenced as error:
        print(error, flush=True)  # noqa: T201  # shown by pytest -s and in the log
        return 3
    except LakestreamsError as error:
        print(error, flush=True)  # noqa: T201  # shown by pytest -s and in the log
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
