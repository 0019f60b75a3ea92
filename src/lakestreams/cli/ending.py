"""How commands and the jobs that are commands end: errors in one form, and an exit code. Needs no Typer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lakestreams.cli.screen import Screen
    from lakestreams.config.compile import Pipeline

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


def each(
    screen: Screen, pipelines: Iterable[Pipeline], step: Callable[[Pipeline], dict[str, Any]]
) -> list[dict[str, Any]]:
    """What a command finds of each pipeline; one that fails keeps no other from its turn, as in `run`.

    Returns:
        For `--json`: what the step returns, with the faults and the log of an error.
    """
    results = []
    for pipeline in pipelines:
        try:
            results.append({**step(pipeline), "faults": [], "log": None})
        except ModuleNotFoundError:  # is missing for the others, too
            raise
        except Exception as error:  # noqa: BLE001 - printed here, and counted by the caller
            faults, log = screen.failure(error)
            told = [fault.as_dict() for fault in faults]
            results.append({"pipeline": pipeline.topology.name, "faults": told, "log": log})
    return results


def _known(error: ModuleNotFoundError) -> Exception:
    """LocalPartsMissing for a package of the `local` extra, else the error itself."""
    from lakestreams.run.runner import missing  # noqa: PLC0415 - not for --help

    package = (error.name or "").partition(".")[0]
    return missing(error) if package in _LOCAL else error
