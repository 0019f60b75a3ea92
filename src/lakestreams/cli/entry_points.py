"""Entry points `lakestreams-verify` and `lakestreams-maintain`: commands of the `lakestreams` command line as jobs of a scheduler.

They take single tokens `--key=value`, as Databricks' python_wheel_task sends named_parameters, and give the command of
their name its options. Neither needs Typer or rich, which only the command line does. Unknown parameters are named in a
warning and otherwise ignored, as those of the other jobs are (`run.entry`).
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lakestreams.errors import LakestreamsError
from lakestreams.run.arguments import command_parser, parse, pipeline_options
from lakestreams.run.failure import on_databricks
from lakestreams.run.options import MaintainOptions, VerifyOptions

if TYPE_CHECKING:
    from lakestreams.cli.screen import Screen
    from lakestreams.run.options import PipelineOptions


def verify(argv: Sequence[str] | None = None) -> None:
    """Compares the tables of pipelines with what bronze gives; ends the process with 1 if anything differs."""

    def run(screen: Screen, options: PipelineOptions, _arguments: Namespace) -> int:
        from lakestreams.cli import verify  # noqa: PLC0415 - what only names the entry points needs no command

        return verify.run(screen, options, VerifyOptions())

    _end("lakestreams-verify", sys.argv[1:] if argv is None else argv, run)


def maintain(argv: Sequence[str] | None = None) -> None:
    """Keeps the tables of pipelines in shape; ends the process with its exit code unless that is 0."""

    def run(screen: Screen, options: PipelineOptions, arguments: Namespace) -> int:
        from lakestreams.cli import maintain  # noqa: PLC0415 - as above

        wanted = MaintainOptions(arguments.retention, vacuum_retention=arguments.vacuum_retention)
        return maintain.run(screen, options, wanted)

    _end("lakestreams-maintain", sys.argv[1:] if argv is None else argv, run)


def _end(name: str, argv: Sequence[str], run: Callable[[Screen, PipelineOptions, Namespace], int]) -> None:
    """Runs a command with a job's arguments.

    Raises:
        SystemExit: with the command's exit code, unless that is 0.
        LakestreamsError: the same on Databricks, which shows exceptions rather than exit codes.
    """
    from lakestreams.cli.ending import exit_code  # noqa: PLC0415 - what only names the entry points needs no command
    from lakestreams.cli.shown import Screen  # noqa: PLC0415 - see above

    parser = command_parser(name)
    arguments = parse(parser, argv)
    screen = Screen()
    code = exit_code(screen, lambda: run(screen, pipeline_options(parser, arguments), arguments))
    if code and on_databricks():
        msg = f"{name} ended with {code}"
        raise LakestreamsError(msg, hint="see its output above")
    if code:
        raise SystemExit(code)
