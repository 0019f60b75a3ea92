"""How a session is set for so many rows: what pays for large inputs costs more than the work itself for small ones.

For a few thousand rows most of a cycle's time goes into code that Spark generates and the JVM compiles, once for each
statement, since every cycle's differ in a number; and into stages that are planned anew while they run. So a driver does
its small work without, and large work as the session is set by its user. Measured in docs/benchmarks.md.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEW: Final = 20_000
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

ZONE: Final = "spark.sql.session.timeZone"
_UTC: Final = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")


class Tuning:
    """A session's settings while a driver works: those for few rows, or its own.

    Not for two threads at once on one session. Results are the same either way, so compute that refuses a setting
    (serverless) goes on as it is.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._own: dict[str, str | None] | None = None  # what the session had, where it is changed now
        self._refused: set[str] = set()
        self._depth = 0

    @contextlib.contextmanager
    def few(self) -> Iterator[None]:
        """For few rows, but for what `rows` says; afterwards the session is as it was before the outermost of these."""
        self._depth += 1
        with self.utc():
            try:
                self._change()
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    self._restore()

    @contextlib.contextmanager
    def utc(self) -> Iterator[None]:
        """In UTC: what expressions make of times and texts without a zone does not depend on the session."""
        own = self._swapped({ZONE: _UTC[0]})
        try:
            yield
        finally:
            self._put_back(own)

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
        """For so many rows: more than a few are worked on as the session was set."""
        if count <= FEW or self._own is None:
            yield
            return
        self._restore()
        try:
            yield
        finally:
            self._change()

    def _change(self) -> None:
        if self._own is None:
            self._own = self._swapped(SETTINGS)

    def _restore(self) -> None:
        own, self._own = self._own or {}, None
        self._put_back(own)

    def _swapped(self, values: Mapping[str, str]) -> dict[str, str | None]:
        """Sets what is not set so; gives what was there before."""
        own: dict[str, str | None] = {}
        for name, value in values.items():
            if name in self._refused:
                continue
            try:
                before = self._spark.conf.get(name, None)
                if before != value:
                    self._spark.conf.set(name, value)
                    own[name] = before
            except Exception:  # noqa: BLE001 - each kind of compute has its own
                self._refused.add(name)
        return own

    def _put_back(self, own: Mapping[str, str | None]) -> None:
        for name, value in own.items():
            if value is None:
                self._spark.conf.unset(name)
            else:
                self._spark.conf.set(name, value)


_Rest = ParamSpec("_Rest")
_Found = TypeVar("_Found")


def in_utc(
    function: Callable[Concatenate[SparkSession, _Rest], _Found],
) -> Callable[Concatenate[SparkSession, _Rest], _Found]:
    """A function of a session that runs while the session is in UTC (see `Tuning.utc`)."""

    @functools.wraps(function)
    def set_so(spark: SparkSession, /, *args: _Rest.args, **options: _Rest.kwargs) -> _Found:
        with Tuning(spark).utc():
            return function(spark, *args, **options)

    return set_so


__all__ = ["FEW", "SETTINGS", "SHUFFLES", "ZONE", "Tuning", "in_utc"]
