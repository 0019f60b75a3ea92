"""What `check --explain` tells of a pipeline's cost: commits and files, counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from lakestreams.cli.screen import Screen, table
from lakestreams.costs import commits
from lakestreams.costs.cost import Counts, Load, as_dict, count
from lakestreams.topology.durations import to_text

if TYPE_CHECKING:
    from lakestreams.run.runner import Job

EVERY_MS: Final = 300_000
"""How far apart runs are thought to be where no interval is given."""
_LEAST_MS: Final = 1_000  # rounds with no pause are counted as if they took a second
_GOOD_ENOUGH: Final = 0.005


@dataclass(frozen=True)
class Cost:
    """What a pipeline costs at a load."""

    load: Load
    counts: Counts

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "records_per_second": self.load.records_per_second,
            "table_rows": self.load.table_rows,
            "every_seconds": self.load.every_ms / 1_000,
            "runs": "scheduled" if self.load.scheduled else "interval",
            **as_dict(self.counts),
        }


def of(job: Job, index: int, records_per_second: float, table_rows: int) -> Cost:
    """The cost of one of a job's pipelines: at its interval, else as runs every five minutes."""
    topology, settings, interval = job.pipelines[index].topology, job.settings[index], job.interval_ms
    load = Load(
        records_per_second,
        table_rows,
        EVERY_MS if interval is None else max(_LEAST_MS, interval),
        scheduled=interval is None,
        batch=settings.max_offsets_per_trigger,
        snapshot_every=settings.snapshot_every,
    )
    return Cost(load, count(topology, job.lake, load))


def show(screen: Screen, one: Cost) -> None:
    """Shows it below the tables of the plan."""
    load, counts = one.load, one.counts
    word = "run" if load.scheduled else "round"
    per_day = counts.rounds_per_day
    rows: list[tuple[object, ...]] = [
        (_name(name), _number(each), round(each * per_day)) for name, each in counts.commits.items()
    ]
    rows.append((Text("all", style="bold"), _number(counts.commits_per_round), round(counts.commits_per_day)))
    title = "\nCost: Delta commits, if every topic has news and nothing is refused"
    right = (f"a {word}", "a day")
    screen.show(table("table", *right, title=title, rows=rows, right=right))
    for line in in_words(one):
        screen.say(f"  {line}")


def in_words(one: Cost) -> list[str]:
    """What is said below the table."""
    load, counts = one.load, one.counts
    how_often = f"runs every {to_text(load.every_ms)}" if load.scheduled else f"rounds {to_text(load.every_ms)} apart"
    most = "" if load.scheduled else "at most "
    per_day = f"{counts.rounds_per_day:,.0f} a day, {counts.commits_per_day:,.0f} commits"
    files = f"at least {counts.files_per_day:,.0f} data files"
    at = f"{load.records_per_second:,.10g} records/s and {load.table_rows:,} rows a table"
    return [
        f"{how_often}: {most}{per_day}, {files}",
        f"at {at}: {counts.new:,.0f} new records each, and {counts.retained:,.0f} rows of the past",
    ]


def _name(name: str) -> str:
    return f"{name} (what nodes keep)" if name.endswith(commits.ANY) else name


def _number(each: float) -> str:
    return f"{round(each):,}" if abs(each - round(each)) < _GOOD_ENOUGH else f"{each:,.2f}"


__all__ = ["Cost", "in_words", "of", "show"]
