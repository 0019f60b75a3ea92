"""The per-user cache folder outside the tree: jars, the broker's template, logs, and locks between processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from lakestreams.errors import LocationNotWritable

Progress = Callable[[str], None]
"""Receives one line of progress; what long local steps report to."""


def cache_dir() -> Path:
    """The cache folder: `$LAKESTREAMS_CACHE`, else `$XDG_CACHE_HOME/lakestreams`, else `~/.cache/lakestreams`.

    Raises:
        LocationNotWritable: if it is not there and cannot be made.
    """
    chosen = os.environ.get("LAKESTREAMS_CACHE")
    if chosen:
        return _created(Path(chosen), "LAKESTREAMS_CACHE")
    try:
        return _created(
            Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lakestreams", "LAKESTREAMS_CACHE"
        )
    except RuntimeError as error:  # of Path.home(): no HOME, and a user that the machine does not know
        msg = f"there is no place for the cache: {error}"
        raise LocationNotWritable(msg, hint="set LAKESTREAMS_CACHE to a folder that can be written to") from None


def log_dir() -> Path:
    """Where Spark and the jar resolution write their logs: `$LAKESTREAMS_LOG_DIR`, else `<cache>/logs`."""
    chosen = os.environ.get("LAKESTREAMS_LOG_DIR")
    return _created(Path(chosen) if chosen else cache_dir() / "logs", "LAKESTREAMS_LOG_DIR")


def _created(folder: Path, variable: str) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"the folder {folder} cannot be made: {error.strerror}"
        raise LocationNotWritable(msg, hint=f"set {variable} to a folder that can be written to") from None
    return folder.resolve()


def temporary_dir(label: str) -> Path:
    """A new private folder below the system's temporary folder, for data that nobody keeps.

    Whoever made it removes it; what a killed process left behind is removed here, at the next call.
    """
    prefix = f"lakestreams-{label}-"
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        _remove_if_abandoned(left)
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    owner = (folder / _OWNER).open("w")
    fcntl.flock(owner, fcntl.LOCK_EX)
    _owned.append(owner)  # open, and thereby locked, as long as this process lives
    return folder


_OWNER = ".owner"
_YOUNG_S = 60.0
_owned: list[IO[str]] = []


def _remove_if_abandoned(folder: Path) -> None:
    """Removes the folder if its owner is dead: the lock is free. A young one may be about to be locked."""
    with contextlib.suppress(OSError), (folder / _OWNER).open() as owner:
        if time.time() - os.fstat(owner.fileno()).st_mtime > _YOUNG_S:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


def tail(file: Path, lines: int = 20) -> str:
    """The last lines of a log, for error messages; empty if there is none."""
    if not file.exists():
        return ""
    return "\n".join(file.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


@contextlib.contextmanager
def locked(name: str, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Holds the lock `<cache>/<name>.lock`; the kernel frees it when the holder dies, however it dies."""
    file = cache_dir() / f"{name}.lock"
    try:
        handle = file.open("w")
    except OSError as error:
        msg = f"{file} cannot be written: {error.strerror}"
        raise LocationNotWritable(msg, hint="set LAKESTREAMS_CACHE to a folder that can be written to") from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if on_wait is not None:
                on_wait()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
