"""What the wheel's jobs have in common: arguments, shape, run, errors, exit code.

Arguments are single tokens `--key=value`, as Databricks' python_wheel_task sends named_parameters; an empty value
counts as not given. Parameters of the job that are meant for somebody else are pushed down to every task, so unknown
ones are named in a warning and otherwise ignored.

Exit codes: 0 done, 1 an error (its form is printed, the whole trace is in the log file named below it), 2 an argument
that cannot be read, 3 fenced: a newer driver runs the pipeline. On Databricks, which shows exceptions rather than exit
codes, the error itself is raised.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lakestreams.errors import InvalidOption
from lakestreams.run import failure
from lakestreams.run.arguments import run_options
from lakestreams.run.options import RunOptions
from lakestreams.run.runner import load, open_session, prepare
from lakestreams.visible import visible_lines

if TYPE_CHECKING:
    from lakestreams.engine.runtime.progress import Event
    from lakestreams.run.runner import Outcome
    from lakestreams.topology.topology import Topology

Shape = Callable[["Topology"], str | None]
"""Says what a topology lacks for a job, or None."""


def run_job(name: str, shape: Shape, argv: Sequence[str]) -> None:
    """What the wheel's jobs have in common: arguments, shape, run, errors, exit code.

    Args:
        name: the entry point's name.
        shape: what its pipelines must have.
        argv: the arguments.

    Raises:
        SystemExit: with the exit code, unless all went well.
    """
    secrets = failure.Secrets()
    with contextlib.ExitStack() as ends:
        try:
            outcomes = _run(name, shape, run_options(name, argv), secrets, ends)
        except Exception as error:  # noqa: BLE001 - reported in one form, whatever it is
            _fail([error], secrets)
        except KeyboardInterrupt:
            _print("interrupted; the next run goes on where this one stopped")
            raise SystemExit(failure.INTERRUPTED) from None
        else:
            _fail([outcome.error for outcome in outcomes if outcome.error is not None], secrets)


def _run(
    name: str, shape: Shape, options: RunOptions, secrets: failure.Secrets, ends: contextlib.ExitStack
) -> list[Outcome]:
    pipelines = load(options.files, secrets)
    for pipeline in pipelines:
        lacking = shape(pipeline.topology)
        if lacking:
            msg = f"pipeline {pipeline.topology.name} has no {lacking}, which is what the job {name} is for"
            raise InvalidOption(msg, hint="name another --pipeline, or use `lakestreams run`, which takes any")
    job = prepare(pipelines, options, _tell)
    spark = open_session(ends=ends, quick=options.quick, progress=_print)
    outcomes = job.run(spark, stop_signal(options.timing.interval_ms))
    for outcome in outcomes:
        if outcome.summary is not None:
            _print_summary(outcome, secrets)
    return outcomes


# --- what is reported --------------------------------------------------------------------------------------------------


def _print(line: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {visible_lines(line)}\n")
    sys.stdout.flush()


def _tell(pipeline: str, event: Event) -> None:
    facts = event.facts
    if event.kind == "claimed":
        _print(f"{pipeline}: epoch {facts['epoch']}")
    elif event.kind == "recovered":
        _print(f"{pipeline}: closed batch {facts['seq']}, which an earlier run left open")
    elif event.kind == "published":
        bad = f", {facts['bad']:,} of them unreadable" if facts["bad"] else ""
        _print(f"{pipeline}: cycle {facts['cycle']} published, {facts['records']:,} records{bad}")


def _print_summary(outcome: Outcome, secrets: failure.Secrets) -> None:
    summary = outcome.summary
    if summary is None:
        return
    for warning in summary.warnings:
        _print(f"{outcome.pipeline}: warning: {secrets.redact(warning)}")
    for note in summary.notes:
        _print(f"{outcome.pipeline}: {note}")
    _print(
        f"{outcome.pipeline}: {summary.cycles} cycles, {summary.records:,} records, {summary.bad:,} unreadable, "
        f"{outcome.seconds:.1f} s"
    )


def _fail(errors: Sequence[Exception], secrets: failure.Secrets) -> None:
    """Tells the errors and ends the process; does nothing if there are none.

    Fenced is the exit code only when nothing else went wrong.
    """
    if not errors:
        return
    code, worst = min((failure.exit_code(error), place) for place, error in enumerate(errors))
    shown = []
    for error in errors:
        log = secrets.write_log(error)
        shown.append(secrets.as_shown(error, log))
        sys.stderr.write(f"{shown[-1]}\n" + (f"  Log: {log}\n" if log else ""))
        if failure.on_databricks() and log:  # the file ends with the cluster; what is on stderr is kept with the run
            sys.stderr.write(log.read_text(encoding="utf-8"))
    if failure.on_databricks():
        raise shown[worst] from None
    raise SystemExit(code)


def stop_signal(interval_ms: int | None) -> Callable[[], bool]:
    """With an interval, the first SIGINT or SIGTERM ends the job after its round; a second one at once."""
    asked = threading.Event()
    if interval_ms is None or threading.current_thread() is not threading.main_thread():
        return asked.is_set

    def note(number: int, _frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        signal.signal(number, note)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, note)
    return asked.is_set
