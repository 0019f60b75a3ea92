"""From pipeline files and options to runs: the one way in which jobs, commands and the demo start the engine."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lakestreams
from lakestreams.config.compile import Pipeline, load_pipeline
from lakestreams.config.kafka import load_kafka
from lakestreams.config.load import read
from lakestreams.config.registry import load_registry
from lakestreams.engine.runtime import schemas
from lakestreams.errors import (
    ConfigInvalid,
    ConfigUnreadable,
    DuplicateName,
    InvalidOption,
    LakestreamsError,
    LocalPartsMissing,
    TopologyInvalid,
    UnknownReference,
    unfold,
)
from lakestreams.run.failure import Secrets, on_databricks
from lakestreams.run.locating import locate
from lakestreams.run.options import FileOptions, LakeOptions, RunOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.driver import Driver
    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.engine.runtime.progress import Event, Summary
    from lakestreams.engine.runtime.settings import RunSettings

DEFAULT_ROOT = "lake"
_POLL_S = 0.1

Listener = Callable[[str, "Event"], None]
"""Hears of a pipeline's name and what happened in its run."""


@dataclass
class Outcome:
    """What became of one pipeline in a run; `seconds` is wall time."""

    pipeline: str
    summary: Summary | None = None
    error: Exception | None = None
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        summary = self.summary
        return {
            "pipeline": self.pipeline,
            "epoch": summary.epoch if summary else None,
            "cycles": summary.cycles if summary else 0,
            "records": summary.records if summary else 0,
            "bad": summary.bad if summary else 0,
            "seconds": round(self.seconds, 3),
            "seconds_by_stage": {stage: round(s, 3) for stage, s in summary.seconds.items()} if summary else {},
            "warnings": list(summary.warnings) if summary else [],
            "notes": list(summary.notes) if summary else [],
        }


# --- files ---------------------------------------------------------------------------------------------------------


def find_file(path: Path) -> Path:
    """The pipeline's file as given, or the one in `conf` of that name that comes with the package (or its source tree).

    Raises:
        ConfigUnreadable: if there is neither.
    """
    if path.is_file():
        return path
    package = Path(lakestreams.__file__).parent
    places = [package / path, package.parents[1] / path] if path.parts[:1] == ("conf",) else []
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        msg = f"there is no file {path}"
        raise ConfigUnreadable(msg, hint="check the path; a job needs the path of its conf/ in the workspace")
    return file


def find_pipeline(name: str, folder: Path = Path("conf")) -> Path:
    """The file in a folder that says `pipeline: <name>`; one that cannot be read is passed over.

    Raises:
        UnknownReference: naming the pipelines that there are.
        DuplicateName: if several files say it.
    """
    named: list[tuple[str, Path]] = []
    for path in sorted(folder.glob("*.yml")):
        with contextlib.suppress(ConfigUnreadable):
            pipeline = read(path).written.get("pipeline")
            if isinstance(pipeline, str):
                named.append((pipeline, path))
    matching = [path for pipeline, path in named if pipeline == name]
    if not matching:
        known = ", ".join(f"{pipeline} ({path})" for pipeline, path in named)
        message = f"there is no file {name}, and no pipeline of that name in {folder}/*.yml"
        hint = f"there are: {known}" if named else f"the path of the pipeline's file; {folder.resolve()} has none"
        raise UnknownReference(message, hint=hint)
    if len(matching) > 1:
        files = ", ".join(map(str, matching))
        raise DuplicateName(f"several files have a pipeline named {name!r}: {files}", hint="open one of the files")
    return matching[0]


def load(files: FileOptions, secrets: Secrets) -> list[Pipeline]:
    """Reads and checks all pipelines; nothing is started.

    Args:
        files: of the pipelines.
        secrets: gets those of each pipeline once it is read, so that a fault of the next one does not show them.

    Raises:
        TopologyInvalid: with the faults of all files.
    """
    faults: list[LakestreamsError] = []
    pipelines: list[Pipeline] = []
    for path in files.pipelines:
        try:
            pipelines.append(_load_one(find_file(path), files, secrets))
        except LakestreamsError as error:
            if len(files.pipelines) == 1:
                raise
            faults.extend(unfold(error))
    names = [pipeline.topology.name for pipeline in pipelines]
    doubled = sorted({name for name in names if names.count(name) > 1})
    faults.extend(
        DuplicateName(f"two of the pipelines are named {n!r}", hint="run each pipeline once") for n in doubled
    )
    if faults:
        raise TopologyInvalid(faults)
    return pipelines


def _load_one(path: Path, files: FileOptions, secrets: Secrets) -> Pipeline:
    sources = files.sources or path.with_name("sources.yml")
    if sources.is_file() and path.samefile(sources):  # as `conf/*.yml` gives it
        msg = f"{path} is the file of Kafka and topics, no pipeline"
        raise ConfigInvalid(msg, hint="name the files that say pipeline: NAME")
    try:
        pipeline = load_pipeline(path, sources)
    except LakestreamsError:  # of a topology in Python, say: it may quote whatever that has read
        for part in (load_kafka, load_registry):
            with contextlib.suppress(LakestreamsError):
                section = part(sources)
                secrets.add(section.with_scope(files.secret_scope) if files.secret_scope else section)
        raise
    if files.bootstrap_servers:
        pipeline = replace(pipeline, kafka=replace(pipeline.kafka, bootstrap_servers=files.bootstrap_servers))
    if files.secret_scope:
        scope, registry = files.secret_scope, pipeline.registry
        pipeline = replace(
            pipeline,
            kafka=pipeline.kafka.with_scope(scope),
            registry=None if registry is None else registry.with_scope(scope),
        )
    secrets.add(pipeline.kafka, pipeline.references, pipeline.registry)
    return pipeline


# --- the engine's parts --------------------------------------------------------------------------------------------


def open_session(
    *,
    ends: contextlib.ExitStack | None = None,
    quick: bool = False,
    lake: Lake | None = None,
    progress: Callable[[str], None] | None = None,
) -> SparkSession:
    """The runtime's session where one runs us, else the local one.

    Args:
        ends: stops a local one that is started; by default it runs as long as the process.
        quick: of a local one that is started: compile less.
        lake: of a local one that is started: what it will look at; if that is small, the session is set for few rows.
        progress: receives a line for each slow step.

    Raises:
        LocalPartsMissing: without a runtime, and pyspark or delta-spark is not installed.
    """
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - --help and faults in files need none

        if on_databricks():
            return SparkSession.builder.getOrCreate()
        from lakestreams.engine.runtime.tuning import SETTINGS  # noqa: PLC0415 - next to its use
        from lakestreams.local.session import spark_session  # noqa: PLC0415 - a local part

        active = SparkSession.getActiveSession()
        is_small = active is None and lake is not None and lake.is_small()
        session = spark_session(quick=quick or is_small, extra_conf=SETTINGS if is_small else None, progress=progress)
    except ModuleNotFoundError as error:
        raise missing(error) from error
    _quiet()
    if ends is not None and session is not active:
        ends.callback(_stop, session)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, _interrupted)
    return session


def _quiet() -> None:
    """Keeps pyspark from logging each refused expression as JSON, with Java's trace: it is reported as an error of ours."""
    with contextlib.suppress(ImportError):
        from pyspark.logger import PySparkLogger  # noqa: PLC0415 - next to the session

        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).disabled = True


def _interrupted(_number: int, _frame: object) -> None:
    """Instead of pyspark's handler, which cancels jobs that end with the JVM anyway and logs the calls it breaks off."""
    logging.disable(logging.CRITICAL)
    raise KeyboardInterrupt


def _stop(session: SparkSession) -> None:
    """Stops a local session; the last thing that a job or command does.

    py4j tells of a JVM that goes away under it by logging a trace; from here on nothing is logged any more.
    """
    session.stop()
    logging.disable(logging.CRITICAL)


def missing(error: ModuleNotFoundError) -> LakestreamsError:
    """The error for a package that is not installed."""
    return LocalPartsMissing(f"the package {error.name} is not installed")


def open_lake(options: LakeOptions) -> Lake:
    """Where the tables are.

    Raises:
        InvalidOption: if that is not known: a catalog without a checkpoint folder, a runtime without either.
        InvalidName: for a schema that statements cannot name.
    """
    from lakestreams.engine.runtime.lake import Lake  # noqa: PLC0415 - needs pyspark

    if options.catalog and not options.root:
        msg = f"catalog {options.catalog!r} is given without a folder for checkpoints"
        raise InvalidOption(msg, hint="add --root /Volumes/<catalog>/<schema>/<volume>; a job's is --checkpoint-root")
    if on_databricks() and not options.root:
        msg = "neither a folder nor a catalog is given for the tables"
        raise InvalidOption(msg, hint="--catalog=... with --checkpoint-root=..., or --root=...")
    rooms = schemas.parse(options.schemas)
    return Lake(options.root or DEFAULT_ROOT, options.catalog, **rooms)  # type: ignore[arg-type]  # names of schemas alone


def settings_of(pipeline: Pipeline, options: RunOptions) -> RunSettings:
    """How the pipeline's run is to go: its file's settings, overridden by the options.

    Raises:
        SecretUnresolved: if a Kafka option refers to a secret that is not there.
        InvalidOption: for a share outside 0 to 1.
    """
    from lakestreams.engine.runtime.settings import RunSettings  # noqa: PLC0415 - the engine needs pyspark

    timing, accepted = options.timing, options.accepted
    share = pipeline.settings.max_bad_share if accepted.max_bad_share is None else accepted.max_bad_share
    if not 0 <= share <= 1:
        msg = f"max_bad_share is {share}"
        raise InvalidOption(msg, hint="a share between 0 and 1, such as 0.05")
    return RunSettings(
        kafka=pipeline.kafka.spark_options(),
        max_offsets_per_trigger=pipeline.settings.max_offsets_per_trigger,
        max_bytes_per_batch=pipeline.settings.max_bytes_per_batch,
        max_bad_share=share,
        snapshot_every=pipeline.settings.snapshot_every,
        settling=pipeline.settings.settling,
        idle_timeout_ms=pipeline.settings.idle_timeout_ms if timing.idle_timeout_ms is None else timing.idle_timeout_ms,
        interval_ms=timing.interval_ms,
        drain=timing.drain,
        accept_data_loss=accepted.data_loss,
        accept_change=accepted.change,
        registry=pipeline.registry,
        config_text=pipeline.text,
        semantics=pipeline.semantics,
    )


# --- runs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """Pipelines with everything that their runs need; made before a session is started, so that faults cost nothing."""

    pipelines: tuple[Pipeline, ...]
    settings: tuple[RunSettings, ...]
    lake: Lake
    interval_ms: int | None = None
    listener: Listener = field(default=lambda _name, _event: None)

    def driver(self, spark: SparkSession, index: int = 0) -> Driver:
        """The driver of one of the pipelines."""
        from lakestreams.engine.driver import Driver  # noqa: PLC0415 - needs pyspark

        pipeline = self.pipelines[index]
        name = pipeline.topology.name
        return Driver(
            spark, pipeline.topology, self.lake, self.settings[index], lambda event: self.listener(name, event)
        )

    def run(self, spark: SparkSession, stop: Callable[[], bool] = lambda: False) -> list[Outcome]:
        """Runs the pipelines one after another; with an interval, round after round until `stop` says so.

        Without an interval a pipeline that fails does not keep the others from their run. With one, the first failure
        ends the job after its round, so that whoever watches it sees it fail and starts it again.

        Returns:
            What became of each pipeline, errors included.
        """
        drivers = [self.driver(spark, index) for index in range(len(self.pipelines))]
        outcomes = [Outcome(pipeline.topology.name) for pipeline in self.pipelines]
        interval = self.interval_ms
        for driver, outcome in zip(drivers, outcomes, strict=True):
            _noting_errors(outcome, partial(driver.run, ends=interval is None))
        while interval is not None and all(outcome.error is None for outcome in outcomes):
            if _waited(interval / 1_000, stop):
                break
            again_in_s = interval / 1_000 if len(drivers) == 1 else None  # the others' rounds come in between
            for driver, outcome in zip(drivers, outcomes, strict=True):
                _noting_errors(outcome, partial(driver.round, again_in_s))
        for driver, outcome in zip(drivers, outcomes, strict=True):
            if outcome.error is None:
                _noting_errors(outcome, driver.end)
        for outcome, pipeline in zip(outcomes, self.pipelines, strict=True):
            if isinstance(outcome.error, LakestreamsError):
                locate(outcome.error, pipeline)
        return outcomes


def _noting_errors(outcome: Outcome, step: Callable[[], Summary | None]) -> None:
    began = time.monotonic()
    try:
        outcome.summary = step() or outcome.summary  # the driver goes on adding to the summary it once returned
    except Exception as error:  # noqa: BLE001 - reported by whoever asked for the run, other pipelines go on
        outcome.error = error
    finally:
        outcome.seconds += time.monotonic() - began


def _waited(seconds: float, stop: Callable[[], bool]) -> bool:
    """Waits; True as soon as the run is to end."""
    until = time.monotonic() + seconds
    while not stop():
        left = until - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(_POLL_S, left))
    return True


def prepare(pipelines: Sequence[Pipeline], options: RunOptions, listener: Listener | None = None) -> Job:
    """Puts together what the pipelines' runs need; nothing is started.

    Raises:
        TableNameCollision: if two pipelines would write to one table.
        InvalidOption, SecretUnresolved: see `open_lake` and `settings_of`.
    """
    from lakestreams.engine.runtime.lake import require_distinct  # noqa: PLC0415 - needs pyspark

    lake = open_lake(options.lake).naming(*(pipeline.topology for pipeline in pipelines))
    require_distinct(_tables(pipelines, lake))
    settings = tuple(settings_of(pipeline, options) for pipeline in pipelines)
    job = Job(tuple(pipelines), settings, lake, options.timing.interval_ms)
    return replace(job, listener=listener) if listener else job


def _tables(pipelines: Iterable[Pipeline], lake: Lake) -> list[tuple[str, Any]]:
    tables: list[tuple[str, Any]] = []
    for pipeline in pipelines:
        name = pipeline.topology.name
        sources, sinks = pipeline.topology.sources, pipeline.topology.sinks
        tables.extend((f"topic {one.topic} of {name}", lake.bronze(name, one.topic)) for one in sources)
        tables.extend((f"output {one.name} of {name}", lake.output(one.name)) for one in sinks)
    return tables
