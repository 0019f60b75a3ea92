"""`lakestreams registry`: schemas of a registry as files of a project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakestreams.cli.command import command

if TYPE_CHECKING:
    from lakestreams.cli.screen import Screen

app = typer.Typer(no_args_is_help=True, help="Schemas of the schema registry.")


@app.callback()
def _root() -> None:
    """Schemas of the schema registry."""


@app.command()
@command
def pull(
    screen: Screen,
    subject: Annotated[str, typer.Argument(help="Such as orders-value.", show_default=False)],
    version: Annotated[int | None, typer.Option(min=1, help="Its version; the newest one by default.")] = None,
    sources: Annotated[Path, typer.Option(help="The file that says where the registry is.")] = Path("conf/sources.yml"),
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="By default schemas/SUBJECT.vVERSION.avsc (.json, .proto) next to that file."
        ),
    ] = None,
) -> int:
    """Writes one version of a subject into a file, for pipelines that read records as this schema.

    Exit codes: 0 written, or there already, 1 there is no such version, or another file is in the way.
    """
    from lakestreams.cli.registry import pull as run  # noqa: PLC0415

    return run(screen, subject, version, sources, out)
