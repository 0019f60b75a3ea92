"""How a job or command tells of a failure: the error's own form, a log file with the whole trace, an exit code.

Whatever is told passes `redact` first: an error of Spark or Kafka may quote the options it was given.
"""

from __future__ import annotations

import os
import tempfile
import time
import traceback
from pathlib import Path
from typing import Final

from lakestreams.errors import Fenced, LakestreamsError, LocationNotWritable, TopologyInvalid
from lakestreams.expressions.environment import References
from lakestreams.kafka.options import KafkaOptions
from lakestreams.registry.options import RegistryOptions
from lakestreams.visible import visible_lines

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
FENCED: Final = 3
INTERRUPTED: Final = 130

# Of the whole process, because an error may come up anywhere: what was loaded is remembered until the process ends.
_secretive: list[KafkaOptions | References | RegistryOptions] = []


def on_databricks() -> bool:
    """Whether a Databricks runtime runs this process: it brings the session, and nothing local is there."""
    return "DATABRICKS_RUNTIME_VERSION" in os.environ


def remember(secretive: KafkaOptions | References | RegistryOptions) -> None:
    """Notes options, or references, whose secrets `redact` has to hide from now on."""
    if secretive not in _secretive:
        _secretive.append(secretive)


def redact(text: str) -> str:
    """The text without any secret of the options and references loaded so far."""
    for one in _secretive:
        text = one.redact(text)
    return text


def exit_code(error: BaseException | None) -> int:
    """The process's exit code for an error: 0 none, 3 fenced, 130 interrupted, 1 any other."""
    if error is None:
        return OK
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return FENCED if isinstance(error, Fenced) else FAILED


def noted(error: Exception) -> tuple[LakestreamsError, Path | None]:
    """The error as users see it, and the log with its whole trace, written where our own error is not the whole story."""
    if isinstance(error, LakestreamsError) and error.__cause__ is None:
        redact_error(error)
        return error, None
    log = write_log(error)
    return told(error, log), log


def told(error: Exception, log: Path) -> LakestreamsError:
    """The error as users see it, secrets hidden: itself if it is ours, LS000 with the log's path if it is not."""
    if isinstance(error, LakestreamsError):
        redact_error(error)
        return error
    lines = str(error).strip().splitlines()
    first = f": {lines[0]}" if lines else ""
    message = redact(f"unexpected {type(error).__name__}{first}"[:500])
    return LakestreamsError(message, hint=f"please report this with the log file {log}")


def redact_error(error: LakestreamsError) -> None:
    """Hides secrets in the error itself, wherever it is going to be shown."""
    error.message = redact(error.message)
    error.args = (error.message,)
    error.hint = redact(error.hint)
    if isinstance(error, TopologyInvalid):
        for fault in error.faults:
            redact_error(fault)


def write_log(error: BaseException) -> Path:
    """Writes the whole trace to a file of its own and returns its path."""
    text = visible_lines(redact("".join(traceback.format_exception(error))))
    name = f"error-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    try:
        path = _log_folder() / name
        _append(path, text)
    except (OSError, LocationNotWritable):  # a read-only home must not hide the error itself
        path = Path(tempfile.gettempdir()) / f"lakestreams-{name}"
        _append(path, text)
    return path


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def _log_folder() -> Path:
    chosen = os.environ.get("LAKESTREAMS_LOG_DIR")
    if chosen or not on_databricks():
        from lakestreams.local.cache import log_dir  # noqa: PLC0415 - a local part

        return log_dir()
    folder = Path(tempfile.gettempdir()) / "lakestreams"
    folder.mkdir(exist_ok=True)
    return folder
