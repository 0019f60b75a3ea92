"""The session has Delta and Kafka, is quiet, and leaves nothing behind; the same behind Spark Connect."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil
import pytest

from lakestreams.local import session as session_module
from lakestreams.local.session import spark_session

SOURCE_ROOT = Path(session_module.__file__).parents[2]


@pytest.mark.connect
def test_session_is_of_the_asked_kind(spark, connect_mode):
    assert ("connect" in type(spark).__module__) is connect_mode


@pytest.mark.connect
def test_delta_write_merge_read(spark, tmp_path):
    table = str(tmp_path / "table")
    spark.range(10).selectExpr("id", "'old' as v").write.format("delta").save(table)
    spark.sql(
        f"merge into delta.`{table}` t using (select id, 'new' as v from range(5, 15)) s on t.id = s.id "
        "when matched then update set v = s.v when not matched then insert *"
    )
    found = spark.read.format("delta").load(table).groupBy("v").count().orderBy("v").collect()
    assert [tuple(row) for row in found] == [("new", 10), ("old", 5)]


@pytest.mark.connect
def test_settings_that_results_depend_on(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"


@pytest.mark.connect
def test_second_call_returns_the_same_session(spark, connect_mode):
    assert spark_session(connect=connect_mode) is spark


@pytest.mark.lts  # behind Connect whole runs show it (test_enrichment)
@pytest.mark.broker
def test_kafka_to_delta_by_merge_in_foreach_batch(spark, broker, tmp_path):
    """What ingest does: read what is there, run a function a batch, and in it write with the batch's own session."""
    topic = f"session-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, partitions=2)
    broker.produce(topic, [(f"k{number % 7}", str(number), 1_000 + number) for number in range(50)])
    table, checkpoint = str(tmp_path / "table"), str(tmp_path / "checkpoint")
    spark.sql(f"create table delta.`{table}` (k string, n bigint, batch bigint) using delta")

    def upsert(batch, batch_id):
        import lakestreams  # the worker of a Connect session must find the package

        counts = batch.selectExpr("cast(key as string) as k").groupBy("k").count()
        counts.createOrReplaceTempView("counts")
        counts.sparkSession.sql(
            f"merge into delta.`{table}` t using (select k, count as n, {batch_id}L as batch from counts) s on t.k = s.k "
            "when not matched then insert *"
        )
        assert lakestreams.__version__

    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .writeStream.foreachBatch(upsert)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert query.exception() is None
    rows = spark.read.format("delta").load(table).collect()
    assert sum(row.n for row in rows) == 50
    assert len(rows) == 7
    assert len(query.recentProgress) == 1


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE_ROOT), **environment},
    )


def test_classes_and_methods_are_asked_for_once(spark, monkeypatch):
    """What they give is what a new look-up gives; fields are no methods, and are asked for each time."""
    from py4j.java_gateway import JavaClass, JavaMember, JVMView

    jvm = spark._jvm
    functions = getattr(jvm, "org.apache.spark.sql.functions")
    assert jvm.PythonUtils.toSeq(["a"]).apply(0) == "a"
    assert functions.lit(3).toString() == "3"
    for kind in (JVMView, JavaClass):
        monkeypatch.setattr(kind, "__getattr__", lambda *_: pytest.fail("asked again"))
    assert getattr(jvm, "org.apache.spark.sql.functions") is functions
    assert isinstance(functions.lit, JavaMember)
    assert functions.lit(4).toString() == "4"
    assert jvm.PythonUtils.toSeq(["b"]).apply(0) == "b"
    monkeypatch.undo()
    assert spark.range(1).collect()
    assert spark.sparkContext.getLocalProperty("callSite.short") == "lakestreams", "pyspark leaves it alone"
    assert jvm.java.lang.Integer.MAX_VALUE == 2**31 - 1
    with pytest.raises(Exception, match="does not exist in the JVM"):
        functions.no_such_function  # noqa: B018 - looking it up is what fails


QUIET = """
import os, tempfile
from lakestreams.local.session import spark_session
spark = spark_session(quick=True)
folder = tempfile.mkdtemp(dir=os.environ["TMPDIR"])
spark.range(3).write.format("delta").save(folder + "/t")
print(spark.read.format("delta").load(folder + "/t").count())
try:
    spark.sql("select assert_true(false, 'on purpose')").collect()
except Exception as error:
    print(type(error).__name__)
print(spark._jvm.java.util.TimeZone.getDefault().getID())
import shutil; shutil.rmtree(folder)
"""


@pytest.mark.slow
def test_quiet_and_tidy(tmp_path):
    """Nothing but the program's own lines on the terminal, nothing left in the temporary or working folder."""
    logs, temporary, working = tmp_path / "logs", tmp_path / "tmp", tmp_path / "cwd"
    for folder in (logs, temporary, working):
        folder.mkdir()
    script = f"import os; os.chdir({str(working)!r})\n{QUIET}"
    done = run(script, LAKESTREAMS_LOG_DIR=str(logs), TMPDIR=str(temporary), TZ="America/New_York")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["3", "SparkRuntimeException", "UTC"]
    assert list(working.iterdir()) == []
    assert [path.name for path in temporary.iterdir() if path.name.startswith("lakestreams-")] == []
    assert [path.suffix for path in logs.iterdir()] == [".log"]


def test_a_session_that_cannot_start_shows_its_log():
    done = run("from lakestreams.local.session import spark_session\nspark_session(memory='1')")
    assert done.returncode != 0
    assert "Spark's log" in done.stderr
    assert "Too small maximum heap" in done.stderr


def test_a_cache_with_a_space_and_another_spark_on_this_machine(tmp_path):
    """Spark reads the JVM's options from one line, in which a space ends an option; and SPARK_HOME may be another one's."""
    cache = tmp_path / "a cache"
    cache.mkdir()
    jars = session_module.spark_jars()
    (cache / jars[0].parent.name).symlink_to(jars[0].parent)
    script = """
from lakestreams.local.class_archive import archive_file
from lakestreams.local.jars import spark_jars
from lakestreams.local.java import find_java
from lakestreams.local.session import spark_session
archive_file(find_java(), spark_jars()).write_bytes(b"no archive, which Java goes on without")
print(spark_session(quick=True).range(3).count())
"""
    done = run(script, LAKESTREAMS_CACHE=str(cache), SPARK_HOME=str(tmp_path / "nothing"))
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


PARENT = """
import time
from lakestreams.local.session import spark_session
spark = spark_session(quick=True)
from pyspark import SparkContext
print(SparkContext._gateway.proc.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.crash
def test_the_jvm_goes_when_its_parent_is_killed():
    environment = {**os.environ, "PYTHONPATH": str(SOURCE_ROOT)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, env=environment)
    jvm = psutil.Process(int(parent.stdout.readline()))
    below = [jvm, *jvm.children(recursive=True)]
    parent.send_signal(signal.SIGKILL)
    parent.wait(10)
    deadline = time.monotonic() + 20
    while alive := [process for process in below if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.1)
