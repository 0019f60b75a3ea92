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
NEWEST_JAVA = {"4.0": 22}  # line of Spark: in Java 23 and later its Hadoop cannot ask who runs it
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find_java() -> Path:
    """The `java` program of a JDK 17 or newer: from `JAVA_HOME` if set (as Spark does), else from `PATH`.

    Raises:
        JavaMissing: there is none, or it does not run.
        JavaTooOld: it is older than 17.
    """
    return _checked_java(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", ""))


def java_for_spark(pyspark: str) -> Path:
    """The `java` program for a version of pyspark.

    Raises:
        JavaMissing: there is none, it does not run, or it is newer than this Spark can run on.
        JavaTooOld: it is older than 17.
    """
    java = find_java()
    newest = NEWEST_JAVA.get(".".join(pyspark.split(".")[:2]))
    if newest is not None and java_version(java) > newest:
        msg = f"{java} is version {java_version(java)}; pyspark {pyspark} needs {OLDEST_JAVA} to {newest}"
        raise JavaMissing(msg, hint="set JAVA_HOME to a JDK 17 or 21")
    return java


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


def use_utf8_names() -> None:
    """Lets Javas that this process starts name files as Python does, whatever `LC_ALL` says.

    In a locale `C` Python uses UTF-8 all the same (PEP 540), and Java refuses each path that has another letter than ASCII's.
    Where `LC_ALL` is not set, Python has seen to that itself (PEP 538).
    """
    if os.environ.get("LC_ALL") in ("C", "POSIX"):
        os.environ["LC_ALL"] = "C.UTF-8"
