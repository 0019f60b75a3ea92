"""`lakestreams report`: what a pipeline has done, as one HTML page."""

from __future__ import annotations

from pathlib import Path

from lakestreams.cli.screen import Screen
from lakestreams.errors import LocationNotWritable
from lakestreams.report import build, page
from lakestreams.run.failure import OK
from lakestreams.run.options import PipelineOptions
from lakestreams.run.runner import load, open_lake, open_session


def run(screen: Screen, options: PipelineOptions, *, out: Path, cycles: int, values: bool) -> int:
    """Writes the page of one pipeline; returns the exit code.

    Args:
        options: the pipeline and its lake.
        out: the page's file.
        cycles: of how many of the newest cycles it tells.
        values: whether examples in quarantine are shown with their keys and values.

    Raises:
        LocalPartsMissing: if what draws the page is not installed.
        LocationNotWritable: if the file cannot be written; known before a session is started.
    """
    page.require()
    lake, (pipeline,) = open_lake(options.lake), load(options.files, screen.secrets)
    topology = pipeline.topology
    _probe(out)
    with screen.working("starting Spark"):
        spark = open_session(ends=screen.ends, quick=True, lake=lake, progress=screen.say)
    from lakestreams.run.event_log import open_cycle, read_events, read_quarantine  # noqa: PLC0415 - needs pyspark

    with screen.working("reading the event log"):
        events = read_events(spark, lake, topology.name, cycles)
        logged = [event["cycle"] for event in events] or [0]
        quarantine = read_quarantine(
            spark, lake, topology.name, from_cycle=min(logged), to_cycle=max(logged), values=values
        )
        unfinished = open_cycle(spark, lake, topology.name)
    report = build.build(topology.name, events, quarantine, unfinished)
    drawing = topology.svg(counts=report.rows_out)
    text = page.render(report, drawing, [node.name for node in topology.nodes])
    _write(out, text)
    cycles_text = (
        f"cycles {report.cycles[0].number} to {report.cycles[-1].number}"
        if report.cycles
        else "no cycle in the log yet"
    )
    screen.say(f"{out}: {topology.name}, {cycles_text}, {len(text.encode()) / 1_000:,.0f} kB")
    screen.result(
        {
            "ok": True,
            "file": str(out),
            "pipeline": topology.name,
            "cycles": [one.number for one in report.cycles],
            "records": report.records,
            "written": report.written,
            "quarantined": report.quarantined,
            "open_cycle": report.open_cycle,
        }
    )
    return OK


def _probe(out: Path) -> None:
    """Finds out whether the file can be written, without touching what is there."""
    existed = out.exists()
    try:
        out.open("a", encoding="utf-8").close()
    except OSError as error:
        raise _not_writable(out, error) from None
    if not existed:
        out.unlink()


def _write(out: Path, text: str) -> None:
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _not_writable(out, error) from None


def _not_writable(out: Path, error: OSError) -> LocationNotWritable:
    message = f"cannot write the report to {out}: {error.strerror or error}"
    return LocationNotWritable(message, hint="give --out a file in a folder that is there and can be written to")
