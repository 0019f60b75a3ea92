"""What commands have in common: options, and how whatever they raise is told."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="One JSON value on stdout instead of text.")]
Pipelines = Annotated[
    list[Path], typer.Argument(help="Pipeline files, such as conf/enrichment.yml.", show_default=False)
]
Sources = Annotated[
    Path | None, typer.Option(help="The file of Kafka and topics; sources.yml beside the pipeline's file by default.")
]
Root = Annotated[str | None, typer.Option(help="Folder of all tables.", show_default="lake")]
Catalog = Annotated[str | None, typer.Option(help="Unity Catalog catalog; --root is then its checkpoints' folder.")]
Schemas = Annotated[
    str | None,
    typer.Option(
        metavar="ROOM=NAME,...",
        help="Names of the lake's schemas: bronze=bronze,silver=silver,control=_lakestreams, or some of them.",
    ),
]
Servers = Annotated[str | None, typer.Option(help="Kafka's address, instead of the one in the sources' file.")]
AskBroker = Annotated[bool, typer.Option("--broker/--no-broker", help="Whether the broker is asked.")]

Target = Annotated[
    str | None, typer.Option("--target", "-t", help="A target of databricks.yml: the workspace is asked.")
]
BundleFolder = Annotated[
    Path, typer.Option("--bundle", metavar="FOLDER", help="With --target: where databricks.yml is.")
]
Variables = Annotated[
    list[str] | None, typer.Option("--var", metavar="NAME=VALUE", help="With --target: a variable of the bundle.")
]


def command(function: Callable[..., int]) -> Callable[..., None]:
    """Makes a command of a function that returns its exit code: whatever it raises is told in one form."""

    @functools.wraps(function)
    def whole(*args: Any, **kwargs: Any) -> None:
        from lakestreams.cli.screen import Screen  # noqa: PLC0415 - rich and the configuration, not for --help
        from lakestreams.run import failure  # noqa: PLC0415 - see above

        screen = Screen(as_json=kwargs.get("as_json", False))
        try:
            code = function(*args, **kwargs)
        except (typer.BadParameter, typer.Exit):
            raise
        except KeyboardInterrupt:
            screen.errors.print("interrupted; the next run goes on where this one stopped", style="yellow")
            code = failure.INTERRUPTED
        except ModuleNotFoundError as error:
            code = screen.fail(_known(error))
        except Exception as error:  # noqa: BLE001 - the one place where they are told
            code = screen.fail(error)
        if code:
            raise typer.Exit(code)

    return whole


def _known(error: ModuleNotFoundError) -> Exception:
    """LocalPartsMissing for a package of the `local` extra, else the error itself."""
    from lakestreams.run.runner import missing  # noqa: PLC0415 - not for --help

    package = (error.name or "").partition(".")[0]
    return missing(error) if package in ("pyspark", "py4j", "delta", "confluent_kafka") else error
