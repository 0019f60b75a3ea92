"""The script `lakestreams`, which says what to install where the command line's own packages are not there."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

_NEEDED = ("rich", "typer")
_INTERRUPTED = 130


def main() -> None:
    """Runs the command line; ends the process."""
    _prepare_streams()
    try:
        from lakestreams.cli.app import main as run  # noqa: PLC0415 - it may not be possible
    except ModuleNotFoundError as error:
        if error.name not in _NEEDED:
            raise
        sys.stderr.write(f"the command line needs the package {error.name}: pip install 'lakestreams[cli]'\n")
        raise SystemExit(1) from None
    except KeyboardInterrupt:  # importing takes a moment
        raise SystemExit(_INTERRUPTED) from None
    run()


def _prepare_streams() -> None:
    """Opens the standard streams that the caller has closed, and lets none of them fail for a character that it lacks."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a locale without UTF-8 has few characters
            stream.reconfigure(errors="backslashreplace")
