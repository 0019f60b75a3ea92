"""The `lakestreams` command and its arguments.

Exit codes of every command: 0 all is well, 1 a fault or error (reported on stderr in its own form), 2 the arguments cannot
be read, 130 interrupted. `run` adds 3: fenced by a newer driver; 2 of `test` is also a file of cases that cannot be
read. Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lakestreams.cli.command import Commands, command
from lakestreams.cli.infer_app import infer
from lakestreams.cli.local_app import app as local
from lakestreams.cli.options import (
    Broker,
    CheckOptions,
    Compared,
    Deployed,
    HowToRun,
    Maintaining,
    NewBundle,
    Pipeline,
    Pipelines,
    Tables,
    Where,
    ms_of,
)
from lakestreams.cli.quarantine_app import app as quarantine
from lakestreams.cli.registry_app import app as registry
from lakestreams.cli.version import print_version
from lakestreams.run.options import RunOptions, Timing

if TYPE_CHECKING:
    from lakestreams.cli.screen import Screen

app = typer.Typer(
    name="lakestreams",
    cls=Commands,
    help="Kafka Streams' joins for the lakehouse.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(local, name="local")
app.add_typer(quarantine, name="quarantine")
app.add_typer(registry, name="registry")
app.command()(infer)


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, help="Print the version and exit.", callback=print_version),
    ] = False,
) -> None:
    """Kafka Streams' joins for the lakehouse."""


@app.command()
@command
def demo(
    screen: Screen,
    keep: Annotated[Path | None, typer.Option(help="Keep tables, files and logs in this folder.")] = None,
) -> int:
    """Plays the whole story on this machine: a real broker, real Spark, a job killed half-way, its results.

    Exit codes: 0 everything came out as it should, 1 something did not.
    """
    from lakestreams.cli.demo import run  # noqa: PLC0415

    return run(screen, keep)


@app.command()
@command
def check(
    screen: Screen,
    pipeline: Annotated[
        list[Path] | None,
        typer.Argument(help="Pipeline files, such as conf/enrichment.yml; none are needed with --target."),
    ] = None,
    *,
    where: Where,
    kafka: Broker,
    interval: Annotated[
        str | None, typer.Option(help="How far apart runs will be, such as 30s: windows are measured by it.")
    ] = None,
    wanted: CheckOptions,
    deployed: Deployed,
    workspace: Annotated[
        bool, typer.Option("--workspace/--no-workspace", help="With --target: whether workspace and broker are asked.")
    ] = True,
) -> int:
    """Finds what is wrong before anything starts, all faults at once: in pipelines, in a bundle's target.

    Exit codes: 0 no fault, 1 faults.
    """
    if not pipeline and deployed.target is None:
        msg = "name pipeline files, or a --target, or both"
        raise typer.BadParameter(msg)
    if not pipeline and wanted.data:
        msg = "--data looks at what pipelines have read: name their files"
        raise typer.BadParameter(msg)
    target_report = None
    if deployed.target is not None:
        from lakestreams.cli import target  # noqa: PLC0415

        asked = target.Target.of(deployed.bundle, deployed.target, deployed.var)
        target_report = target.check(screen, asked, ask=workspace, broker=kafka.broker)
        if not pipeline:
            screen.result({"ok": target_report.ok, "target": target_report.as_dict()})
            return 0 if target_report.ok else 1
    from lakestreams.cli.check import run  # noqa: PLC0415

    files = where.files(*(pipeline or ()), bootstrap_servers=kafka.bootstrap_servers)
    if wanted.svg is not None and len(files.pipelines) > 1:
        msg = "--svg draws one pipeline into one file; check them one by one"
        raise typer.BadParameter(msg)
    options = RunOptions(files, where.lake, Timing(ms_of(interval, "--interval")))
    return run(screen, options, wanted, broker=kafka.broker, target_report=target_report)


@app.command(name="run")
@command
def run_pipelines(screen: Screen, pipeline: Pipelines, where: Where, how: HowToRun) -> int:
    """Runs pipelines one after another in one session.

    Exit codes: 0 done (with --interval also: ended by Ctrl-C), 1 a pipeline failed, 3 fenced, 130 interrupted.
    """
    from lakestreams.cli.run import run  # noqa: PLC0415

    return run(screen, how.options(where, *pipeline))


@app.command(name="test")
@command
def run_cases(
    screen: Screen,
    places: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE|FOLDER]...", help="Files of cases, and folders that have some; by default tests."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("-k", help="Only cases with this in their name.")] = None,
) -> int:
    """Runs given/expect cases from YAML files, without a broker and without tables.

    Exit codes: 0 all passed, 1 a case failed, 2 a file, or the topology it names, cannot be used.
    """
    from lakestreams.cli.test import run_cases  # noqa: PLC0415

    return run_cases(screen, places or [], name)


@app.command()
@command
def watch(
    screen: Screen,
    places: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE|FOLDER]...", help="What is watched; by default conf and tests."),
    ] = None,
    name: Annotated[str | None, typer.Option("-k", help="Only cases with this in their name.")] = None,
) -> int:
    """Checks files and runs their cases whenever one changes, until Ctrl-C: for development.

    Exit codes: 0 ended by Ctrl-C, 1 there is nothing to watch.
    """
    from lakestreams.cli.watch import run  # noqa: PLC0415

    return run(screen, places or [], name)


@app.command()
@command
def show(
    screen: Screen,
    name: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="Such as silver.page_views; without one the tables are listed."),
    ] = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="How many rows at most.")] = 20,
    condition: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="Only rows for which this is true.")
    ] = None,
    as_of: Annotated[
        str | None, typer.Option(metavar="VERSION|TIME", help="The table as it was: 12, or 2026-01-31T12:00:00Z.")
    ] = None,
    *,
    tables: Tables,
) -> int:
    """Shows a table of the lake: its newest rows by event time, or the first ones by their columns.

    Exit codes: 0 shown, 1 there is no such table, or no such column.
    """
    from lakestreams.cli.show import Wanted, run  # noqa: PLC0415

    return run(screen, tables.lake, name, Wanted(limit, condition, as_of))


@app.command()
@command
def explain(
    screen: Screen,
    code: Annotated[
        str, typer.Argument(help="Such as LS203; or expressions, kafka-options, pipelines.", show_default=False)
    ],
) -> int:
    """Says what an error means and what to do about it, or what files may say.

    Exit codes: 0 said, 1 there is no such code or page.
    """
    from lakestreams.cli.explain import run  # noqa: PLC0415

    return run(screen, code)


@app.command()
@command
def status(
    screen: Screen,
    pipeline: Annotated[
        list[Path] | None, typer.Argument(help="Pipeline files; all pipelines of the lake if none is given.")
    ] = None,
    *,
    where: Where,
    kafka: Broker,
    deployed: Deployed,
) -> int:
    """Shows where pipelines stand: cycles, offsets, lag, quarantine. With --target: jobs and their last runs.

    Exit codes: 0 shown, 1 it could not be read.
    """
    if deployed.target is not None and pipeline:
        msg = "a --target has jobs, pipelines have tables: ask for one at a time"
        raise typer.BadParameter(msg)
    if deployed.target is not None:
        from lakestreams.cli import target  # noqa: PLC0415

        return target.status(screen, target.Target.of(deployed.bundle, deployed.target, deployed.var))
    from lakestreams.cli.status import run  # noqa: PLC0415

    options = where.options(*(pipeline or ()), bootstrap_servers=kafka.bootstrap_servers)
    return run(screen, options, broker=kafka.broker)


@app.command()
@command
def verify(screen: Screen, pipeline: Pipelines, where: Where, wanted: Compared) -> int:
    """Recomputes finished cycles from bronze and compares them with the tables, row for row.

    Exit codes: 0 equal, 1 something differs.
    """
    from lakestreams.cli.verify import run  # noqa: PLC0415

    return run(screen, where.options(*pipeline), wanted.options)


@app.command()
@command
def maintain(screen: Screen, pipeline: Pipelines, where: Where, wanted: Maintaining) -> int:
    """Maintains tables while jobs run: trims bronze, joins small files, removes files of old versions.

    Exit codes: 0 done, 1 it could not be done.
    """
    from lakestreams.cli.maintain import run  # noqa: PLC0415

    return run(screen, where.options(*pipeline), wanted.options)


@app.command()
@command
def why(
    screen: Screen,
    pipeline: Pipeline,
    key: Annotated[str | None, typer.Option(help="The records of this key, and of its results.")] = None,
    place: Annotated[
        str | None,
        typer.Option("--at", metavar="TOPIC-PARTITION@OFFSET", help="One record, or with #ATTEMPT one replay of it."),
    ] = None,
    *,
    where: Where,
) -> int:
    """Says what became of a record, and which records made a result.

    Exit codes: 0 shown, 1 there is no such record, and no result of such a key.
    """
    from lakestreams.cli.why import run  # noqa: PLC0415

    return run(screen, where.options(pipeline), key, place)


@app.command()
@command
def report(
    screen: Screen,
    pipeline: Pipeline,
    where: Where,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page's file; an existing one is replaced.")] = Path(
        "report.html"
    ),
    cycles: Annotated[int, typer.Option(min=1, max=500, help="How many of the newest cycles it covers.")] = 200,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Show keys and values of the examples in quarantine.")
    ] = False,
) -> int:
    """Writes one HTML page about a pipeline: its drawing, rates, lag, expectations, quarantine.

    Exit codes: 0 written, 1 it could not be.
    """
    from lakestreams.cli.report import run  # noqa: PLC0415

    return run(screen, where.options(pipeline), out=out, cycles=cycles, values=show_values)


@app.command()
@command
def init(
    screen: Screen,
    folder: Annotated[
        str,
        typer.Argument(help="The new folder, whose name is the bundle's; or the word pipeline.", show_default=False),
    ],
    wanted: NewBundle,
    pipeline: Annotated[
        str | None, typer.Argument(help="After the word pipeline: the name of a further one for this project.")
    ] = None,
    python: Annotated[bool, typer.Option("--python", help="With pipeline: declare it in Python.")] = False,
) -> int:
    """Writes a small Databricks bundle: jobs, pipelines, topics, cases, a notebook.

    `init pipeline NAME` adds a pipeline to the project in this folder: a file in conf/, and a file of cases.

    Exit codes: 0 written, 1 it could not be.
    """
    from lakestreams.cli import init  # noqa: PLC0415

    if init.is_pipeline(folder, pipeline, wanted, python=python):
        return init.add_pipeline(screen, pipeline or "", python=python)
    return init.run(screen, Path(folder), wanted)


@app.command()
@command
def dbx(
    screen: Screen,
    bundle: Annotated[
        Path, typer.Option("--bundle", metavar="FOLDER", help="Where databricks.yml is; here by default.")
    ] = Path(),
) -> int:
    """Writes conf/deployment.yml, the bundle's jobs for dbx, from databricks.yml and what it includes.

    Exit codes: 0 written, or up to date, 1 it could not be.
    """
    from lakestreams.cli.dbx import run  # noqa: PLC0415

    return run(screen, bundle)


@app.command()
@command
def schema(
    screen: Screen,
    file: Annotated[Literal["pipeline", "sources", "cases"], typer.Argument(help="Which file's schema.")] = "pipeline",
) -> int:
    """Prints the JSON Schema of a configuration file, for editors.

    Exit codes: 0 printed.
    """
    from lakestreams.config.schema import schema_text  # noqa: PLC0415

    screen.out(schema_text(file))  # JSON either way
    return 0


@app.command()
@command
def version(screen: Screen) -> int:
    """Prints the versions of lakestreams and of what it runs on.

    Exit codes: 0 printed.
    """
    from lakestreams.cli.version import run  # noqa: PLC0415

    return run(screen)


def main() -> None:
    """The command `lakestreams`: ends the process."""
    app()
