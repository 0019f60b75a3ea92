"""How a job or command tells of a failure: the error's own form, a log file with the whole trace, an exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import tempfile
import time
import traceback
from pathlib import Path
from typing import Final, Protocol

from lakestreams.errors import Fenced, LakestreamsError, LocationNotWritable, TableUnreadable, TopologyInvalid
from lakestreams.visible import visible_lines

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
FENCED: Final = 3
INTERRUPTED: Final = 130

# What an error of the machine says of a place: nobody may write there, or there is no room, or it is something else.
_OF_PLACES: Final = frozenset(
    (
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.EDQUOT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EEXIST,
        errno.ENAMETOOLONG,
    )
)
# What Spark and Delta say of a file that they cannot read, and what Java says of a cause: the first one comes last.
_UNREADABLE: Final = re.compile(
    r"\[(?:FAILED_READ_FILE|DELTA_(?:STATE_RECOVER_ERROR|TRUNCATED_TRANSACTION_LOG|LOG_FILE_NOT_FOUND|FILE_NOT_FOUND))"
    r"[A-Z_.]*\] (.*?) *(?:SQLSTATE: \w+)?$",
    re.MULTILINE,
)
_CAUSE: Final = re.compile(r"^Caused by: (?:[\w.$]+\.)?(.*)$", re.MULTILINE)
_FULL: Final = "No space left on device"  # also in the errors of Java


def on_databricks() -> bool:
    """Whether a Databricks runtime runs this process: it brings the session, and nothing local is there."""
    return "DATABRICKS_RUNTIME_VERSION" in os.environ


def exit_code(error: BaseException | None) -> int:
    """The process's exit code for an error: 0 none, 3 fenced, 130 interrupted, 1 any other."""
    if error is None:
        return OK
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return FENCED if isinstance(error, Fenced) else FAILED


class Secretive(Protocol):
    """Options or references, which know the secrets that they stand for."""

    def redact(self, text: str) -> str:
        """The text without any of them."""


class Secrets:
    """The secrets of one job or command: of all options and references that it has loaded so far.

    Whatever it tells of an error passes here first: Spark or Kafka may quote the options they were given.
    """

    def __init__(self) -> None:
        self._loaded: list[Secretive] = []

    def add(self, *loaded: Secretive | None) -> None:
        """Hides what these stand for from now on."""
        self._loaded += [one for one in loaded if one is not None and one not in self._loaded]

    def redact(self, text: str) -> str:
        """The text without any of the secrets."""
        for one in self._loaded:
            text = one.redact(text)
        return text

    def noted(self, error: Exception) -> tuple[LakestreamsError, Path | None]:
        """The error as users see it, and the log with its whole trace, where our own error is not the whole story."""
        if isinstance(error, LakestreamsError) and error.__cause__ is None:
            self.redact_error(error)
            return error, None
        log = self.write_log(error)
        return self.as_shown(error, log), log

    def as_shown(self, error: Exception, log: Path | None) -> LakestreamsError:
        """The error as users see it: itself if it is ours, or one of ours that says the same; else LS000 with the log."""
        if isinstance(error, LakestreamsError):
            self.redact_error(error)
            return error
        place = _unusable(error)
        if place is not None:
            return LocationNotWritable(
                self.redact(place), hint="free some space, choose another place, or correct its permissions"
            )
        text = self.redact(_of_java(str(error).strip()))
        first, causes = text.partition("\n")[0], _CAUSE.findall(text)[-1:]
        unreadable = _UNREADABLE.search(text)
        if unreadable is not None:
            return TableUnreadable("\n".join(one[:500] for one in (unreadable[1], *causes)))
        named = f"unexpected {type(error).__name__}" + (f": {first}" if first else "")
        message = "\n".join(one[:500] for one in (named, *causes))
        return LakestreamsError(message, hint=f"please report this with the log file {log}" if log else None)

    def redact_error(self, error: LakestreamsError) -> None:
        """Hides the secrets in the error itself, wherever it is going to be shown."""
        error.message = self.redact(error.message)
        error.args = (error.message,)
        error.hint = self.redact(error.hint)
        if isinstance(error, TopologyInvalid):
            for fault in error.faults:
                self.redact_error(fault)

    def write_log(self, error: BaseException) -> Path | None:
        """Writes the whole trace to a file of its own and returns its path; None if there is no place for it."""
        text = visible_lines(self.redact("".join(traceback.format_exception(error))))
        name = f"error-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
        # a read-only home or a full disk must not hide the error itself
        with contextlib.suppress(OSError, LocationNotWritable):
            return _written(_log_folder() / name, text)
        with contextlib.suppress(OSError):
            return _written(Path(tempfile.gettempdir()) / f"lakestreams-{name}", text)
        return None


def _written(path: Path, text: str) -> Path:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
    return path


def _of_java(text: str) -> str:
    """What an error says; of one of Java without the number of the object that was called."""
    return re.sub(r"\AAn error occurred while calling [^\n]*\n: ", "", text)


def _unusable(error: Exception) -> str | None:
    """What is wrong with the place of a file, in words, if that is what the error says."""
    if _FULL in str(error):
        return f"the disk is full: {next(line for line in str(error).splitlines() if _FULL in line).strip()}"[:500]
    if isinstance(error, OSError) and error.errno in _OF_PLACES and error.filename is not None:
        return f"cannot use {error.filename}: {error.strerror}"
    return None


def _log_folder() -> Path:
    chosen = os.environ.get("LAKESTREAMS_LOG_DIR")
    if chosen or not on_databricks():
        from lakestreams.local.cache import log_dir  # noqa: PLC0415 - a local part

        return log_dir()
    folder = Path(tempfile.gettempdir()) / "lakestreams"
    folder.mkdir(exist_ok=True)
    return folder
