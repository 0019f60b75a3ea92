"""The arguments of `lakestreams quarantine list | show | replay | discard`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakestreams.cli.command import command
from lakestreams.cli.options import Pipeline, Where
from lakestreams.cli.quarantine_options import Decision, Edits, Wanted

if TYPE_CHECKING:
    from lakestreams.cli.screen import Screen

app = typer.Typer(no_args_is_help=True, help="Records that gave no result: look at them, replay or discard them.")


@app.command(name="list")
@command
def list_records(
    screen: Screen,
    pipeline: Pipeline,
    wanted: Wanted,
    limit: Annotated[int, typer.Option(min=0, help="How many of the newest records.")] = 20,
    *,
    where: Where,
) -> int:
    """What is in quarantine: counts by reason, node and rule, and the newest records without their content.

    Exit codes: 0 shown, 1 it could not be read.
    """
    from lakestreams.cli.quarantine import show_list  # noqa: PLC0415 - rich and the configuration, not for --help

    return show_list(screen, where.options(pipeline), wanted, limit)


@app.command()
@command
def show(
    screen: Screen,
    pipeline: Pipeline,
    wanted: Wanted,
    limit: Annotated[int, typer.Option(min=1, help="How many records, the newest first.")] = 5,
    lines: Annotated[
        bool, typer.Option("--lines", help="As JSON lines: edited, they are what replay --repair takes.")
    ] = False,
    *,
    where: Where,
) -> int:
    """Records in quarantine, whole: reason, rules, coordinates, times, headers, key and value as text or hex.

    Exit codes: 0 shown, 1 there are no such records.
    """
    from lakestreams.cli.quarantine import show_records  # noqa: PLC0415

    return show_records(screen, where.options(pipeline), wanted, limit, lines=lines)


@app.command()
@command
def replay(screen: Screen, pipeline: Pipeline, wanted: Wanted, edits: Edits, decision: Decision, where: Where) -> int:
    """Asks for a new attempt at records, as they are or repaired; the pipeline's next run takes it, once.

    Exit codes: 0 asked for (of a dry run: would be), 1 there is nothing to replay, or it was not confirmed.
    """
    from lakestreams.cli.quarantine import replay as run  # noqa: PLC0415

    return run(screen, where.options(pipeline), wanted, edits, decision)


@app.command()
@command
def discard(screen: Screen, pipeline: Pipeline, wanted: Wanted, decision: Decision, where: Where) -> int:
    """Notes that records need nothing: they stay in quarantine, and are no longer open.

    Exit codes: 0 noted (of a dry run: would be), 1 there is nothing to discard, or it was not confirmed.
    """
    from lakestreams.cli.quarantine import discard as run  # noqa: PLC0415

    return run(screen, where.options(pipeline), wanted, decision)
