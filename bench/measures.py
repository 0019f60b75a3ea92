"""What is measured of a case: wall time, CPU time of Spark and its Python workers, rows, stages; and of a process."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Case:
    """A kernel on its input.

    Attributes:
        name: what is printed and chosen by.
        records: how many new records both sides bring.
        run: gives the results.
        than: the case that it is compared with.
    """

    name: str
    records: int
    run: Callable[[], DataFrame]
    than: str = ""


@dataclass(frozen=True)
class Stage:
    """What Spark tells of a stage: when it began and ended (ms), CPU seconds of its tasks, bytes that it shuffled."""

    number: int
    began: int
    ended: int
    tasks: int
    cpu: float
    shuffled: int


@dataclass(frozen=True)
class Measure:
    """One run.

    Attributes:
        cpu: seconds of the JVM, its Python workers, and this process.
    """

    seconds: float
    cpu: float
    rows: int
    stages: list[Stage]


def measure(spark: SparkSession, case: Case) -> Measure:
    """Runs a case once."""
    known = {stage.number for stage in _stages(spark)}
    seen = Observation()
    cpu = Cpu(own_processes)
    began = time.perf_counter()
    case.run().observe(seen, F.count(F.lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - began
    stages = sorted((one for one in _stages(spark) if one.number not in known), key=lambda one: one.began)
    return Measure(seconds, cpu.spent(), seen.get["rows"], stages)


def _stages(spark: SparkSession) -> list[Stage]:
    """What Spark's own store knows of every stage; it is there without the UI, but has no Python interface."""
    context: Any = spark.sparkContext
    java, gateway = context._jvm, context._gateway  # noqa: SLF001 - see above
    none = java.java.util.ArrayList()
    store = context._jsc.sc().statusStore()  # noqa: SLF001
    listed = store.stageList(none, False, False, gateway.new_array(java.double, 0), none)
    return [
        Stage(
            one.stageId(),
            one.submissionTime().get().getTime(),
            one.completionTime().get().getTime(),
            one.numCompleteTasks(),
            one.executorCpuTime() / 1e9,
            one.shuffleWriteBytes(),
        )
        for one in (listed.apply(place) for place in range(listed.size()))
        if one.numCompleteTasks() and one.completionTime().isDefined()
    ]


class Cpu:
    """CPU seconds that processes take from when it is made.

    Args:
        processes: those that there are, whenever it is asked.
    """

    def __init__(self, processes: Callable[[], Iterable[psutil.Process]]) -> None:
        self._processes = processes
        self._before = self._each()

    def spent(self) -> float:
        """Those so far.

        A process that has ended meanwhile counts as nothing, as nobody can say what it took. Spark ends Python workers that have
        been idle for a minute.
        """
        return sum(seconds - self._before.get(one, 0.0) for one, seconds in self._each().items())

    def _each(self) -> dict[psutil.Process, float]:
        """Those of each process, and of those below it that have ended and that it has waited for."""
        found = {}
        for one in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                times = one.cpu_times()
                found[one] = float(times.user + times.system + times.children_user + times.children_system)
        return found


def own_processes() -> list[psutil.Process]:
    """This one and all below it: the JVM and Python workers."""
    own = psutil.Process()
    return [own, *own.children(recursive=True)]
