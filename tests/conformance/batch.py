"""The executor on the join kernels: the cases of a kind are histories of one topology and share its jobs."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.conformance.cases import Case, Input, Row, Rules
from tests.conformance.executors import Executor, Outcome
from tests.conformance.topologies import OUTPUT, Kind, build, decode, encode, joined_value, kind_of, windows_of

from lakestreams.evaluate.inputs import Results
from lakestreams.testing.histories import Histories, Piped
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import Row as SparkRow

_COLUMNS = ("left", "right", "further", "mapped")
_AT_ONCE = 12  # kinds whose results are collected by one job


class Batch:
    """Runs cases on the kernels, each in so many steps.

    Args:
        steps: into how many pieces each case is cut, at random places.
        seed: of the cuts.
    """

    def __init__(self, steps: int, seed: int) -> None:
        self._steps = steps
        self._seed = seed

    def run(self, cases: Sequence[Case], rules: Rules) -> Mapping[str, Outcome]:
        kinds: dict[Kind, list[Case]] = defaultdict(list)
        for case in cases:
            kinds[kind_of(case, rules)].append(case)
        outcomes: dict[str, Outcome] = {}
        with small_session() as spark:
            groups = []
            for kind, of_kind in kinds.items():
                if kind.params.full == "shutdown":  # what stops a run stops all that runs with it
                    outcomes |= self._run_alone(spark, kind, of_kind)
                else:
                    groups.append((kind, of_kind))
            for start in range(0, len(groups), _AT_ONCE):
                outcomes |= self._run_together(spark, groups[start : start + _AT_ONCE])
        return outcomes

    def _run_alone(self, spark: SparkSession, kind: Kind, cases: list[Case]) -> dict[str, Outcome]:
        outcomes: dict[str, Outcome] = {}
        for case in cases:
            try:
                outcomes |= self._run_together(spark, [(kind, [case])])
            except Exception as error:  # noqa: BLE001 - this case has failed, or was to
                outcomes[case.id] = Outcome(error=f"{type(error).__name__}: {error}")
        return outcomes

    def _run_together(self, spark: SparkSession, groups: Sequence[tuple[Kind, list[Case]]]) -> dict[str, Outcome]:
        outcomes: dict[str, Outcome] = {}
        running: dict[int, Group] = {}
        for number, (kind, cases) in enumerate(groups):
            try:
                running[number] = Group(spark, kind, cases, self._steps, self._seed)
            except Exception as error:  # noqa: BLE001 - these cases have failed, the others go on
                outcomes |= {case.id: Outcome(error=f"{type(error).__name__}: {error}") for case in cases}
        for step in range(self._steps):
            frames, late = [], []
            for number, group in list(running.items()):
                try:
                    results = group.step(step, keeps=step + 1 < self._steps)
                except Exception as error:  # noqa: BLE001 - as above
                    del running[number]
                    outcomes |= {case.id: Outcome(error=f"{type(error).__name__}: {error}") for case in group.cases}
                    continue
                frames.append(_rows(results, number))
                late += [
                    one.records.select(F.lit(number).alias("group"), "*")
                    for one in results.rejected
                    if one.code == "LATE"
                ]
            _hand_out(frames, running, Group.take)
            _hand_out(late, running, Group.take_late)
        for group in running.values():
            outcomes |= group.outcomes()
        return outcomes


class Group:
    """The cases of one kind on their way."""

    def __init__(self, spark: SparkSession, kind: Kind, cases: Sequence[Case], steps: int, seed: int) -> None:
        self.cases = cases
        partitions = 1 + max((one.partition for case in cases for one in case.inputs), default=0)
        times: dict[str, dict[int, tuple[int, int, int]]] = defaultdict(dict)
        for number, case in enumerate(cases):
            for join, windows in windows_of(case).items():
                times[join][number] = windows
        self._stride = partitions
        self._histories = Histories(
            build(kind), spark, partitions={"left": partitions, "right": partitions}, many=True, times=times,
            retention={n: case.params.history_retention_ms or 0 for n, case in enumerate(cases)}, send_old_values=kind.send_old_values,
        )  # fmt: skip
        self._pieces = _cut(cases, steps, seed)
        self._inputs: list[tuple[int, Input]] = []
        self._found: list[tuple[int, int, int, Row]] = []
        self._late: dict[int, set[tuple[str, int, int]]] = defaultdict(set)

    def step(self, number: int, *, keeps: bool) -> Results:
        pieces = []
        for case, one in self._pieces[number]:
            self._inputs.append((case, one))
            pieces.append(Piped(one.topic, _bytes(one.key), _bytes(one.value), one.ts, one.partition, case))
        return self._histories.step(pieces, keeps=keeps)[0]

    def take(self, row: SparkRow) -> None:
        number, cause = self._inputs[row["cycle"] - 1]
        case = self.cases[number]
        key = decode(row["k"])
        value = None if row["gone"] else joined_value(case, key, [row[name] for name in _COLUMNS])
        old = None if row["old_gone"] else joined_value(case, key, [row[f"old_{name}"] for name in _COLUMNS])
        found = Row(key, value, row["ts"], cause.offset_order, old)
        self._found.append((number, row["cycle"], row["n"], found))

    def take_late(self, row: SparkRow) -> None:
        number = row["partition"] // self._stride
        self._late[number].add((row["source"], row["partition"], row["offset"]))

    def _orders(self) -> dict[tuple[str, int, int], int]:
        """Coordinates to `offset_order`."""
        found: dict[tuple[str, int, int], int] = {}
        counts: dict[tuple[str, int], int] = defaultdict(int)
        for number, one in self._inputs:
            at = (one.topic, number * self._stride + one.partition)
            found[*at, counts[at]] = one.offset_order
            counts[at] += 1
        return found

    def outcomes(self) -> dict[str, Outcome]:
        rows: dict[int, list[Row]] = defaultdict(list)
        orders = self._orders()
        for number, _, _, row in sorted(self._found, key=lambda one: one[:3]):
            rows[number].append(row)
        return {
            case.id: Outcome(tuple(rows[number]), tuple(sorted(orders[at] for at in self._late[number])))
            for number, case in enumerate(self.cases)
        }


def executor(seed: int) -> Executor:
    """Everything in one batch: nothing is left to chance."""
    return Batch(1, seed)


@contextmanager
def small_session() -> Iterator[SparkSession]:
    """The session that is there, or a new one, set up for tiny inputs."""
    from lakestreams.local.session import spark_session

    active = SparkSession.getActiveSession()
    spark = active or spark_session("conformance")
    try:
        with small(spark):
            yield spark
    finally:
        if active is None:
            spark.stop()


def _bytes(value: Any) -> bytes | None:
    text = encode(value)
    return None if text is None else text.encode("utf-8")


def _cut(cases: Sequence[Case], steps: int, seed: int) -> list[list[tuple[int, Input]]]:
    """Each case's records in so many pieces; a piece may be empty."""
    pieces: list[list[tuple[int, Input]]] = [[] for _ in range(steps)]
    for number, case in enumerate(cases):
        rng = random.Random(f"{seed}/{case.id}")
        ends = sorted(rng.randint(0, len(case.inputs)) for _ in range(steps - 1))
        for step, (start, end) in enumerate(zip([0, *ends], [*ends, len(case.inputs)], strict=True)):
            pieces[step] += [(number, one) for one in case.inputs[start:end]]
    return pieces


def _rows(results: Results, group: int) -> DataFrame:
    """An output's rows in columns that all kinds have."""
    frame = results.records[OUTPUT]
    present = frame.schema["v"].dataType.names  # type: ignore[attr-defined]
    has_old = "old" in frame.columns

    def column(struct: str, name: str, *, there: bool) -> Any:
        return F.col(struct)[name] if there and name in present else F.lit(None).cast("string")

    return frame.select(
        F.lit(group).alias("group"),
        F.col("o")["cycle"].alias("cycle"),
        "n",
        F.col("k")["k"].alias("k"),
        "ts",
        F.col("v").isNull().alias("gone"),
        *(column("v", name, there=True).alias(name) for name in _COLUMNS),
        (F.col("old").isNull() if has_old else F.lit(True)).alias("old_gone"),
        *(column("old", name, there=has_old).alias(f"old_{name}") for name in _COLUMNS),
    )


def _hand_out(frames: Sequence[DataFrame], groups: Mapping[int, Group], take: Any) -> None:
    if frames:
        for row in reduce(DataFrame.unionByName, frames).collect():
            take(groups[row["group"]], row)
