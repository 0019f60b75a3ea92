"""Entry points `verify` and `maintain`: commands of the `lakestreams` command line as jobs of a scheduler.

They take single tokens `--key=value`, as Databricks' python_wheel_task sends named_parameters, and hand them to the
command of their name, which alone knows what to do. Unknown parameters are named in a warning and otherwise ignored,
as those of the other jobs are (`run.entry`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lakestreams.errors import LakestreamsError
from lakestreams.run.arguments import command_parser, given_of
from lakestreams.run.failure import FAILED, OK, on_databricks
from lakestreams.visible import visible


def verify(argv: Sequence[str] | None = None) -> None:
    """Compares the tables of pipelines with what bronze gives; ends the process with 1 if anything differs."""
    run_command("verify", sys.argv[1:] if argv is None else argv)


def maintain(argv: Sequence[str] | None = None) -> None:
    """Keeps the tables of pipelines in shape; ends the process with its exit code unless that is 0."""
    run_command("maintain", sys.argv[1:] if argv is None else argv)


def run_command(name: str, argv: Sequence[str]) -> None:
    """Runs a command of the command line.

    Args:
        name: of the command.
        argv: the job's arguments.

    Raises:
        SystemExit: with the command's exit code, unless that is 0.
        LakestreamsError: the same on Databricks, which shows exceptions rather than exit codes.
    """
    given, unknown = command_parser(name).parse_known_args(given_of(argv))
    if unknown:
        names = ", ".join(token.partition("=")[0] for token in unknown)  # a value may be somebody's secret
        sys.stderr.write(f"warning: {name} ignores parameters it does not know: {visible(names)}\n")
    files = [one.strip() for text in given.pipeline for one in text.split(",") if one.strip()]
    root = given.checkpoint_root or given.root
    options = {"--sources": given.sources, "--catalog": given.catalog, "--root": root, "--schemas": given.schemas}
    options |= {f"--{more}": getattr(given, more.replace("-", "_"), None) for more in ("retention", "vacuum-retention")}
    code = _call([name, *files, *(part for option in options.items() if option[1] for part in option)])
    if code and on_databricks():
        msg = f"{name} ended with {code}"
        raise LakestreamsError(msg, hint="what it found stands above")
    if code:
        raise SystemExit(code)


def _call(arguments: list[str]) -> int:
    """The exit code of the command line for these arguments."""
    from lakestreams.cli.app import app  # noqa: PLC0415 - what only names the entry points needs no command line
    from lakestreams.run.runner import close_session  # noqa: PLC0415 - see above

    try:
        app(args=arguments, prog_name="lakestreams")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else OK if ended.code is None else FAILED
    finally:
        close_session()
    return OK
