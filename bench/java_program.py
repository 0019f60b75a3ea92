"""Contenders that are Java programs: each is one source file, compiled once into the cache, and run in a JVM of its own.

A program measures itself and prints one line of JSON; its log goes to a file, of which an error shows the end.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lakestreams.local.cache import cache_dir, locked, tail
from lakestreams.local.jars import jar_dir, pinned_jars
from lakestreams.local.java import find_java

_SOURCES: Final = Path(__file__).parent / "java"
_LOGGING: Final = _SOURCES / "log4j2.properties"
_TIMEOUT_S: Final = 1_800.0


@dataclass(frozen=True)
class JavaProgram:
    """A program and what it runs with.

    Attributes:
        label: what is measured, as messages call it.
        name: of its class, and of its source in `java/`.
        pins: the jars that it needs, with their digests.
        others: jars that lie somewhere already.
        options: of the JVM.
    """

    label: str
    name: str
    pins: Mapping[str, str]
    others: Sequence[Path] = ()
    options: Sequence[str] = ()

    def run(self, arguments: Sequence[str], log: Path, *, heap: str) -> dict[str, Any]:
        """Runs it to its end: what it printed.

        Raises:
            RuntimeError: it failed; the message holds the end of its log.
            JarsUnresolved, JavaMissing, JavaTooOld: there is nothing to run it with.
        """
        classes = self.compiled()
        command = [
            str(find_java()),
            f"-Xmx{heap}",
            f"-Dbench.began={time.time() * 1000:.0f}",
            f"-Dlog4j2.configurationFile={_LOGGING}",
            *self.options,
            *("-cp", f"{classes}:{self._classpath()}", self.name),
            *arguments,
        ]
        with log.open("wb") as errors:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, timeout=_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{self.label} ended with {done.returncode}:\n{tail(log, 40)}")
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def compiled(self) -> Path:
        """The folder with the program's classes, compiled at the first call.

        Raises:
            RuntimeError: there is no javac beside java (a JRE), or it refuses the source.
            JarsUnresolved, JavaMissing, JavaTooOld: there is nothing to compile with.
        """
        pinned_jars(self.label, dict(self.pins))
        source = _SOURCES / f"{self.name}.java"
        digest = hashlib.sha256(source.read_bytes() + self._classpath().encode()).hexdigest()[:16]
        folder = cache_dir() / f"program-{self.name}-{digest}"
        with locked(folder.name):
            if not folder.exists():
                part = folder.with_name(f".{folder.name}.part")
                shutil.rmtree(part, ignore_errors=True)
                javac = find_java().resolve().with_name("javac")
                command = [str(javac), "-d", str(part), "-cp", self._classpath(), str(source)]
                if not javac.is_file():
                    raise RuntimeError(f"there is no {javac}; the program needs a JDK to be compiled")
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    raise RuntimeError(f"{source.name} cannot be compiled:\n{done.stderr}")
                part.rename(folder)
        return folder

    def _classpath(self) -> str:
        return ":".join([f"{jar_dir(dict(self.pins))}/*", *map(str, self.others)])
