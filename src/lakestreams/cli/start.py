"""The script `lakestreams`, which says what to install where the command line's own packages are not there."""

from __future__ import annotations

import sys

_NEEDED = ("rich", "typer")


def main() -> None:
    """Runs the command line; ends the process."""
    try:
        from lakestreams.cli.app import main as run  # noqa: PLC0415 - it may not be possible
    except ModuleNotFoundError as error:
        if error.name not in _NEEDED:
            raise
        sys.stderr.write(f"the command line needs the package {error.name}: pip install 'lakestreams[cli]'\n")
        raise SystemExit(1) from None
    run()
