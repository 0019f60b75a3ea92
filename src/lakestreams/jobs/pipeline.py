"""Entry point `lakestreams-pipeline`: any pipelines, once or at an interval. See `run.entry` and docs/cli.md."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakestreams.run.entry import run_job

if TYPE_CHECKING:
    from lakestreams.topology.topology import Topology


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the job; ends the process with its exit code unless that is 0."""
    run_job("lakestreams-pipeline", lacks_shape, sys.argv[1:] if argv is None else argv)


def lacks_shape(topology: Topology) -> str | None:
    """None: it runs any topology."""
    del topology
    return None


if __name__ == "__main__":
    main()
