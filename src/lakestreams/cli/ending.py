"""How commands and the jobs that are commands end: errors in one form, and an exit code. Needs no Typer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lakestreams.cli.screen import Screen

_LOCAL: Final = (
    "pyspark",
    "py4j",
    "delta",
    "confluent_kafka",
    "pyarrow",
    "numpy",
)  # what the extra of this name brings


def exit_code(screen: Screen, run: Callable[[], int]) -> int:
    """What a command ends with; shows whatever it raises in one form, then ends the session that it has started."""
    from lakestreams.run import failure  # noqa: PLC0415 - not for --help

    with screen.ends:
        try:
            return run()
        except KeyboardInterrupt:
            screen.errors.print("interrupted; the next run goes on where this one stopped", style="yellow")
            return failure.INTERRUPTED
        except ModuleNotFoundError as error:
            return screen.fail(_known(error))
        except Exception as error:
            if type(error).__module__.startswith(("typer", "click")):  # how Typer ends a command; jobs have no Typer
                raise
            return screen.fail(error)


def _known(error: ModuleNotFoundError) -> Exception:
    """LocalPartsMissing for a package of the `local` extra, else the error itself."""
    from lakestreams.run.runner import missing  # noqa: PLC0415 - not for --help

    package = (error.name or "").partition(".")[0]
    return missing(error) if package in _LOCAL else error
