"""Class-data sharing: an archive of Spark's and Delta's loaded classes, from which a JVM starts 4 s sooner.

Measured on two cores (session + first Delta write and read): 5.0 + 8.3 s without, 3.0 + 6.3 s with it, 2.1 + 4.2 s
with C1 only on top. Making it takes half a minute once, so no session makes it by itself: `make test`, `test-lts`, `soak`
and `bench` do, by `python -m lakestreams.local.cds`. Without it, or when a jar has changed, Java starts as ever.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from lakestreams.local.cache import locked, temporary_dir
from lakestreams.local.class_archive import TRAINING, archive_file
from lakestreams.local.jars import spark_jars
from lakestreams.local.java import find_java
from lakestreams.local.session import spark_session
from lakestreams.sql import quoted


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
        environment = {**os.environ, TRAINING: str(part)}
        subprocess.run([sys.executable, "-m", "lakestreams.local.cds", "--train"], env=environment, check=False)
        if part.is_file():  # a Java that cannot do it leaves none, and nothing is lost
            part.rename(archive)


def _train() -> None:
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
