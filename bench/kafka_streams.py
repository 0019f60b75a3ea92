"""Kafka Streams as a contender: a work in a JVM of its own over topics that are loaded already, and what it wrote.

The program is `java/KafkaStreamsBench.java`, of the version of the embedded broker.
"""

from __future__ import annotations

import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from confluent_kafka.admin import AdminClient

from bench.java_program import JavaProgram
from bench.pins import STREAMS_PINS

if TYPE_CHECKING:
    from lakestreams.local.broker import Broker

Work = Literal["enrichment", "correlation", "foreign_key"]
Guarantee = Literal["exactly_once_v2", "at_least_once"]

COMMIT_MS: Final[dict[Guarantee, int]] = {"exactly_once_v2": 100, "at_least_once": 1_000}
"""For exactly once the default. That for at least once is 30 s, and so coarse the end of a run could not be seen."""
DEFAULT_CACHE: Final = 10 * 1024 * 1024
"""statestore.cache.max.bytes as it is by default."""

_PROGRAM: Final = JavaProgram("Kafka Streams", "KafkaStreamsBench", STREAMS_PINS)
_ADMIN_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True)
class Outcome:
    """One run.

    Attributes:
        seconds: from the start of the process until all was committed, as the Admin client saw it (it asks every 100 ms).
        started_seconds: the same from `KafkaStreams.start()`: without the start of the JVM and the building.
        processed_seconds: from `KafkaStreams.start()` until the last record was processed; up to a commit interval less.
        cpu_seconds: of the process, all threads, until all was committed; the broker's work is not in it.
        peak_bytes: the most resident memory, RocksDB's included.
        peak_heap_bytes: the most heap that was seen, every 100 ms, garbage included.
        records: in the input topics.
        processed: by all tasks; with a foreign key those of the internal topics count too.
        output: the topic with what came out.
    """

    seconds: float
    started_seconds: float
    processed_seconds: float
    cpu_seconds: float
    peak_bytes: int
    peak_heap_bytes: int
    records: int
    processed: int
    output: str


def run(
    work: Work,
    broker: Broker,
    folder: Path,
    guarantee: Guarantee = "exactly_once_v2",
    cache: int = DEFAULT_CACHE,
    *,
    threads: int = 2,
    heap: str = "2g",
    partitions: int = 4,
    commit_ms: int | None = None,
) -> Outcome:
    """Runs a work once, as a new application, into a new output topic.

    Args:
        work: reads `views` and `profiles`; `orders` and `payments`; or `fk_orders` and `customers`.
        broker: has the topics.
        folder: for the state, which is removed at the end, and the log.
        guarantee: processing.guarantee.
        cache: statestore.cache.max.bytes; 0 for none.
        threads: num.stream.threads.
        heap: the JVM's greatest heap; RocksDB's memory comes on top.
        partitions: of the output topic.
        commit_ms: commit.interval.ms; by default that of COMMIT_MS.

    Raises:
        RuntimeError: Kafka Streams failed; the message holds the end of its log.
        JarsUnresolved, JavaMissing, JavaTooOld: there is nothing to run it with.
    """
    _PROGRAM.compiled()
    application = f"bench-{work.replace('_', '-')}-{uuid.uuid4().hex[:8]}"
    output = f"out-{application}"
    state = folder / application
    state.mkdir(parents=True)
    broker.create_topic(output, partitions)
    servers = broker.bootstrap_servers
    arguments = [
        *(work, servers, application, str(state), guarantee, str(cache), str(threads)),
        *(str(commit_ms or COMMIT_MS[guarantee]), output),
    ]
    try:
        return Outcome(**_PROGRAM.run(arguments, folder / f"{application}.log", heap=heap), output=output)
    finally:
        shutil.rmtree(state, ignore_errors=True)
        _remove_internal(servers, application)


def _remove_internal(servers: str, application: str) -> None:
    """Changelogs and what runs between tasks: the next contender shall not share the disk with them."""
    admin = AdminClient({"bootstrap.servers": servers})
    names = [name for name in admin.list_topics(timeout=_ADMIN_TIMEOUT_S).topics if name.startswith(f"{application}-")]
    if names:
        for removed in admin.delete_topics(names).values():
            removed.result(_ADMIN_TIMEOUT_S)
