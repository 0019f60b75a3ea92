"""The arguments of `lakestreams quarantine list | show | replay | discard`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakestreams.cli.arguments import AsJson, Catalog, Root, Schemas, Sources, command

if TYPE_CHECKING:
    from lakestreams.cli.quarantine import Wanted
    from lakestreams.run.runner import RunOptions

app = typer.Typer(no_args_is_help=True, help="Records that gave no result: look at them, replay or discard them.")

Pipeline = Annotated[Path, typer.Argument(help="The pipeline's file.", show_default=False)]
Code = Annotated[list[str] | None, typer.Option(help="Only with this reason, such as LATE; repeatable.")]
Rule = Annotated[list[str] | None, typer.Option(help="Only what broke this rule; repeatable.")]
Node = Annotated[list[str] | None, typer.Option(help="Only what this source or step has refused; repeatable.")]
Topic = Annotated[list[str] | None, typer.Option(help="Only of this topic, or source; repeatable.")]
State = Annotated[
    list[str] | None,
    typer.Option(help="Only in this state: open, requested, replayed, superseded or discarded; repeatable."),
]
Partition = Annotated[int | None, typer.Option(min=0, help="Only of this partition.")]
From = Annotated[int | None, typer.Option("--from", min=0, help="The first offset.")]
To = Annotated[int | None, typer.Option("--to", min=0, help="The last offset.")]
Offset = Annotated[int | None, typer.Option(min=0, help="This offset alone.")]
Place = Annotated[str | None, typer.Option("--at", metavar="TOPIC-PARTITION@OFFSET", help="One record.")]
Cycle = Annotated[int | None, typer.Option(min=1, help="Only what this cycle has refused.")]
Since = Annotated[str | None, typer.Option(help="Only what was ingested since: 2h, 2026-01-31, 2026-01-31T12:00:00.")]
Again = Annotated[bool, typer.Option("--again", help="Also what was replayed, superseded or discarded before.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Reason = Annotated[str, typer.Option(help="Why, for whoever looks later.")]


def _wanted(
    code: list[str] | None,
    rule: list[str] | None,
    node: list[str] | None,
    topic: list[str] | None,
    state: list[str] | None,
    numbers: tuple[int | None, int | None, int | None, int | None, int | None],
    place: str | None,
    since: str | None,
) -> Wanted:
    """The options together; numbers are partition, offset, from, to and cycle."""
    from lakestreams.cli.quarantine import Wanted  # noqa: PLC0415 - rich and the configuration, not for --help

    partition, offset, from_offset, to_offset, cycle = numbers
    if offset is not None and (from_offset is not None or to_offset is not None):
        msg = "--offset is one, --from and --to are a stretch of them"
        raise typer.BadParameter(msg)
    if place is not None and (topic or partition is not None or offset is not None):
        msg = "--at names topic, partition and offset already"
        raise typer.BadParameter(msg)
    first, last = (from_offset, to_offset) if offset is None else (offset, offset)
    codes, rules, nodes, topics, states = (tuple(given or ()) for given in (code, rule, node, topic, state))
    return Wanted(codes, rules, nodes, topics, states, partition, first, last, cycle, place, since)


def _options(
    pipeline: Path, sources: Path | None, root: str | None, catalog: str | None, schemas: str | None
) -> RunOptions:
    from lakestreams.run.runner import RunOptions  # noqa: PLC0415 - as above

    return RunOptions((pipeline,), sources, root, catalog, schemas)


@app.command(name="list")
@command
def list_records(
    pipeline: Pipeline,
    code: Code = None,
    rule: Rule = None,
    node: Node = None,
    topic: Topic = None,
    state: State = None,
    partition: Partition = None,
    offset: Offset = None,
    from_offset: From = None,
    to_offset: To = None,
    place: Place = None,
    cycle: Cycle = None,
    since: Since = None,
    limit: Annotated[int, typer.Option(min=0, help="How many of the newest records.")] = 20,
    sources: Sources = None,
    root: Root = None,
    catalog: Catalog = None,
    schemas: Schemas = None,
    as_json: AsJson = False,
) -> int:
    """What is in quarantine: counts by reason, node and rule, and the newest records without their content.

    Exit codes: 0 shown, 1 it could not be read.
    """
    from lakestreams.cli.quarantine import show_list  # noqa: PLC0415
    from lakestreams.cli.screen import Screen  # noqa: PLC0415

    numbers = (partition, offset, from_offset, to_offset, cycle)
    wanted = _wanted(code, rule, node, topic, state, numbers, place, since)
    return show_list(Screen(as_json=as_json), _options(pipeline, sources, root, catalog, schemas), wanted, limit)


@app.command()
@command
def show(
    pipeline: Pipeline,
    code: Code = None,
    rule: Rule = None,
    node: Node = None,
    topic: Topic = None,
    state: State = None,
    partition: Partition = None,
    offset: Offset = None,
    from_offset: From = None,
    to_offset: To = None,
    place: Place = None,
    cycle: Cycle = None,
    since: Since = None,
    limit: Annotated[int, typer.Option(min=1, help="How many records, the newest first.")] = 5,
    lines: Annotated[
        bool, typer.Option("--lines", help="As JSON lines: edited, they are what replay --repair takes.")
    ] = False,
    sources: Sources = None,
    root: Root = None,
    catalog: Catalog = None,
    schemas: Schemas = None,
    as_json: AsJson = False,
) -> int:
    """Records in quarantine, whole: reason, rules, coordinates, times, headers, key and value as text or hex.

    Exit codes: 0 shown, 1 there is none of that.
    """
    from lakestreams.cli.quarantine import show_records  # noqa: PLC0415
    from lakestreams.cli.screen import Screen  # noqa: PLC0415

    numbers = (partition, offset, from_offset, to_offset, cycle)
    wanted = _wanted(code, rule, node, topic, state, numbers, place, since)
    options = _options(pipeline, sources, root, catalog, schemas)
    return show_records(Screen(as_json=as_json), options, wanted, limit, lines=lines)


@app.command()
@command
def replay(
    pipeline: Pipeline,
    code: Code = None,
    rule: Rule = None,
    node: Node = None,
    topic: Topic = None,
    state: State = None,
    partition: Partition = None,
    offset: Offset = None,
    from_offset: From = None,
    to_offset: To = None,
    place: Place = None,
    cycle: Cycle = None,
    since: Since = None,
    repair: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON lines with new keys, values or timestamps; only these records."),
    ] = None,
    set_value: Annotated[str | None, typer.Option(metavar="TEXT", help="The new value of the one record.")] = None,
    again: Again = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    reason: Reason = "",
    sources: Sources = None,
    root: Root = None,
    catalog: Catalog = None,
    schemas: Schemas = None,
    as_json: AsJson = False,
) -> int:
    """Asks for a new attempt at records, as they are or repaired; the pipeline's next run takes it, once.

    Exit codes: 0 asked for (of a dry run: would be), 1 there is nothing to replay, or it was not confirmed.
    """
    from lakestreams.cli.quarantine import Decision  # noqa: PLC0415
    from lakestreams.cli.quarantine import replay as run  # noqa: PLC0415
    from lakestreams.cli.screen import Screen  # noqa: PLC0415

    if repair is not None and set_value is not None:
        msg = "--repair and --set-value exclude each other"
        raise typer.BadParameter(msg)
    numbers = (partition, offset, from_offset, to_offset, cycle)
    wanted = _wanted(code, rule, node, topic, state, numbers, place, since)
    decision = Decision(again, dry_run, yes, reason, repair, set_value)
    return run(Screen(as_json=as_json), _options(pipeline, sources, root, catalog, schemas), wanted, decision)


@app.command()
@command
def discard(
    pipeline: Pipeline,
    code: Code = None,
    rule: Rule = None,
    node: Node = None,
    topic: Topic = None,
    state: State = None,
    partition: Partition = None,
    offset: Offset = None,
    from_offset: From = None,
    to_offset: To = None,
    place: Place = None,
    cycle: Cycle = None,
    since: Since = None,
    again: Again = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    reason: Reason = "",
    sources: Sources = None,
    root: Root = None,
    catalog: Catalog = None,
    schemas: Schemas = None,
    as_json: AsJson = False,
) -> int:
    """Notes that records need nothing: they stay in quarantine, and are no longer open.

    Exit codes: 0 noted (of a dry run: would be), 1 there is nothing to discard, or it was not confirmed.
    """
    from lakestreams.cli.quarantine import Decision  # noqa: PLC0415
    from lakestreams.cli.quarantine import discard as run  # noqa: PLC0415
    from lakestreams.cli.screen import Screen  # noqa: PLC0415

    numbers = (partition, offset, from_offset, to_offset, cycle)
    wanted = _wanted(code, rule, node, topic, state, numbers, place, since)
    decision = Decision(again, dry_run, yes, reason)
    return run(Screen(as_json=as_json), _options(pipeline, sources, root, catalog, schemas), wanted, decision)
