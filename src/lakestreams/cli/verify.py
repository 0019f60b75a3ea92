"""`lakestreams verify`: what is in the tables beside what bronze and the recorded cycles give."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.text import Text

from lakestreams.cli.screen import Screen, table
from lakestreams.jobs import report
from lakestreams.jobs.runner import RunOptions, load, open_lake, open_session

if TYPE_CHECKING:
    from lakestreams.audit.verify import Verdict


def run(
    screen: Screen, options: RunOptions, from_cycle: int | None, to_cycle: int | None, *, ask_second: bool = True
) -> int:
    """Verifies the pipelines; returns the exit code: 1 if anything differs."""
    lake, pipelines = open_lake(options), load(options)
    with screen.working("starting Spark"):
        spark = open_session(lake=lake, progress=screen.say)
    from lakestreams.audit.verify import verify  # noqa: PLC0415 - needs pyspark

    verdicts = []
    for pipeline in pipelines:
        with screen.working(f"verifying {pipeline.topology.name}"):
            found = verify(
                spark, lake, pipeline.topology, from_cycle=from_cycle, to_cycle=to_cycle, ask_second=ask_second
            )
            verdicts.append(found)
        _show(screen, verdicts[-1])
    equal = all(one.equal for one in verdicts)
    screen.result({"ok": equal, "pipelines": [{**asdict(one), "equal": one.equal} for one in verdicts]})
    return report.OK if equal else report.FAILED


def _show(screen: Screen, verdict: Verdict) -> None:
    rows = [
        (
            one.what,
            one.compared,
            Text(f"{one.differs:,} differ", style="bold red") if one.differs else Text("equal", style="green"),
        )
        for one in verdict.findings
    ]
    title = f"{verdict.pipeline}, cycles {verdict.from_cycle} to {verdict.to_cycle}"
    screen.show(table("what", "compared", "found", title=title, rows=rows, right=("compared",)))
    for one in verdict.findings:
        for example in one.examples:
            screen.say(Text.assemble((one.what, "bold"), f"  {example}"))
    for note in verdict.notes:
        screen.say(Text.assemble(("note", "yellow"), f"  {note}"))
