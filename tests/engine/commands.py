"""Jobs and commands, one after another in one process with one session: `python tests/engine/commands.py RUNS.json`.

What each writes to stdout and stderr lies in files of its own, beside the list: `<name>.out` and `<name>.err`; its exit code
in `<name>.code`; the number of the JVM's process in `jvm`. A run that kills the process is the last one.
Whose code it was, and of which version, is in `code`: the lakestreams that is on the path, whichever that is.

A run that `waits_for` a file begins when it is there, beside the list.

With `--talkative` Spark logs at INFO, as clusters do, and keeps its event log, in which plans and settings are.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import lakestreams
from lakestreams.cli.app import app
from lakestreams.local.session import spark_session


def main() -> None:
    listed = Path(sys.argv[1])
    runs: list[dict[str, Any]] = json.loads(listed.read_text(encoding="utf-8"))
    place = listed.parent
    (place / "code").write_text(f"{lakestreams.__version__} {lakestreams.__file__}")
    talkative = "--talkative" in sys.argv[2:]
    spark = spark_session(quick=True, extra_conf=_event_log(place / "spark-events") if talkative else None)
    jvm = spark._jvm
    assert jvm is not None
    (place / "jvm").write_text(str(jvm.java.lang.ProcessHandle.current().pid()))
    for name in ("", "org.apache.kafka.clients") if talkative else ():
        log4j = jvm.org.apache.logging.log4j
        log4j.core.config.Configurator.setLevel(name, log4j.Level.INFO)
    for run in runs:
        while "waits_for" in run and not (place / run["waits_for"]).exists():
            time.sleep(0.05)
        with _into(place / run["name"]), _environment(run.get("environment", {})):
            code = _run(run["argv"])
        written = place / "written"
        written.write_text(str(code))
        written.rename(place / f"{run['name']}.code")  # whoever waits for it reads it whole


def _event_log(folder: Path) -> dict[str, str]:
    folder.mkdir()
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.sql.maxPlanStringLength": "20000",
    }


def _run(argv: Sequence[str]) -> int:
    """The exit code of a job (`job:pipeline`), or of a command of `lakestreams`."""
    try:
        if argv[0].startswith("job:"):
            importlib.import_module(f"lakestreams.jobs.{argv[0].removeprefix('job:')}").main(argv[1:])
        else:
            app(args=list(argv), prog_name="lakestreams")
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@contextlib.contextmanager
def _environment(more: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _into(place: Path) -> Iterator[None]:
    """What the process writes while the block runs, whichever part of it does, goes to `<place>.out` and `<place>.err`."""
    kept = os.dup(1), os.dup(2)
    for number, ending in ((1, ".out"), (2, ".err")):
        with place.with_name(place.name + ending).open("wb") as file:
            os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)


if __name__ == "__main__":
    main()
