"""`lakestreams verify`: what is in the tables, compared with what bronze and the recorded cycles give."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lakestreams.cli.ending import each
from lakestreams.cli.shown import Screen, Text, table
from lakestreams.run import failure
from lakestreams.run.options import PipelineOptions, VerifyOptions
from lakestreams.run.runner import load, open_lake, open_session

if TYPE_CHECKING:
    from lakestreams.config.compile import Pipeline
    from lakestreams.verify.comparison import Comparison
    from lakestreams.verify.verify import Verdict


def run(screen: Screen, options: PipelineOptions, wanted: VerifyOptions) -> int:
    """Verifies the pipelines; returns the exit code: 1 if anything differs, or could not be compared at all."""
    lake, pipelines = open_lake(options.lake), load(options.files, screen.secrets)
    with screen.working("starting Spark"):
        spark = open_session(ends=screen.ends, lake=lake, progress=screen.say)
    from lakestreams.engine.ledger import fingerprint  # noqa: PLC0415 - as the engine's other rooms
    from lakestreams.verify.verify import verify  # noqa: PLC0415 - needs pyspark

    def one(pipeline: Pipeline) -> dict[str, Any]:
        with screen.working(f"verifying {pipeline.topology.name}"):
            verdict = verify(
                spark, lake, pipeline.topology,
                from_cycle=wanted.from_cycle, to_cycle=wanted.to_cycle, ask_second=wanted.ask_second,
                configuration=fingerprint.of(pipeline.topology, pipeline.text, pipeline.semantics),
            )  # fmt: skip
        _show(screen, verdict)
        return {**asdict(verdict), "equal": verdict.equal}

    results = [{"equal": False, **result} for result in each(screen, pipelines, one)]
    equal = all(result["equal"] for result in results)
    screen.result({"ok": equal, "pipelines": results})
    return failure.OK if equal else failure.FAILED


def _show(screen: Screen, verdict: Verdict) -> None:
    partly = any(one.left_out for one in verdict.findings)
    rows = [
        (
            one.what,
            one.compared,
            *((one.left_out,) if partly else ()),
            _word(one),
        )
        for one in verdict.findings
    ]
    title = f"{verdict.pipeline}, cycles {verdict.from_cycle} to {verdict.to_cycle}"
    if verdict.left_out:
        title += f", {verdict.left_out:,} of {verdict.cycles:,} left out"
    columns = ("what", "compared", *(("not compared",) if partly else ()), "found")
    screen.show(table(*columns, title=title, rows=rows, right=columns[1:-1]))
    for one in verdict.findings:
        for example in one.examples:
            screen.say(Text.assemble((one.what, "bold"), f"  {example}"))
    if not verdict.is_compared:
        screen.say(Text("nothing was compared: no row of an output can be computed again", style="bold red"))
    for note in verdict.notes:
        screen.say(Text.assemble(("note", "yellow"), f"  {note}"))


def _word(one: Comparison) -> Text:
    if one.differs:
        return Text(f"{one.differs:,} differ", style="bold red")
    return Text("equal", style="green") if one.looked else Text("not compared", style="yellow")
