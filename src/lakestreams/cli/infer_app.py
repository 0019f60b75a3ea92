"""The arguments of `lakestreams infer`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakestreams.cli.command import command
from lakestreams.cli.options import Servers

if TYPE_CHECKING:
    from lakestreams.cli.screen import Screen


@command
def infer(
    screen: Screen,
    topic: Annotated[str, typer.Argument(help="The topic.", show_default=False)],
    newest: Annotated[int, typer.Option("-n", "--newest", min=1, max=100_000, help="How many records it looks at.")] = (
        1_000
    ),
    sources: Annotated[Path, typer.Option(help="The file that says where Kafka and the registry are.")] = Path(
        "conf/sources.yml"
    ),
    bootstrap_servers: Servers = None,
) -> int:
    """Looks at a topic's newest records, and prints how its source could be declared in the sources' file.

    Exit codes: 0 printed, 1 it could not be. Then there is no such topic, it has no record, or no format fits its keys
    or its values. Or Kafka or the registry does not let it in.
    """
    from lakestreams.cli.infer import run  # noqa: PLC0415

    return run(screen, topic, sources, bootstrap_servers, newest)
