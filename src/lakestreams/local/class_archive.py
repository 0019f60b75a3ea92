"""The archive of loaded classes from which a JVM starts sooner: where it is, and the flags that use it. `cds` makes it."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lakestreams.local.cache import cache_dir

TRAINING: Final = "LAKESTREAMS_CDSTRAINING"


def flags(java: Path, jars: Sequence[Path]) -> list[str]:
    """The JVM flags that use the archive; none if there is no archive for this Java, pyspark and jars."""
    archive = archive_file(java, jars)
    training = os.environ.get(TRAINING)
    if training:
        return [f"-XX:ArchiveClassesAtExit={training}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off"] if archive.is_file() else []


def archive_file(java: Path, jars: Sequence[Path]) -> Path:
    """Where the archive is; the name holds what it depends on."""
    home = java.resolve().parent.parent
    release = home / "release"
    parts = [str(home), release.read_text(encoding="utf-8") if release.is_file() else "", sys.prefix, *map(str, jars)]
    return cache_dir() / f"spark-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}.jsa"
