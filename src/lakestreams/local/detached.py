"""Processes that outlive the command that started them, such as the user's broker: noted in a file, found again, ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from lakestreams.local.cache import cache_dir

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    class Detached(DataclassInstance, Protocol):
        """What is noted of one."""

        @property
        def guard_pid(self) -> int:
            """The process that watches over it."""
            ...

        @property
        def guarded(self) -> str:
            """The folder that the guard was given, by which it is known."""
            ...


_T = TypeVar("_T", bound="Detached")
_ENDS_WITHIN_S: Final = 30.0


def note(name: str, started: Detached, guard: subprocess.Popen[bytes]) -> None:
    """Writes down what was started; its guard is meant to outlive this process."""
    guard.returncode = 0  # no warning about a child that still runs
    written = _file(name).with_suffix(".part")
    written.write_text(json.dumps(asdict(started), indent=2), encoding="utf-8")
    written.rename(_file(name))


def noted(name: str, kind: type[_T]) -> _T | None:
    """What was started, if it runs. A file whose process is gone, or is another one now, is removed."""
    try:
        content: dict[str, Any] = json.loads(_file(name).read_text(encoding="utf-8"))
        found = kind(**content)
    except (OSError, ValueError, TypeError):
        return None
    if _is_guard_of(found):
        return found
    _file(name).unlink(missing_ok=True)
    return None


def end(name: str, running: Detached) -> None:
    """Ends it; returns when it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(running.guard_pid, signal.SIGTERM)
    deadline = time.monotonic() + _ENDS_WITHIN_S
    while _is_guard_of(running):
        if time.monotonic() > deadline:
            os.kill(running.guard_pid, signal.SIGKILL)  # on Linux the kernel takes the JVM along
            break
        time.sleep(0.02)
    _file(name).unlink(missing_ok=True)


def _file(name: str) -> Path:
    return cache_dir() / f"{name}.json"


def _is_guard_of(one: Detached) -> bool:
    """Whether the process is its guard: process ids are reused, so being alive proves nothing."""
    command = _command_line(one.guard_pid)
    return "guard.py" in command and one.guarded in command


def _command_line(pid: int) -> str:
    """The command line of a running process; empty if there is none (a zombie has none either)."""
    proc = Path(f"/proc/{pid}/cmdline")
    if Path("/proc/self/cmdline").exists():
        try:
            return proc.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    done = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout
