"""A real schema registry (Apicurio, with Confluent's REST interface) on 127.0.0.1: in memory, gone when it ends.

with LocalRegistry() as registry:
    registry.url  # http://127.0.0.1:port/apis/ccompat/v7
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from lakestreams.errors import BrokerNotReady
from lakestreams.local import detached
from lakestreams.local.cache import Progress, cache_dir, locked, tail, temporary_dir
from lakestreams.local.jars import jar_dir, pinned_jars
from lakestreams.local.java import find_java, use_utf8_names
from lakestreams.local.pins import REGISTRY_PINS
from lakestreams.local.ports import free_port

_NAME: Final = "registry"
_HOST: Final = "127.0.0.1"
_PATH: Final = "/apis/ccompat/v7"
_READY_WITHIN_S: Final = 240.0
_HEAP_MB: Final = 512
_GRACE_S: Final = 10.0


@dataclass(frozen=True)
class RegistryInfo:
    """The one detached registry of this user."""

    url: str
    guard_pid: int
    folder: str

    @property
    def guarded(self) -> str:
        """The folder that its guard was given."""
        return self.folder


class LocalRegistry:
    """A registry that lives as long as the block; nothing of it survives the process.

    Args:
        progress: receives a line for each slow step (the first resolution of the program).
    """

    def __init__(self, progress: Progress | None = None) -> None:
        self._progress = progress
        self._folder: Path | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._port = free_port()

    def __enter__(self) -> Self:
        """Starts it."""
        self.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Ends it; what was registered is gone."""
        self.stop()

    @property
    def url(self) -> str:
        """Of its REST interface; the same after it was started again."""
        return f"http://{_HOST}:{self._port}{_PATH}"

    def start(self) -> None:
        """Starts it and returns when it answers.

        Raises:
            BrokerNotReady: it did not come up; the message holds the end of its log.
            JarsUnresolved, JavaMissing, JavaTooOld: there is nothing to start it with.
        """
        self._folder = temporary_dir("registry")
        self._guard = _launched(self._folder, self._port, detach=False, progress=self._progress)

    def stop(self) -> None:
        """Ends it at once."""
        if self._guard is not None and self._guard.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._guard.stdin.write(b"die\n")
                self._guard.stdin.close()
            self._guard.wait(_GRACE_S)
            self._guard = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def up(progress: Progress | None = None) -> RegistryInfo:
    """Starts the user's detached registry, or finds it running. Raises what `LocalRegistry.start` raises."""
    with locked(_NAME):
        found = info()
        if found is not None:
            return found
        folder, port = cache_dir() / _NAME, free_port()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        guard = _launched(folder, port, detach=True, progress=progress)
        started = RegistryInfo(f"http://{_HOST}:{port}{_PATH}", guard.pid, str(folder))
        detached.note(_NAME, started, guard)
        return started


def down() -> bool:
    """Ends the user's detached registry; returns when it is gone, False if there was none."""
    found = info()
    if found is not None:
        detached.end(_NAME, found)
    return found is not None


def info() -> RegistryInfo | None:
    """The user's detached registry if it runs."""
    return detached.noted(_NAME, RegistryInfo)


def program(progress: Progress | None = None) -> Path:
    """The folder of the registry's program, resolved and unpacked at the first call. Raises what `pinned_jars` raises."""
    (archive,) = pinned_jars("schema registry", REGISTRY_PINS, progress)
    folder = jar_dir(REGISTRY_PINS).with_name(f"registry-{jar_dir(REGISTRY_PINS).name}")
    if not folder.is_dir():
        with locked(folder.name):
            if not folder.is_dir():
                work = folder.with_name(f".{folder.name}.part")
                shutil.rmtree(work, ignore_errors=True)
                with tarfile.open(archive) as packed:
                    packed.extractall(work, filter="data")
                work.rename(folder)
    return folder


def _launched(folder: Path, port: int, *, detach: bool, progress: Progress | None) -> subprocess.Popen[bytes]:
    (runner,) = program(progress).glob("*-runner.jar")
    log = folder / "registry.log"
    use_utf8_names()
    command = [
        *(sys.executable, "-I", "-S", str(Path(__file__).with_name("guard.py"))),
        *("--grace", str(_GRACE_S), "--log", str(log), "--remove", str(folder)),
        *(("--detach",) if detach else ()),
        *("--", str(find_java()), f"-Xmx{_HEAP_MB}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *(f"-Djava.io.tmpdir={folder}", "-jar", str(runner)),
    ]
    own = {"QUARKUS_HTTP_HOST": _HOST, "QUARKUS_HTTP_PORT": str(port)}
    guard = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL if detach else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, **own},
    )
    try:
        _wait_for_answer(guard, port, log)
    except BaseException:  # Ctrl-C too: nobody knows of a detached one yet, so nobody would end it
        guard.terminate()
        guard.wait(2 * _GRACE_S)
        raise
    return guard


def _wait_for_answer(guard: subprocess.Popen[bytes], port: int, log: Path) -> None:
    assert guard.stdout is not None  # noqa: S101  # a pipe, see above
    with guard.stdout as said:
        said.readline()
    deadline = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < deadline:
        if guard.poll() is not None:
            raise BrokerNotReady(f"the local schema registry ended while starting; its log ends with\n{tail(log)}")
        if _answers(port):
            return
        time.sleep(0.1)
    raise BrokerNotReady(f"the local schema registry did not answer; its log ends with\n{tail(log)}")


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{_HOST}:{port}{_PATH}/subjects", timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


__all__ = ["LocalRegistry", "RegistryInfo", "down", "info", "program", "up"]
