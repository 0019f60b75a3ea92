"""Flink SQL as a contender: a work as one job in a JVM of its own over topics that are loaded already, and what it wrote.

The program is `java/FlinkSqlBench.java`. The job reads Kafka up to the topics' ends and writes exactly once: rows of a stream
as Parquet files, which a checkpoint commits, and a table's rows to a topic by their keys, since Flink's files take no updates.
There is a connector for Delta (`io.delta:delta-flink`), but Maven Central had none for Flink 2 on 2026-11-28.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyspark

from bench.java_program import JavaProgram
from bench.pins import FLINK_PINS

if TYPE_CHECKING:
    from bench.works import Work
    from lakestreams.local.broker import Broker
    from lakestreams.topology.endpoints import Source

CHECKPOINT_MS: Final = 60_000
"""How often what was written becomes visible, besides the end of the job. By default never; users set seconds to minutes."""
_KEYED: Final = "'key.format' = 'raw', 'value.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY'"
_READ: Final = {"properties.isolation.level": "read_committed", "scan.bounded.mode": "latest-offset"}
_OPENED: Final = (
    "java.lang",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "java.time",
    "java.nio",
)
"""Packages that Flink's own scripts open to it."""


@dataclass(frozen=True)
class Outcome:
    """One run.

    Attributes:
        started_seconds: from the start of the job, planned before, until its last checkpoint has committed everything.
        cpu_seconds: of the process, all threads; the broker's work is not in it.
        peak_bytes: the most resident memory, RocksDB's included.
        output: the folder with the Parquet files, or the topic.
        landed: the folder with the raw topics, which is there if they are written.
    """

    started_seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str
    landed: Path


def run(
    work: Work,
    broker: Broker,
    folder: Path,
    *,
    lands: bool = False,
    backend: str = "hashmap",
    parallelism: int = 2,
    heap: str = "6g",
    partitions: int = 4,
) -> Outcome:
    """Runs a work once, as a new job, into a new output.

    Args:
        broker: has the topics.
        folder: for outputs, checkpoints, state and the log.
        lands: whether the same job also writes each topic's records as they are, with offsets and headers.
        backend: state.backend.type: `hashmap`, as by default, or `rocksdb`.
        heap: the JVM's greatest heap; RocksDB's memory comes on top.
        partitions: of the output topic.

    Raises:
        RuntimeError: Flink failed; the message holds the end of its log.
        JarsUnresolved, JavaMissing, JavaTooOld: there is nothing to run it with.
    """
    program = _program(folder)
    program.compiled()
    job = f"bench-flink-{work.name.replace('_', '-')}-{uuid.uuid4().hex[:8]}"
    own = folder / job
    own.mkdir(parents=True)
    output = f"out-{job}" if work.newest else str(own / "output")
    if work.newest:
        broker.create_topic(output, partitions)
    script, landed = own / "job.sql", own / "landed"
    sql = statements(work, broker.bootstrap_servers, output, landed if lands else None)
    script.write_text(";\n".join([*sql, ""]), "utf-8")
    settings = {
        "parallelism.default": str(parallelism),
        "restart-strategy.type": "none",
        "execution.checkpointing.interval": f"{CHECKPOINT_MS} ms",
        "execution.checkpointing.dir": (own / "checkpoints").as_uri(),
        "state.backend.type": backend,
        "state.backend.rocksdb.localdir": str(own / "state"),
        "execution.checkpointing.incremental": str(backend == "rocksdb").lower(),
        "taskmanager.memory.managed.size": "1g",
        "taskmanager.memory.network.min": "256m",
        "taskmanager.memory.network.max": "256m",
        "io.tmp.dirs": str(own),
        "pipeline.object-reuse": "true",
        "table.local-time-zone": "UTC",
    }
    found = program.run(
        [str(script), *(f"{key}={value}" for key, value in settings.items())], folder / f"{job}.log", heap=heap
    )
    for part in ("checkpoints", "state"):
        shutil.rmtree(own / part, ignore_errors=True)
    return Outcome(**found, output=output, landed=landed)


def statements(work: Work, servers: str, output: str, landed: Path | None) -> list[str]:
    """The job in SQL: its tables, and what is inserted."""
    found = [_source(one, work, servers) for one in work.topology(True).sources]
    columns = ", ".join(map(_column, [f"{work.key} string", *work.value.split(", ")]))
    if work.newest:
        options = {
            "connector": "upsert-kafka",
            "topic": output,
            "properties.bootstrap.servers": servers,
            "properties.transaction.timeout.ms": "600000",
            "properties.compression.type": "lz4",
            "properties.batch.size": "131072",
            "sink.delivery-guarantee": "exactly-once",
            "sink.transactional-id-prefix": output,
        }
        primary = f", PRIMARY KEY (`{work.key}`) NOT ENFORCED"
        found.append(f"CREATE TABLE results ({columns}{primary}) WITH ({_options(options)}, {_KEYED})")
    else:
        found.append(f"CREATE TABLE results ({columns}) WITH ({_options(_files(output))})")
    found.append(f"INSERT INTO results {work.flink}")
    for topic in work.topics if landed else ():
        found += _landing(topic, servers, f"{landed}/{topic}")
    return found


def _source(source: Source, work: Work, servers: str) -> str:
    """A source as lakestreams has it: a stream, or a table of the newest value of each key; with event time if rows have one."""
    key, columns = source.key.fields[0].name, work.topics[source.topic][0]
    fields = ", ".join(map(_column, [f"{key} string", *columns.split(", ")]))
    options = {"topic": source.topic, **_READ, "properties.bootstrap.servers": servers}
    if not work.newest:
        fields += ", event_time TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', WATERMARK FOR event_time AS event_time"
    if source.kind == "table":
        fields += f", PRIMARY KEY (`{key}`) NOT ENFORCED"
        options |= {"connector": "upsert-kafka"}
    else:
        options |= {"connector": "kafka", "scan.startup.mode": "earliest-offset", "key.fields": key}
    return f"CREATE TABLE `{source.topic}` ({fields}) WITH ({_options(options)}, {_KEYED})"


def _landing(topic: str, servers: str, folder: str) -> list[str]:
    """A topic's records as they are, into Parquet files."""
    fields = (
        "`key` BYTES, `value` BYTES, `partition` INT METADATA VIRTUAL, `offset` BIGINT METADATA VIRTUAL, "
        "`timestamp` TIMESTAMP_LTZ(3) METADATA VIRTUAL, headers MAP<STRING, BYTES> METADATA VIRTUAL"
    )
    options = {
        "connector": "kafka", "topic": topic, "properties.bootstrap.servers": servers, "key.format": "raw",
        "key.fields": "key", "value.format": "raw", "value.fields-include": "EXCEPT_KEY",
        "scan.startup.mode": "earliest-offset", **_READ,
    }  # fmt: skip
    written = fields.replace(" METADATA VIRTUAL", "")
    return [
        f"CREATE TABLE raw_{topic} ({fields}) WITH ({_options(options)})",
        f"CREATE TABLE landed_{topic} ({written}) WITH ({_options(_files(folder))})",
        f"INSERT INTO landed_{topic} SELECT `key`, `value`, `partition`, `offset`, `timestamp`, headers FROM raw_{topic}",
    ]


def _files(folder: str) -> dict[str, str]:
    return {"connector": "filesystem", "path": f"file://{folder}", "format": "parquet", "parquet.compression": "SNAPPY"}


def _column(text: str) -> str:
    name, kind = text.split()
    return f"`{name}` {kind}"


def _options(options: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())


def _program(folder: Path) -> JavaProgram:
    """With its temporary files in a folder, where its web server leaves some."""
    opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED]
    return JavaProgram("Flink", "FlinkSqlBench", FLINK_PINS, _hadoop(), [*opened, f"-Djava.io.tmpdir={folder}"])


def _hadoop() -> Sequence[Path]:
    """Hadoop's classes, which Parquet needs: those of the installed pyspark."""
    return sorted(Path(pyspark.__file__).with_name("jars").glob("hadoop-client-*.jar"))
