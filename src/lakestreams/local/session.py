"""A local Spark session with Delta and Kafka: classic, or through Spark Connect with the same settings.

Quiet (the JVM's and the workers' output goes to a log file), on loopback only, with nothing written into the tree.
On Databricks the session is the runtime's; this module is not imported there.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from lakestreams.local import class_archive
from lakestreams.local.cache import Progress, log_dir, tail, temporary_dir
from lakestreams.local.jars import pyspark_version, spark_jars
from lakestreams.local.java import java_for_spark, use_utf8_names
from lakestreams.local.ports import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HERE: Final = Path(__file__).parent
_FIXED_CONF: Final[dict[str, str]] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # it asks the JVM three times a column for the caller's line; plans of many columns took half as long without
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Delta keeps thousands of plan nodes of each table that was read within the hour, of up to 10,000 tables.
    "spark.databricks.delta.delta.log.cacheSize": "100",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Spark writes every plan out as text for its UI, which is off: a few hundred milliseconds a wide statement.
    "spark.sql.maxPlanStringLength": "4096",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Small tables on few cores: by default Delta reads its log in 50 tasks and a shuffle makes 200.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Without its native library Hadoop starts a process for each file that it makes (`chmod`) and four for each that it
    # renames (`readlink`): 120 in a round of a few records. This file system asks Java; Delta's log and checkpoints, which
    # go round it by default, use it here. Renames are atomic within one JVM only, as they are by default.
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    "spark.sql.shuffle.partitions": "4",
    # Spark keeps the last 100 classes that it generated; a round of a pipeline needs a few hundred. Without them it writes,
    # compiles and loads each again, and the JVM warms each up again: a fifth of a warm run (docs/benchmarks.md).
    "spark.sql.codegen.cache.maxEntries": "1000",
    # VACUUM lists a table's files in so many tasks: 10,000 by default, half a minute for a table of ten files.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    # 300 seconds by default, the wait for a free core included: on a machine busy with other work that is no error.
    "spark.sql.broadcastTimeout": "3600",
}

# The collector for throughput: pauses harm nobody here (docs/benchmarks.md). And UTC as the machine's time zone: in any
# other, Delta compares its list of files with the whole log after every commit, a Spark job each.
_JVM: Final[list[str]] = ["-XX:+UseParallelGC", "-Duser.timezone=UTC"]

# One compiler alone is given 48 MB for its code; a few cycles fill them, and it then compiles what it has thrown away:
# of 182 s of CPU in five cycles 29 s (docs/benchmarks.md).
_QUICK: Final[list[str]] = ["-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m"]

_current: SparkSession | None = None


def spark_session(
    app_name: str = "lakestreams",
    *,
    cores: int = 2,
    memory: str = "2g",
    connect: bool = False,
    quick: bool = False,
    warehouse: Path | None = None,
    extra_conf: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> SparkSession:
    """The local session, started at the first call; a later call returns the running one.

    Args:
        app_name: name of the application.
        cores: worker threads (`local[cores]`).
        memory: heap of the one JVM that is driver and executor.
        connect: talk to it through Spark Connect, as serverless and shared clusters do. One process can have one kind.
        quick: compile less (C1 only): the first round takes a quarter less CPU, later ones take longer. For what runs once,
            or at the same time as other work: demos, commands, tests.
        warehouse: folder of managed tables; default a temporary one, removed when the process ends.
        extra_conf: Spark settings on top; they win.
        progress: receives a line for each slow step (the first resolution of the jars).

    Raises:
        JavaMissing, JavaTooOld: no usable Java.
        JarsUnresolved: the connectors are not there and could not be resolved.
    """
    if _current is not None and not _stopped(_current):
        return _current
    java = java_for_spark(pyspark_version())
    jars = spark_jars(progress)
    scratch = temporary_dir("spark")
    log = log_dir() / f"spark-{os.getpid()}.log"
    _set_environment(log)
    conf = {
        **_FIXED_CONF,
        "spark.sql.streaming.checkpointFileManagerClass": _checkpoint_files(),
        "spark.app.name": app_name,
        "spark.driver.memory": memory,
        # Not spark.jars: that copies every jar through a file server at the start, and gives each Connect session a
        # class loader of its own. In one JVM the class path is the same thing, sooner.
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.executor.extraClassPath": os.pathsep.join(map(str, jars)),  # of use if they are processes of their own
        "spark.driver.extraJavaOptions": _in_one_line([*_JVM, *_QUICK * quick, *class_archive.flags(java, jars)]),
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(warehouse or scratch / "warehouse"),
        **(extra_conf or {}),
    }
    try:
        with _terminal_into(log):
            session = _connect_session(conf, cores) if connect else _classic_session(conf, cores)
    except BaseException as error:  # Ctrl-C too: the scratch folder must not stay
        error.add_note(f"Spark's log, {log}, ends with\n{tail(log)}")
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    atexit.register(_end_jvm, scratch)
    _remember(session)
    return session


def _in_one_line(options: list[str]) -> str:
    """Options as Spark reads them from one line: the cache's path may have a space."""
    return " ".join('"' + one.replace("\\", "\\\\").replace('"', '\\"') + '"' for one in options)


def _checkpoint_files() -> str:
    """The class that writes checkpoints, and Delta's checksums, through the file system of `_FIXED_CONF`."""
    package = "org.apache.spark.sql.execution.streaming"
    moved = "" if pyspark_version().startswith("4.0.") else ".checkpointing"
    return f"{package}{moved}.FileSystemBasedCheckpointFileManager"


def _remember(session: SparkSession) -> None:
    global _current  # noqa: PLW0603  # one JVM a process is Spark's own rule; this is its handle
    _current = session


def _stopped(session: SparkSession) -> bool:
    if hasattr(session, "is_stopped"):  # Connect
        return bool(session.is_stopped)
    return session.sparkContext._jsc is None


def _classic_session(conf: Mapping[str, str], cores: int) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415  # takes a second, and `lakestreams check` needs no Spark

    builder = SparkSession.builder.master(f"local[{cores}]")
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if not hasattr(session, "is_stopped"):  # else Connect's after all: the environment may say so
        from lakestreams.local import lookups  # noqa: PLC0415  # see above

        lookups.remember(session)
    return session


def _connect_session(conf: Mapping[str, str], cores: int) -> SparkSession:
    """What `SparkSession.builder.remote("local[n]")` does, on a free port of loopback instead of 15002 of all addresses."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession  # noqa: PLC0415  # see above

    port = free_port()  # the client must call it localhost: with any other name and a token it insists on TLS
    server = {
        **conf,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    os.environ["SPARK_LOCAL_REMOTE"] = "1"  # stop() ends the server too
    ConnectSession._start_connect_server(f"local[{cores}]", server)
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # pyspark.sql.functions build Connect's columns from now on
    # cast: to pyspark's type hints the two kinds of session are unrelated; to its users they are one.
    return cast("SparkSession", ConnectSession.builder.remote(f"sc://localhost:{port}").getOrCreate())


def _set_environment(log: Path) -> None:
    """What the JVM and the Python workers inherit."""
    use_utf8_names()
    # The jars fit the pyspark that is installed, not another Spark that this may name.
    spec = importlib.util.find_spec("pyspark")
    if spec is not None and spec.submodule_search_locations:
        os.environ["SPARK_HOME"] = next(iter(spec.submodule_search_locations))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["LOG4J_CONFIGURATION_FILE"] = str(_HERE / "log4j2.properties")
    os.environ["LAKESTREAMS_SPARK_LOG"] = str(log)
    # foreachBatch functions of a Connect session run in another Python process, which must find this package.
    root = _HERE.parents[1]
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if root.name != "site-packages" and str(root) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(root), *paths])


@contextlib.contextmanager
def _terminal_into(log: Path) -> Iterator[None]:
    """Sends this process's stdout and stderr to the log while the JVM starts, which keeps them for life.

    The JVM and the Python workers write there what no logger settings reach (incubator modules, native libraries).
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with log.open("ab") as sink:
        os.dup2(sink.fileno(), 1)
        os.dup2(sink.fileno(), 2)
    try:
        yield
    finally:
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)


def _let_objects_be(gateway: object) -> None:
    """Ends the thread that tells the JVM which objects nobody holds any more: it would find the JVM gone, and say so."""
    from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER  # type: ignore[import-untyped]  # noqa: PLC0415  # see above

    told = getattr(getattr(gateway, "_gateway_client", None), "finalizer_deque", None)
    if told is not None:
        told.clear()
        told.append(SHUTDOWN_FINALIZER_WORKER)


def _end_jvm(scratch: Path) -> None:
    """Ends the JVM and waits for it, so that nothing writes into the scratch folder while it is removed."""
    from pyspark import SparkContext  # noqa: PLC0415  # imported by now

    if _current is not None and not _stopped(_current):
        with contextlib.suppress(Exception):
            _current.stop()  # else py4j and the accumulator server print traces of their broken pipes
    _let_objects_be(SparkContext._gateway)
    jvm = getattr(SparkContext._gateway, "proc", None)
    if jvm is not None and jvm.stdin is not None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            jvm.stdin.close()  # the gateway's sign to exit; its shutdown hooks stop Spark
            jvm.wait(60)
    shutil.rmtree(scratch, ignore_errors=True)
