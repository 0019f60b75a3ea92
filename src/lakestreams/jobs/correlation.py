"""Entry point `correlation`: streams correlated in windows, once or at an interval. See `run.entry` and docs/cli.md."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakestreams.run.entry import run_job
from lakestreams.topology.joins import WindowedJoin

if TYPE_CHECKING:
    from lakestreams.topology.topology import Topology


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the job; ends the process with its exit code unless that is 0."""
    run_job("correlation", lacks_shape, sys.argv[1:] if argv is None else argv)


def lacks_shape(topology: Topology) -> str | None:
    """What a topology lacks for this job, or None."""
    return None if any(isinstance(join, WindowedJoin) for join in topology.joins) else "stream-stream join"


if __name__ == "__main__":
    main()
