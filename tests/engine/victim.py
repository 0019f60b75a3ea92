"""A driver in a process of its own, to be killed or stopped: `python -m tests.engine.victim ROOT SERVERS VIEWS USERS`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.engine.harness import page_views

from lakestreams.engine.driver import Driver
from lakestreams.engine.lake import Lake
from lakestreams.engine.settings import RunSettings
from lakestreams.errors import Fenced, LakestreamsError
from lakestreams.local.session import spark_session

BATCH = 70


def main() -> int:
    root, servers, views, users = sys.argv[1:5]
    spark = spark_session(quick=True)
    Path(root, "ready").touch()
    settings = RunSettings(
        kafka={"kafka.bootstrap.servers": servers, "kafka.isolation.level": "read_committed"},
        max_offsets_per_trigger=BATCH,
        snapshot_every=1,
    )
    try:
        Driver(spark, page_views(views, users), Lake(root), settings).run()
    except Fenced as error:
        print(error, flush=True)  # noqa: T201  # shown by pytest -s and in the log
        return 3
    except LakestreamsError as error:
        print(error, flush=True)  # noqa: T201  # shown by pytest -s and in the log
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
