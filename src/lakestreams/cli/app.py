"""The `lakestreams` command and its arguments.

Exit codes of every command: 0 all is well, 1 a fault or error (told on stderr in its own form), 2 the arguments cannot
be read, 130 interrupted. `run` adds 3: fenced by a newer driver; 2 of `test` is also a file of cases that cannot be
read. Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from lakestreams.cli.arguments import (
    AsJson,
    AskBroker,
    BundleFolder,
    Catalog,
    Pipelines,
    Root,
    Schemas,
    Servers,
    Sources,
    Target,
    Variables,
    command,
)
from lakestreams.cli.quarantine_app import app as quarantine

app = typer.Typer(
    name="lakestreams",
    help="Kafka Streams' joins for the lakehouse.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
local = typer.Typer(no_args_is_help=True, help="A broker of one's own on this machine.")
app.add_typer(local, name="local")
app.add_typer(quarantine, name="quarantine")


@app.command()
@command
def demo(
    keep: Annotated[Path | None, typer.Option(help="Keep tables, files and logs in this folder.")] = None,
    as_json: AsJson = False,
) -> int:
    """The whole story on this machine: a real broker, real Spark, a job killed half-way, its results.

    Exit codes: 0 everything came out as it should, 1 something did not.
    """
    from lakestreams.cli.demo import run  # noqa: PLC0415
    from lakestreams.cli.screen import Screen  # noqa: PLC0415

    return run(Screen(as_json=as_json), keep)


@app.command()
@command
def check(
    pipeline: Annotated[
        list[Path] | None,
        typer.Argument(help="Pipeline files, such as conf/enrichment.yml; none are needed with --target."),
    ] = None,
    sources: Sources = None,
    root: Root = None,
    catalog: Catalog = None,
    schemas: Schemas = None,
    bootstrap_servers: Servers = None,
    broker: AskBroker = True,
    interval: Annotated[
        str | None, typer.Option(help="How far apart runs will be, such as 30s: windows are measured by it.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also the plan in words, the tables, the cost and the drawing.")
    ] = False,
    records_per_second: Annotated[
        float, typer.Option(min=0.0, help="With --explain: what the cost is told for, of all topics together.")
    ] = 1_000.0,
    table_rows: Annotated[
        int, typer.Option(min=0, help="With --explain: how many live keys each table has.")
    ] = 100_000,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the pipeline into this file, as SVG.")] = None,
    data: Annotated[
        bool, typer.Option("--data", help="Also how the topics are partitioned, judged from the records in bronze.")
    ] = False,
    newest: Annotated[
        int, typer.Option(min=1, help="With --data: so many records of each topic, the newest.")
    ] = 200_000,
    target: Target = None,
    bundle: BundleFolder = Path(),
    var: Variables = None,
    workspace: Annotated[
        bool, typer.Option("--workspace/--no-workspace", help="With --target: whether workspace and broker are asked.")
    ] = True,
    as_json: AsJson = False,
) -> int:
    """Everything that can be wrong before anything starts, all faults at once: of pipelines, of a bundle's target.

    Exit codes: 0 no fault, 1 faults.
    """
    from lakestreams.cli.screen import Screen  # noqa: PLC0415

    if not pipeline and target is None:
        msg = "name pipeline files, or a --target, or both"
        raise typer.BadParameter(msg)
    if not pipeline and data:
        msg = "--data looks at what pipelines have read: name their files"
        raise typer.BadParameter(msg)
    found = None
    if target is not None:
        from lakestreams.cli.target import check as check_target  # noqa: PLC0415
        from lakestreams.cli.target import variables_of  # noqa: PLC0415

        given = variables_of(var or ())
        found = check_target(Screen(as_json=as_json), bundle, target, given, ask=workspace, broker=broker)
        if not pipeline:
            Screen(as_json=as_json).result({"ok": found.ok, "target": found.as_dict()})
            return 0 if found.ok else 1
    from lakestreams.cli.check import run  # noqa: PLC0415
    from lakestreams.run.runner import RunOptions  # noqa: PLC0415
    from lakestreams.topology.durations import to_ms  # noqa: PLC0415

    pipeline = pipeline or []
    if svg is not None and len(pipeline) > 1:
        msg = "--svg draws one pipeline into one file; check them one by one"
        raise typer.BadParameter(msg)
    apart = None if interval is None else to_ms(interval, "--interval")
    options = RunOptions(
        tuple(pipeline), sources, root, catalog, schemas, interval_ms=apart, bootstrap_servers=bootstrap_servers
    )
    return run(
        Screen(as_json=as_json),
        options,
        broker=broker,
        explain=explain,
        drawing=svg,
        beside=found,
        newest=newest if data else None,
        records_per_second=records_per_second,
        table_rows=table_rows,
    )


@app.command(name="run")
@command
def run_pipelines(
    pipeline: Pipelines,
    sources: Sources = None,
    root: Root = None,
    catalog: Catalog = None,
    schemas: Schemas = None,
    interval: Annotated[
        str | None, typer.Option(help="Run round after round, this long apart, such as 5s, until Ctrl-C.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="One run over what is there now (the default).")] = False,
    max_bad_share: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Unreadable records of a source at which a run fails.")
    ] = None,
    idle_timeout: Annotated[
        str | None, typer.Option(help="How long an input must be silent for its clock to go on by itself, such as 1m.")
    ] = None,
    drain: Annotated[
        bool, typer.Option("--drain", help="No record will come: whatever waits for one comes out.")
    ] = False,
    accept_data_loss: Annotated[
        bool, typer.Option("--accept-data-loss", help="Go on where records expired unread; which is written down.")
    ] = False,
    accept_change: Annotated[
        bool,
        typer.Option("--accept-change", help="Go on where the pipeline has changed over existing results."),
    ] = False,
    bootstrap_servers: Servers = None,
    quick: Annotated[bool, typer.Option("--quick", help="A session that starts sooner and computes slower.")] = False,
    as_json: AsJson = False,
) -> int:
    """Runs pipelines one after another in one session.

    Exit codes: 0 done (with --interval also: ended by Ctrl-C), 1 a pipeline failed, 3 fenced, 130 interrupted.
    """
    from lakestreams.cli.run import run  # noqa: PLC0415
    from lakestreams.cli.screen import Screen  # noqa: PLC0415
    from lakestreams.run.runner import RunOptions  # noqa: PLC0415
    from lakestreams.topology.durations import to_ms  # noqa: PLC0415

    if once and interval is not None:
        msg = "--once and --interval exclude each other"
        raise typer.BadParameter(msg)
    options = RunOptions(
        tuple(pipeline),
        sources,
        root,
        catalog,
        schemas,
        interval_ms=None if interval is None else to_ms(interval, "--interval"),
        max_bad_share=max_bad_share,
        idle_timeout_ms=None if idle_timeout is None else to_ms(idle_timeout, "--idle-timeout"),
        drain=drain,
        accept_data_loss=accept_data_loss,
        accept_change=accept_change,
        bootstrap_servers=bootstrap_servers,
        quick=quick,
    )
    return run(Screen(as_json=as_json), options)


@app.command(name="test")
@command
def run_cases(
    places: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE|FOLDER]...", help="Files of cases, and folders that have some; by default tests."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("-k", help="Only cases with this in their name.")] = None,
    as_json: AsJson = False,
) -> int:
    """Runs given/expect cases from YAML files: no broker, no tables, the cases of a topology in the same Spark jobs.

    Exit codes: 0 all passed, 1 a case failed, 2 a file, or the topology it names, cannot be used.
    """
    from lakestreams.cli.screen import Screen  # noqa: PLC0415
    from lakestreams.cli.test import run_cases  # noqa: PLC0415

    return run_cases(Screen(as_json=as_json), places or [], name)


@app.command()
@command
def status(
    pipeline: Annotated[
        list[Path] | None, typer.Argument(help="Pipeline files; all pipelines of the lake if none is given.")
    ] = None,
    sources: Sources = None,
    root: Root = None,
    catalog: Catalog = None,
    schemas: Schemas = None,
    bootstrap_servers: Servers = None,
    broker: AskBroker = True,
    target: Target = None,
    bundle: BundleFolder = Path(),
    var: Variables = None,
    as_json: AsJson = False,
) -> int:
    """Where pipelines stand: epoch, cycles, offsets, lag, what is held and why, quarantine. Of a target: jobs, last runs.

    Exit codes: 0 shown, 1 it could not be read.
    """
    from lakestreams.cli.screen import Screen  # noqa: PLC0415

    if target is not None and pipeline:
        msg = "a --target has jobs, pipelines have tables: ask for one at a time"
        raise typer.BadParameter(msg)
    if target is not None:
        from lakestreams.cli.target import status as status_of_target  # noqa: PLC0415
        from lakestreams.cli.target import variables_of  # noqa: PLC0415

        return status_of_target(Screen(as_json=as_json), bundle, target, variables_of(var or ()))
    from lakestreams.cli.status import run  # noqa: PLC0415
    from lakestreams.run.runner import RunOptions  # noqa: PLC0415

    options = RunOptions(tuple(pipeline or ()), sources, root, catalog, schemas, bootstrap_servers=bootstrap_servers)
    return run(Screen(as_json=as_json), options, broker=broker)


@app.command()
@command
def verify(
    pipeline: Pipelines,
    sources: Sources = None,
    root: Root = None,
    catalog: Catalog = None,
    schemas: Schemas = None,
    from_cycle: Annotated[int | None, typer.Option("--from", min=1, help="The first cycle to compare.")] = None,
    to_cycle: Annotated[int | None, typer.Option("--to", min=1, help="The last cycle to compare.")] = None,
    ask_second: Annotated[
        bool,
        typer.Option("--second-opinion/--no-second-opinion", help="Compare the joins with plain SQL as well."),
    ] = True,
    as_json: AsJson = False,
) -> int:
    """Recomputes what finished cycles gave, from bronze in one batch, and compares it with the tables, row for row.

    Exit codes: 0 equal, 1 something differs.
    """
    from lakestreams.cli.screen import Screen  # noqa: PLC0415
    from lakestreams.cli.verify import run  # noqa: PLC0415
    from lakestreams.run.runner import RunOptions  # noqa: PLC0415

    options = RunOptions(tuple(pipeline), sources, root, catalog, schemas)
    return run(Screen(as_json=as_json), options, from_cycle, to_cycle, ask_second=ask_second)


@app.command()
@command
def maintain(
    pipeline: Pipelines,
    sources: Sources = None,
    root: Root = None,
    catalog: Catalog = None,
    schemas: Schemas = None,
    retention: Annotated[
        str | None,
        typer.Option(
            help="Trim records that were ingested longer ago, such as 30d; by default the pipeline's bronze_retention."
        ),
    ] = None,
    outputs: Annotated[bool, typer.Option("--outputs", help="Look after the outputs' files as well.")] = False,
    vacuum_retention: Annotated[
        str | None, typer.Option(help="How long files of old versions stay; 7 days by default, which is the least.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")] = False,
    as_json: AsJson = False,
) -> int:
    """Looks after tables, beside running jobs: trims bronze, joins small files, removes files of old versions.

    Exit codes: 0 done, 1 it could not be done.
    """
    from lakestreams.cli.maintain import run  # noqa: PLC0415
    from lakestreams.cli.screen import Screen  # noqa: PLC0415
    from lakestreams.run.runner import RunOptions  # noqa: PLC0415
    from lakestreams.topology.durations import to_ms  # noqa: PLC0415

    return run(
        Screen(as_json=as_json),
        RunOptions(tuple(pipeline), sources, root, catalog, schemas),
        retention_ms=None if retention is None else to_ms(retention, "--retention"),
        vacuum_ms=None if vacuum_retention is None else to_ms(vacuum_retention, "--vacuum-retention"),
        outputs=outputs,
        dry_run=dry_run,
    )


@app.command()
@command
def why(
    pipeline: Annotated[Path, typer.Argument(help="The pipeline's file.", show_default=False)],
    key: Annotated[str | None, typer.Option(help="The records of this key, and of its results.")] = None,
    place: Annotated[str | None, typer.Option("--at", metavar="TOPIC-PARTITION@OFFSET", help="One record.")] = None,
    sources: Sources = None,
    root: Root = None,
    catalog: Catalog = None,
    schemas: Schemas = None,
    as_json: AsJson = False,
) -> int:
    """What became of a record, and where results come from.

    Exit codes: 0 told, 1 there is no such record, and no result of such a key.
    """
    from lakestreams.cli.screen import Screen  # noqa: PLC0415
    from lakestreams.cli.why import run  # noqa: PLC0415
    from lakestreams.run.runner import RunOptions  # noqa: PLC0415

    return run(Screen(as_json=as_json), RunOptions((pipeline,), sources, root, catalog, schemas), key, place)


@app.command()
@command
def report(
    pipeline: Annotated[Path, typer.Argument(help="The pipeline's file.", show_default=False)],
    sources: Sources = None,
    root: Root = None,
    catalog: Catalog = None,
    schemas: Schemas = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page's file; what is there is replaced.")] = Path(
        "report.html"
    ),
    cycles: Annotated[int, typer.Option(min=1, max=500, help="Of how many of the newest cycles it tells.")] = 200,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Show keys and values of the examples in quarantine.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """What a pipeline has done, as one HTML page: drawing with counts, rates, lag, expectations, quarantine.

    Exit codes: 0 written, 1 it could not be.
    """
    from lakestreams.cli.report import run  # noqa: PLC0415
    from lakestreams.cli.screen import Screen  # noqa: PLC0415
    from lakestreams.run.runner import RunOptions  # noqa: PLC0415

    options = RunOptions((pipeline,), sources, root, catalog, schemas)
    return run(Screen(as_json=as_json), options, out=out, cycles=cycles, values=show_values)


@app.command()
@command
def init(
    folder: Annotated[Path, typer.Argument(help="The new folder; its name is the bundle's.", show_default=False)],
    job: Annotated[
        list[str] | None, typer.Option(help="A job to begin with: enrichment, correlation or fk_join; all by default.")
    ] = None,
    wheel: Annotated[Path | None, typer.Option(metavar="FILE", help="The wheel that the jobs are to run.")] = None,
    for_dbx: Annotated[bool, typer.Option("--dbx", help="Also conf/deployment.yml, the same jobs for dbx.")] = False,
    as_json: AsJson = False,
) -> int:
    """Writes a small Databricks bundle of one's own: jobs, pipelines, topics, cases, a notebook.

    Exit codes: 0 written, 1 it could not be.
    """
    from lakestreams.cli.init import run  # noqa: PLC0415
    from lakestreams.cli.screen import Screen  # noqa: PLC0415

    return run(Screen(as_json=as_json), folder, tuple(job or ()), wheel, dbx=for_dbx)


@app.command()
@command
def dbx(
    bundle: Annotated[
        Path, typer.Option("--bundle", metavar="FOLDER", help="Where databricks.yml is; here by default.")
    ] = Path(),
    as_json: AsJson = False,
) -> int:
    """Writes conf/deployment.yml, a bundle's jobs for dbx, anew from databricks.yml and what it includes.

    Exit codes: 0 written, or up to date, 1 it could not be.
    """
    from lakestreams.cli.dbx import run  # noqa: PLC0415
    from lakestreams.cli.screen import Screen  # noqa: PLC0415

    return run(Screen(as_json=as_json), bundle)


@app.command()
@command
def schema(
    file: Annotated[Literal["pipeline", "sources", "cases"], typer.Argument(help="Which file's schema.")] = "pipeline",
    as_json: AsJson = False,  # noqa: ARG001 - it is JSON either way
) -> int:
    """Prints the JSON Schema of a configuration file, for editors.

    Exit codes: 0 printed.
    """
    from lakestreams.config.schema import schema_text  # noqa: PLC0415

    sys.stdout.write(schema_text(file))
    return 0


@app.command()
@command
def version(as_json: AsJson = False) -> int:
    """Prints the versions of lakestreams and of what it runs on.

    Exit codes: 0 printed.
    """
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    from lakestreams import __version__  # noqa: PLC0415

    found: dict[str, str | None] = {"lakestreams": __version__, "python": sys.version.split()[0]}
    for package in ("pyspark", "delta-spark", "confluent-kafka"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    if as_json:
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
    else:
        shown = (f"{name} {number or 'not installed'}" for name, number in found.items())
        sys.stdout.write("\n".join(shown) + "\n")
    return 0


@local.command()
@command
def up(
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the broker's data; it is kept.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the data for the next `up`.")] = False,
    as_json: AsJson = False,
) -> int:
    """Starts a Kafka broker on 127.0.0.1, or finds the one that runs.

    Exit codes: 0 it runs, 1 it could not be started.
    """
    from dataclasses import asdict  # noqa: PLC0415

    from lakestreams.cli.screen import Screen  # noqa: PLC0415
    from lakestreams.local import broker  # noqa: PLC0415 - needs confluent-kafka

    screen = Screen(as_json=as_json)
    with screen.working("starting the broker"):
        found = broker.up(data_dir, keep, progress=screen.say)
    screen.say(f"broker at {found.bootstrap_servers} (log {found.log})")
    screen.say(f"  export KAFKA_BOOTSTRAP={found.bootstrap_servers}")
    screen.result(asdict(found))
    return 0


@local.command()
@command
def down(as_json: AsJson = False) -> int:
    """Ends the broker that `up` started.

    Exit codes: 0 it is gone, also when there was none.
    """
    from lakestreams.cli.screen import Screen  # noqa: PLC0415
    from lakestreams.local import broker  # noqa: PLC0415 - needs confluent-kafka

    screen = Screen(as_json=as_json)
    ended = broker.down()
    screen.say("broker ended" if ended else "no broker was running")
    screen.result({"ended": ended})
    return 0


def main() -> None:
    """The command `lakestreams`: ends the process."""
    try:
        app()
    finally:
        if "lakestreams.run.runner" in sys.modules:  # else no session was started; --help does not import it
            sys.modules["lakestreams.run.runner"].close_session()
