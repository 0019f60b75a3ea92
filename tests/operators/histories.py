"""Histories of a stream and a table as frames of a kernel, many at once: a history is a task of its own.

In one batch each record has a cycle of its own; cut, a record's cycle is the number of its piece.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.conformance.cases import Case, load
from tests.reference.records import Record

from lakestreams.operators.records import CONTRIBUTOR_TYPE, ORDER_TYPE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

CASES = Path(__file__).parents[1] / "conformance" / "cases"
KEY_TYPE = "struct<history: int, number: bigint, text: string>"
FRAME = (
    f"k {KEY_TYPE}, v struct<text: string>, ts bigint, o {ORDER_TYPE}, n int, kind string, "
    f"contributors array<{CONTRIBUTOR_TYPE}>, task int"
)
NO_GRACE = -1


@dataclass(frozen=True)
class History:
    """One task's records (topic, key, value, ts), in their order; `history_ms` and `grace_ms` of the table and join."""

    number: int
    events: tuple[tuple[str, Any, Any, int], ...]
    how: str = "left"
    history_ms: int = 300_000
    grace_ms: int = NO_GRACE
    case: Case | None = None

    @property
    def records(self) -> list[Record]:
        return [
            Record(topic, 0, offset, ts, key, value)
            for offset, (topic, key, value, ts) in enumerate(self.events, start=1)
        ]


def recorded(join: str, wanted: Callable[[Case], bool]) -> list[History]:
    """The conformance cases of a join, as histories."""
    cases, faults = load(sorted(CASES.iterdir()))
    assert not faults
    return [
        History(
            number,
            tuple((one.topic, one.key, one.value, one.ts) for one in case.inputs),
            case.how,
            case.params.history_retention_ms or 0,
            NO_GRACE if case.params.grace_ms is None else case.params.grace_ms,
            case,
        )
        for number, case in enumerate(cases)
        if case.join == join and wanted(case)
    ]


def wild(count: int, seed: int) -> list[History]:
    """Few keys, few times, many tombstones, retentions that bite, every order: as unlike real data as can be."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        events = []
        drift = rng.choice([0, 0.3, 1])
        for place in range(rng.randint(4, 40)):
            topic = rng.choice(["left", "right", "right"])
            key = None if rng.random() < 0.05 else rng.choice(["a", "b"][: rng.choice([1, 2])])
            value = None if topic == "right" and rng.random() < 0.4 else f"{topic[0]}{place}"
            events.append((topic, key, value, int(place * drift) + rng.randint(0, 6)))
        history = rng.choice([1, 4, 1_000])
        grace = rng.choice([NO_GRACE, 0, 1, min(4, history)])
        found.append(History(number, tuple(events), rng.choice(["inner", "left"]), history, grace))
    return found


def per_task(histories: Iterable[History], value: Callable[[History], int]) -> Column:
    """A parameter as a column: one value a task."""
    found: dict[int, list[int]] = {}
    for one in histories:
        found.setdefault(value(one), []).append(one.number)
    column = F.lit(None).cast("bigint")
    for number, tasks in found.items():
        column = F.when(F.col("task").isin(tasks), F.lit(number)).otherwise(column)
    return column


def pieces(histories: Iterable[History], seed: int, count: int) -> dict[int, list[int]]:
    """For each history the piece, 1 to `count`, in which each of its records lies."""
    rng = random.Random(seed)
    return {one.number: sorted(rng.randint(1, count) for _ in one.events) for one in histories}


class Frames:
    """Writes histories as files and reads them as frames."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.root = spark, root
        self._files = 0

    def read(
        self,
        histories: Iterable[History],
        topic: str,
        cycles: Mapping[int, Sequence[int]] | None = None,
        cycle: int = 0,
    ) -> DataFrame:
        """The records of a topic; with `cycles`, those of one piece."""
        rows = [
            self._row(one, record, record.offset if cycles is None else cycle)
            for one in histories
            for record in one.records
            if record.source == topic
            and (topic == "right" or record.value is not None)
            and (cycles is None or cycles[one.number][record.offset - 1] == cycle)
        ]
        self._files += 1
        file = self.root / f"{self._files}.json"
        file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        return self.spark.read.schema(FRAME).json(str(file))

    def keep(self, frame: DataFrame) -> DataFrame:
        """The same rows, no longer computed."""
        self._files += 1
        path = str(self.root / f"{self._files}.parquet")
        frame.write.parquet(path)
        return self.spark.read.schema(frame.schema).parquet(path)

    @staticmethod
    def _row(history: History, record: Record, cycle: int) -> dict[str, Any]:
        at = {"source": record.source, "partition": history.number, "offset": record.offset, "attempt": 0}
        key = {"history": history.number, "number" if isinstance(record.key, int) else "text": record.key}
        return {
            "k": None if record.key is None else key,
            "v": None if record.value is None else {"text": str(record.value)},
            "ts": record.ts,
            "o": {"cycle": cycle, "stream_time_ms": record.offset, "side": int(record.source == "left"), **at},
            "n": 0,
            "kind": "record",
            "contributors": [at],
            "task": history.number,
        }
