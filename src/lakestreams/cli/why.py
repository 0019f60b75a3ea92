"""`lakestreams why`: what became of a record, and where the results of a key come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lakestreams.cli.screen import Screen
from lakestreams.errors import InvalidOption
from lakestreams.run import failure
from lakestreams.run.options import PipelineOptions
from lakestreams.run.runner import load, open_lake, open_session
from lakestreams.times import both, readable
from lakestreams.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakestreams.verify.trace import Trace


_FIRST_MS = 100_000_000_000  # in 1973: what is less is a duration


def run(screen: Screen, options: PipelineOptions, key: str | None, place: str | None) -> int:
    """Tells what became of the records; returns the exit code."""
    if (key is None) == (place is None):
        msg = "why needs a key or a place" if key is None else "a key and a place are both given"
        raise InvalidOption(msg, hint="--key alice, or --at PageViews-0@17")
    from lakestreams.verify.trace import at  # noqa: PLC0415 - needs pyspark

    wanted = at(place) if place is not None else None  # before a session is started
    lake, pipelines = open_lake(options.lake), load(options.files, screen.secrets)
    with screen.working("starting Spark"):
        spark = open_session(ends=screen.ends, quick=True, lake=lake, progress=screen.say)
    from lakestreams.verify.why import why  # noqa: PLC0415 - needs pyspark

    traces = why(spark, lake, pipelines[0].topology, key=key, place=wanted)
    show(screen, traces)
    screen.result({"pipeline": pipelines[0].topology.name, "records": [trace.as_dict() for trace in traces]})
    return failure.OK


def show(screen: Screen, traces: Iterable[Trace]) -> None:
    """A record a line, and under it what became of it."""
    for trace in traces:
        attempt = f"#{trace.attempt}" if trace.attempt else ""
        head = f"{trace.topic}-{trace.partition}@{trace.offset}{attempt}"
        cycle = "" if trace.cycle is None else f"  cycle {trace.cycle}"
        screen.say(
            Text.assemble(
                (head, "bold"),
                f"  {visible(str(trace.key))} -> {visible(str(trace.value))}  at {both(trace.event_time_ms)}{cycle}",
            )
        )
        for sentence in trace.sentences:
            screen.say(
                Text(f"  {visible(readable(sentence))}", style="green" if sentence.startswith("gave ") else "yellow")
            )
        for row in trace.results:
            columns = {name: value for name, value in row.items() if name not in ("output", "_lineage")}
            shown = ", ".join(f"{name}={_shown(name, value)}" for name, value in columns.items())
            screen.say(Text(f"    {row['output']}  {visible(shown)}", style="dim"))


def _shown(name: str, value: object) -> str:
    return both(value) if name.endswith("_ms") and isinstance(value, int) and value > _FIRST_MS else str(value)
