"""Entry point `fk_join`: tables joined by foreign key, once or at an interval. See `run.entry` and docs/cli.md."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakestreams.run.entry import run_job
from lakestreams.topology.joins import ForeignKeyJoin
from lakestreams.topology.lookups import ForeignKeyStreamJoin

if TYPE_CHECKING:
    from lakestreams.topology.topology import Topology


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the job; ends the process with its exit code unless that is 0."""
    run_job("fk_join", lacks_shape, sys.argv[1:] if argv is None else argv)


def lacks_shape(topology: Topology) -> str | None:
    """What a topology lacks for this job, or None."""
    by_foreign_key = ForeignKeyJoin | ForeignKeyStreamJoin
    return None if any(isinstance(join, by_foreign_key) for join in topology.joins) else "foreign-key join"


if __name__ == "__main__":
    main()
