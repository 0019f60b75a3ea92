"""Class-data sharing: an archive of Spark's and Delta's loaded classes, from which a JVM starts 4 s sooner.

Measured on two cores (session + first Delta write and read): 5.0 + 8.3 s without, 3.0 + 6.3 s with it, 2.1 + 4.2 s
with C1 only on top. Making it takes half a minute once, so nothing makes it by itself: the test stages do, by
`python -m lakestreams.local.cds`. Without it, or when a jar has changed, Java starts as ever.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lakestreams.local.cache import cache_dir, locked, temporary_dir
from lakestreams.local.jars import spark_jars
from lakestreams.local.java import find_java
from lakestreams.sql import quoted

_TRAINING: Final = "LAKESTREAMS_CDS_TRAINING"


def flags(java: Path, jars: Sequence[Path]) -> list[str]:
    """The JVM flags that use the archive; none if there is no archive for this Java, pyspark and jars."""
    archive = archive_file(java, jars)
    training = os.environ.get(_TRAINING)
    if training:
        return [f"-XX:ArchiveClassesAtExit={training}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off"] if archive.is_file() else []


def archive_file(java: Path, jars: Sequence[Path]) -> Path:
    """Where the archive is; the name holds what it depends on."""
    home = java.resolve().parent.parent
    release = home / "release"
    parts = [str(home), release.read_text(encoding="utf-8") if release.is_file() else "", sys.prefix, *map(str, jars)]
    return cache_dir() / f"spark-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}.jsa"


def main() -> None:
    """Makes the archive if there is none: a session that writes, merges and reads a Delta table, then ends."""
    archive = archive_file(find_java(), spark_jars())
    with locked(archive.stem):
        if archive.is_file():
            return
        sys.stderr.write("Spark class archive: making it (half a minute, only once)\n")
        # A process of its own: the archive is written when its JVM ends.
        part = archive.with_suffix(".part")
        part.unlink(missing_ok=True)
        environment = {**os.environ, _TRAINING: str(part)}
        subprocess.run([sys.executable, "-m", "lakestreams.local.cds", "--train"], env=environment, check=False)
        if part.is_file():  # a Java that cannot do it leaves none, and nothing is lost
            part.rename(archive)


def _train() -> None:
    from lakestreams.local.session import spark_session  # noqa: PLC0415  # session imports this module

    folder = temporary_dir("cds")
    spark = spark_session("class-data")
    table = f"delta.{quoted(str(folder / 'table'))}"
    spark.range(100).selectExpr("id", "id % 7 as k").write.format("delta").save(str(folder / "table"))
    spark.sql(
        f"merge into {table} t using (select id from range(200)) s on t.id = s.id when not matched then insert (id, k) values (s.id, 0)"
    )
    spark.sql(f"select k, count(*) from {table} group by k").collect()
    spark.stop()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--train"]:
        _train()
    else:
        main()
