"""One driver over hundreds of cycles, as a continuous job has it: neither its cycles nor its memory grow with what is past.

Keys are bounded, so what a cycle needs of the past is, too: whatever grows, grows with history alone. Nothing is maintained
in between: the bundle does that once a night, and 500 rounds that are 30 s apart take four hours.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.engine.harness import ZERO, Bench, assert_ledger_sound, fresh_topics
from tests.engine.marathon import WORKS

from lakestreams.verify.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker, pytest.mark.soak]

Record = tuple[str, str, int]
MIB = 1 << 20
KEYS = 50

CYCLES = int(os.environ.get("LAKESTREAMS_TEST_CYCLES", "500"))
"""All of them; fewer for a trial, and what follows is as many times fewer."""

WARM_UP = CYCLES // 10
"""Not counted: the JVM compiles what runs often, and takes twice the CPU until then, which would hide what grows."""

PACED, TENTH = CYCLES * 2 // 5, CYCLES // 25
SLOWER = 1.3
MEMORY_AT = (CYCLES // 5, CYCLES * 3 // 5, CYCLES)
GROWTH, SLACK = 1.1, 30 * MIB
MORE_FILES = 20


def views(cycle: int) -> tuple[list[Record], list[Record]]:
    """Twenty views and four profiles."""
    at = ZERO + 1_000 * cycle
    return (
        [(f"u{(7 * cycle + n) % KEYS}", f"/{n}", at + n) for n in range(20)],
        [(f"u{(3 * cycle + n) % KEYS}", f"r{cycle}", at) for n in range(4)],
    )


def orders(cycle: int) -> tuple[list[Record], list[Record]]:
    """Twenty orders, each of another customer than before, and a customer's new name."""
    at = ZERO + 1_000 * cycle
    rows = [json.dumps({"customer": f"c{(cycle + n) % 10}", "amount": cycle}) for n in range(20)]
    return (
        [(f"o{(7 * cycle + n) % KEYS}", row, at + n) for n, row in enumerate(rows)],
        [(f"c{cycle % 10}", f"n{cycle}", at)],
    )


NEWS: dict[str, Callable[[int], tuple[list[Record], list[Record]]]] = {"lookups": views, "tables": orders}


@contextmanager
def running(
    root: Path, broker: Broker, work: str, topics: tuple[str, str]
) -> Iterator[Callable[[str], dict[str, float]]]:
    """A driver in a process of its own: what it answers to a line."""
    command = [sys.executable, "-m", "tests.engine.marathon", str(root), broker.bootstrap_servers, work, *topics]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        asked, told = process.stdin, process.stdout
        assert asked is not None
        assert told is not None

        def ask(line: str) -> dict[str, float]:
            asked.write(line + "\n")
            asked.flush()
            found: dict[str, float] = json.loads(told.readline())
            return found

        yield ask
        asked.close()
        assert process.wait(120) == 0


@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("work", WORKS)
def test_neither_seconds_nor_memory_grow_with_what_is_past(
    spark: SparkSession, broker: Broker, tmp_path: Path, work: str
) -> None:
    topics = fresh_topics(broker, 2)
    took: list[dict[str, float]] = []
    used: dict[int, dict[str, float]] = {}
    with running(tmp_path, broker, work, topics) as ask, (tmp_path / "took.jsonl").open("w") as log:
        for number in range(1, CYCLES + 1):
            for topic, records in zip(topics, NEWS[work](number), strict=True):
                broker.produce(topic, records)
            took.append(ask("round"))
            if number in MEMORY_AT:
                used[number] = ask("memory")
            print(json.dumps(took[-1] | used.get(number, {})), file=log, flush=True)

    paced = took[WARM_UP : WARM_UP + PACED]
    parts = {"first": paced[:TENTH], "last": paced[-TENTH:], "end": took[-TENTH:]}
    wall, cpu = (
        {name: statistics.median(one[clock] for one in part) for name, part in parts.items()}
        for clock in ("wall", "cpu")
    )
    files = {number: one.pop("files") for number, one in used.items()}
    in_mib = {number: {what: round(size / MIB) for what, size in one.items()} for number, one in used.items()}
    print(f"{work}: s a cycle {wall}, CPU s {cpu}, MiB {in_mib}, files {files}")  # noqa: T201  # shown by pytest -s and in the log
    for what in ("heap", "python"):
        assert used[CYCLES][what] <= GROWTH * used[MEMORY_AT[0]][what] + SLACK, (what, in_mib)
    assert files[CYCLES] <= files[MEMORY_AT[0]] + MORE_FILES, files
    assert wall["last"] <= SLOWER * wall["first"], (wall, cpu)

    bench = Bench(spark, broker, tmp_path, WORKS[work](*topics))
    assert bench.ledger().where("kind = 'plan'").count() == CYCLES, "a round was not one cycle"
    assert_ledger_sound(bench)
    assert verify(spark, bench.lake, bench.topology).equal
