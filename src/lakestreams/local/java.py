"""Finds the Java that Spark and the broker run on, and says clearly when there is none or it is too old."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from lakestreams.errors import JavaMissing, JavaTooOld

OLDEST_JAVA = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find_java() -> Path:
    """The `java` program of a JDK 17 or newer: from `JAVA_HOME` if set (as Spark does), else from `PATH`.

    Raises:
        JavaMissing: there is none, or it does not run.
        JavaTooOld: it is older than 17.
    """
    return _checked_java(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", ""))


@lru_cache(maxsize=8)
def java_version(java: Path) -> int:
    """The major version that `java -version` reports.

    Raises:
        JavaMissing: it does not run or reports no version.
    """
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        raise JavaMissing(f"{java} cannot be run: {error}") from error
    found = _VERSION.search(done.stderr + done.stdout)
    if found is None:
        raise JavaMissing(f"{java} -version reports no version: {(done.stderr + done.stdout).strip()[:200]}")
    return int(found.group(1))


@lru_cache(maxsize=8)
def _checked_java(java_home: str, path: str) -> Path:
    if java_home:
        java = Path(java_home) / "bin" / "java"
        if not java.is_file():
            raise JavaMissing(f"JAVA_HOME is {java_home}, and there is no bin/java in it")
    else:
        on_path = shutil.which("java", path=path)
        if on_path is None:
            raise JavaMissing("JAVA_HOME is not set and there is no java on PATH")
        java = Path(on_path)
    version = java_version(java)
    if version < OLDEST_JAVA:
        raise JavaTooOld(f"{java} is version {version}; Spark 4 and the broker need {OLDEST_JAVA} or newer")
    return java
