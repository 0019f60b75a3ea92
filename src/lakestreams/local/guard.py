"""Supervises one child program so that it never outlives whoever needed it. Standard library only; run by file path.

The parent holds the writing end of the guard's stdin. When that closes - the parent ended, crashed, or was killed with
`kill -9`, for then the kernel closes it - the guard ends the child. The parent's process id is watched too, in case some
other process inherited the writing end. Should the guard itself be killed, the kernel kills the child (Linux).

    python guard.py [--grace S] [--log FILE] [--remove DIR] [--detach] -- COMMAND...

stdout gets one line, the child's process id. A line `stop` on stdin ends the child but keeps DIR, `die` ends it at once;
the end of stdin also removes DIR. `--detach` looks at signals only. The exit code is the child's, 128 + n for signal n.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

_POLL_S = 0.25
_PR_SET_PDEATHSIG = 1


def main(argv: list[str] | None = None) -> int:
    """Runs the command under guard; returns its exit code."""
    parent = os.getppid()  # first of all: whoever asks later may get the one that inherited an orphan
    options = _arguments(argv)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _noted)
    child = _start(options.command, options.log)
    # The reader may have gone already; that shows on stdin next, and must not end the guard before its child.
    with contextlib.suppress(BrokenPipeError):
        os.write(1, f"{child.pid}\n".encode())
    order = _wait_for_order(child, wake_read, None if options.detach else parent)
    if order != "exited":
        _end(child, grace_s=0.0 if order == "die" else options.grace)
    if options.remove and order in {"eof", "signal"}:
        shutil.rmtree(options.remove, ignore_errors=True)
    code = child.wait()
    return code if code >= 0 else 128 - code


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="guard")
    parser.add_argument("--grace", type=float, default=10.0, help="seconds between TERM and KILL")
    parser.add_argument("--log", type=Path, help="file that gets the child's output (appended)")
    parser.add_argument("--remove", type=Path, help="folder to remove after the child has ended with its parent")
    parser.add_argument("--detach", action="store_true", help="no parent to outlive: obey signals only")
    parser.add_argument("command", nargs="+")
    return parser.parse_args(argv)


def _noted(_number: int, _frame: object) -> None:
    """Signals arrive as bytes in the wake-up pipe; a handler must exist for that, and does nothing."""


def _start(command: list[str], log: Path | None) -> subprocess.Popen[bytes]:
    guard_pid = os.getpid()
    sink = log.open("ab") if log else None
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink or subprocess.DEVNULL,
            stderr=subprocess.STDOUT if sink else subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_die_with(guard_pid),  # noqa: PLW1509  # this process has one thread
        )
    finally:
        if sink:
            sink.close()


def _die_with(guard_pid: int) -> Callable[[], None] | None:
    """What the child does before it becomes the command: ask the kernel to be killed when the guard dies (Linux)."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)  # loaded before the fork: after it, as little as possible may happen

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != guard_pid:  # the guard died between fork and prctl
            os._exit(1)

    return ask


def _wait_for_order(child: subprocess.Popen[bytes], wake: int, parent: int | None) -> str:
    """Blocks until something ends the wait: `exited`, `signal`, `eof`, `stop` or `die`; without a parent, the first two."""
    watched = [wake] if parent is None else [wake, 0]
    while True:
        ready = select.select(watched, [], [], None if parent is None else _POLL_S)[0]
        if wake in ready and set(os.read(wake, 512)) - {int(signal.SIGCHLD)}:
            return "signal"
        if child.poll() is not None:
            return "exited"
        if 0 in ready:
            said = os.read(0, 64).strip()
            return {b"stop": "stop", b"die": "die"}.get(said, "eof")
        if parent is not None and os.getppid() != parent:
            return "eof"


def _end(child: subprocess.Popen[bytes], grace_s: float) -> None:
    """TERM to the child's whole group, KILL to what is left of it after the grace."""
    if grace_s > 0:
        _signal_group(child.pid, signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
    _signal_group(child.pid, signal.SIGKILL)
    child.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main())
