"""`lakestreams version`: what is installed here."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from lakestreams.cli.screen import Screen


def print_version(wanted: bool) -> None:
    """Of `lakestreams --version`: prints one line, and ends."""
    if wanted:
        from lakestreams import __version__  # noqa: PLC0415 - not for --help

        typer.echo(f"lakestreams {__version__}")
        raise typer.Exit


def run(screen: Screen) -> int:
    """Prints the versions of lakestreams and of what it runs on."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - not for --help

    from lakestreams import __version__  # noqa: PLC0415 - as above

    versions: dict[str, str | None] = {"lakestreams": __version__, "python": sys.version.split()[0]}
    for package in ("pyspark", "delta-spark", "confluent-kafka"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    shown = (f"{name} {number or 'not installed'}" for name, number in versions.items())
    screen.out((json.dumps(versions, indent=2) if screen.as_json else "\n".join(shown)) + "\n")
    return 0
