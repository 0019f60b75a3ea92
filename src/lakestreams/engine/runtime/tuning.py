"""How a session is set for so many rows: what pays for large inputs costs more than the work itself for small ones.

For a few thousand rows most of a cycle's time goes into code that Spark generates and the JVM compiles, once for each
statement, since every cycle's differ in a number; and into stages that are planned again while they run. So a driver does
its small work without, and large work as the session is set by its user. Measured in docs/benchmarks.md.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_INPUT: Final = 20_000
"""Between what was measured: interpreted, a cycle took half the time at 1,900 records and a quarter more at 95,000."""

SHUFFLES: Final = "spark.sql.shuffle.partitions"
SETTINGS: Final[dict[str, str]] = {
    SHUFFLES: "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.files.minPartitionNum": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}
"""One task a stage, of files and of Delta's log too; no plan that is changed on the way, no code that is compiled for a few
rows."""

_LOOKUP: Final = {
    name: value for name, value in SETTINGS.items() if not name.startswith(("spark.sql.codegen", "spark.sql.files"))
}
"""Few rows are looked for among many: code is generated for these, and no stage is planned again on the way."""

ZONE: Final = "spark.sql.session.timeZone"
ARROW: Final[dict[str, str]] = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "5000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),  # none: to look costs more than all else
}
"""Batches of so many rows go to Python workers, whatever they weigh: large ones count as several (`operators/weights`)."""
_UTC: Final = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")


BUFFERS: Final[dict[str, str]] = {
    f"parquet.{what}.row.check.{when}": rows
    for what in ("block.size", "page.size")
    for when, rows in (("min", "1"), ("max", "10"))
}
"""Parquet looks after 100 rows whether what it holds is a row group, and later after 10,000: of large records these are any
number of bytes. A look costs a tenth of a microsecond a row, if that."""

_AT_ONCE: Final = (
    "spark.sql.parquet.columnarReaderBatchSize",
    *(
        f"spark.sql.{operator}.buffer.{what}.threshold"
        for operator in ("windowExec", "sortMergeJoinExec")
        for what in ("in.memory", "spill")
    ),
)
"""Rows that an operator holds, whatever they weigh. Spark 4.1 has bounds in bytes besides them, but Spark 4.0 does not."""
_USUAL: Final = 4096
"""How many these are by default; of records of 8 KiB they are what is held."""
_ORDINARY: Final = 1024  # bytes of a record
_IN_MEMORY_BYTES: Final = 32 << 20  # at once by such an operator
_LARGE: Final = {
    # a column with more bytes than this is given back between two reads, and not made twice as large as it has to be
    "spark.sql.inMemoryColumnarStorage.hugeVectorThreshold": str(8 << 20),
    # each page, and all of them, would keep the least and the greatest value; Delta has statistics of its own
    "parquet.column.statistics.enabled": "false",
}


class _Changed:
    """Settings of a session that are changed for a while."""

    def __init__(self, spark: SparkSession, refused: set[str]) -> None:
        self._spark, self._refused = spark, refused
        self._own: dict[str, str | None] | None = None  # what the session had, where it is changed now

    def __bool__(self) -> bool:
        return self._own is not None

    def change(self, settings: Mapping[str, str]) -> None:
        """Sets these, unless any are set already."""
        if self._own is not None:
            return
        self._own = {}
        for name, value in settings.items():
            if name in self._refused:
                continue
            try:
                before = self._spark.conf.get(name, None)
                if before != value:
                    self._spark.conf.set(name, value)
                    self._own[name] = before
            except Exception:  # noqa: BLE001 - each kind of compute has its own
                self._refused.add(name)

    def restore(self) -> None:
        """As it was."""
        own, self._own = self._own or {}, None
        for name, value in own.items():
            if value is None:
                self._spark.conf.unset(name)
            else:
                self._spark.conf.set(name, value)


class Tuning:
    """A session's settings while a driver works: those for few rows, or its own; and bounds of what is held of large ones.

    Not for two threads at once on one session; what is appended meanwhile (`ledger.pending_append`) meets one or the other.
    Results are the same either way, so compute that refuses a setting (serverless) goes on as it is.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._refused: set[str] = set()
        self._small, self._buffers, self._heavy = (_Changed(spark, self._refused) for _ in range(3))
        self._record_bytes = 0
        self._depth = 0

    @contextlib.contextmanager
    def small_input(self) -> Iterator[None]:
        """For few rows, but for what `rows` says; afterwards the session is as it was before the outermost of these."""
        self._depth += 1
        with self.utc():
            try:
                self._small.change(SETTINGS)
                self._buffers.change(BUFFERS)
                self._bound()
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    for changed in (self._heavy, self._buffers, self._small):
                        changed.restore()

    @contextlib.contextmanager
    def utc(self) -> Iterator[None]:
        """In UTC: what expressions make of times and texts without a zone does not depend on the session.

        Rows go to workers in batches as `ARROW` says.
        """
        zone = _Changed(self._spark, self._refused)
        zone.change({ZONE: _UTC[0]} | ARROW)
        try:
            yield
        finally:
            zone.restore()

    def other_zone(self) -> list[str]:
        """A warning where compute does not let its time zone be set, and it is another one. To be asked inside `utc`."""
        zone = None
        with contextlib.suppress(Exception):  # some compute hides its settings
            zone = self._spark.conf.get(ZONE, None)
        if zone is None or zone in _UTC:
            return []
        return [
            f"the session's time zone is {zone} and cannot be set to UTC: expressions read times without a zone in it"
        ]

    @contextlib.contextmanager
    def rows(self, count: int) -> Iterator[None]:
        """For so many rows: more than a few are worked on as the session was set.

        A large one counts as many: interpreted, each step of a plan has a copy of it, where generated code has one.
        """
        each = self._record_bytes // _ORDINARY if self._rows_at_once < _USUAL else 1
        if count * each <= SMALL_INPUT or not self._small:
            yield
            return
        self._small.restore()
        try:
            yield
        finally:
            self._small.change(SETTINGS)

    @property
    def is_small(self) -> bool:
        """Whether the session is set for few rows now."""
        return bool(self._small)

    @contextlib.contextmanager
    def lookup(self) -> Iterator[None]:
        """For few rows that are looked for among many."""
        looking = _Changed(self._spark, self._refused)
        was_small = bool(self._small)
        self._small.restore()
        try:
            looking.change(_LOOKUP)
            yield
        finally:
            looking.restore()
            if was_small:
                self._small.change(SETTINGS)

    @property
    def record_bytes(self) -> int:
        """About how large a record is; 0: not known."""
        return self._record_bytes

    def holds(self, record_bytes: int) -> None:
        """For records of so many bytes, 0: unknown: operators hold fewer of large ones at once."""
        if record_bytes and record_bytes != self._record_bytes:
            self._record_bytes = record_bytes
            self._heavy.restore()
            self._bound()

    def _bound(self) -> None:
        if self._depth and self._rows_at_once < _USUAL:
            self._heavy.change({**dict.fromkeys(_AT_ONCE, str(self._rows_at_once)), **_LARGE})

    @property
    def _rows_at_once(self) -> int:
        """How many rows of now an operator may hold at once."""
        return max(1, _IN_MEMORY_BYTES // max(1, self._record_bytes))


_Rest = ParamSpec("_Rest")
_Result = TypeVar("_Result")


def in_utc(
    function: Callable[Concatenate[SparkSession, _Rest], _Result],
) -> Callable[Concatenate[SparkSession, _Rest], _Result]:
    """A function of a session that runs while the session is in UTC (see `Tuning.utc`)."""

    @functools.wraps(function)
    def set_so(spark: SparkSession, /, *args: _Rest.args, **options: _Rest.kwargs) -> _Result:
        with Tuning(spark).utc():
            return function(spark, *args, **options)

    return set_so


__all__ = ["ARROW", "BUFFERS", "SETTINGS", "SHUFFLES", "SMALL_INPUT", "ZONE", "Tuning", "in_utc"]
