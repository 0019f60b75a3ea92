"""The event log: a Delta table of what finished cycles did, written from what the ledger says of them.

The ledger's row that closes a cycle has its numbers, so nothing is lost between the two: what a crash left out, the next
run writes. One commit for all cycles since the last one: at a run's end, and while rounds go on every half minute, since a
commit costs as much as a small cycle's others.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.fence import translated
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import Plan
from lakestreams.engine.protocol import decisions
from lakestreams.engine.publish import events
from lakestreams.engine.publish.events import CycleSummary
from lakestreams.engine.state.policy import EVENTS_EVERY_S

if TYPE_CHECKING:
    from pyspark.sql import Column, Row, SparkSession

    from lakestreams.engine.runtime.table import Table
    from lakestreams.topology.topology import Topology

_PROPERTIES: Final = {"delta.dataSkippingStatsColumns": "pipeline,cycle,event_type,timestamp"}
# Cycles whose events go into one commit; a run that finds more, such as the first one of a newer version, writes several.
_AT_ONCE: Final = 500
_READ_AT_ONCE: Final = 10_000  # of the ledger


def table(ledger: Ledger) -> Table:
    """The event log; shared by the pipelines of a lake."""
    return ledger.lake.control("events")


def create(spark: SparkSession, ledger: Ledger) -> None:
    """Creates it unless it is there."""
    schema = spark.createDataFrame([], events.SCHEMA).schema
    table(ledger).create(spark, schema, properties=_PROPERTIES, grows=True, lenient=True)


@dataclass(frozen=True)
class Totals:
    """What all finished cycles counted of one node.

    Attributes:
        node, kind: its name, and what it is.
        parents: what feeds it.
        rows_in, rows: read, and passed on.
        kinds: results by kind.
        quarantined: rows by reason.
        expected: expectation to passed and failed.
        wait_ms, amend_ms: of a join that waits or amends.
        fates: of such a join, how many records came, and what became of them.
    """

    node: str
    kind: str
    parents: tuple[str, ...]
    rows_in: int
    rows: int
    kinds: dict[str, int]
    quarantined: dict[str, int]
    expected: dict[str, tuple[int, int]]
    wait_ms: int | None = None
    amend_ms: int | None = None
    fates: dict[str, int] = field(default_factory=dict)


_OWN: Final = (
    "kind string, parents array<string>, rows map<string, bigint>, quarantined map<string, bigint>, "
    "wait_ms bigint, amend_ms bigint, fates map<string, bigint>"
)
_DETAILS: Final = (
    "flow_progress struct<metrics: struct<num_input_rows: bigint, num_output_rows: bigint>, data_quality: "
    "struct<expectations: array<struct<name: string, passed_records: bigint, failed_records: bigint>>>, "
    f"lakestreams: struct<{_OWN}>>"
)
_ROWS, _EXPECTED, _MAPS = "metrics", "expectations", ("rows", "quarantined", "fates")
_NUMBER: Final = "struct<of: string, name: string, first: bigint, second: bigint>"


def totals(spark: SparkSession, ledger: Ledger) -> list[Totals]:
    """Sums over a pipeline's whole log, a node each, in the order of the newest topology; one query over the log.

    Spark adds up: a log has a row of each node for every cycle of years, and what comes here has one for each number.
    """
    if not table(ledger).exists(spark):
        return []
    own = (F.col("pipeline") == ledger.pipeline) & (F.col("event_type") == events.FLOW)
    node = F.get_json_object("origin", "$.flow_name").alias("node")
    flow = F.from_json("details", _DETAILS)["flow_progress"].alias("flow")
    numbers = table(ledger).read(spark).where(own).select("sequence", node, flow).select(
        "sequence", "node", F.col("flow.lakestreams").alias("own"), F.posexplode(_numbers()).alias("place", "number")
    )  # fmt: skip
    sums = (
        numbers.groupBy("node", "number.of", "number.name")
        .agg(
            F.max("sequence").alias("sequence"),
            F.max_by("place", "sequence").alias("place"),
            F.max_by(F.when(F.col("number.of") == _ROWS, F.col("own")), "sequence").alias("own"),
            F.sum("number.first").alias("first"),
            F.sum("number.second").alias("second"),
        )
        .collect()
    )
    newest = sorted((one for one in sums if one["of"] == _ROWS), key=lambda one: one["sequence"])
    return [_totals(one, [each for each in sums if each["node"] == one["node"]]) for one in newest]


def _numbers() -> Column:
    """All numbers of one node and cycle: `of, name, first, second`; expectations first, so that these keep their order."""

    def of(entries: Column, what: str, name: str, first: str, second: str | None = None) -> Column:
        made = F.transform(
            entries,
            lambda one: F.struct(
                F.lit(what).alias("of"), one[name].alias("name"), one[first].alias("first"),
                (F.lit(None).cast("bigint") if second is None else one[second]).alias("second"),
            ),
        )  # fmt: skip
        return F.coalesce(made, F.array().cast(f"array<{_NUMBER}>"))

    rows = (F.col(f"flow.metrics.{one}").alias(one) for one in ("num_input_rows", "num_output_rows"))
    metrics = F.array(F.struct(F.lit("").alias("name"), *rows))
    maps = (F.map_entries(f"flow.lakestreams.{one}") for one in _MAPS)
    return F.concat(
        of(metrics, _ROWS, "name", "num_input_rows", "num_output_rows"),
        of(F.col("flow.data_quality.expectations"), _EXPECTED, "name", "passed_records", "failed_records"),
        *(of(entries, what, "key", "value") for what, entries in zip(_MAPS, maps, strict=True)),
    )


def _totals(rows: Row, sums: Sequence[Row]) -> Totals:
    def added(what: str) -> dict[str, int]:
        return {
            one["name"]: one["first"] for one in sorted(sums, key=lambda one: str(one["name"])) if one["of"] == what
        }

    expected = sorted((one for one in sums if one["of"] == _EXPECTED), key=lambda one: (one["sequence"], one["place"]))
    own = rows["own"]
    return Totals(
        rows["node"], own["kind"], tuple(own["parents"]), rows["first"] or 0, rows["second"] or 0,
        added("rows"), added("quarantined"), {one["name"]: (one["first"], one["second"]) for one in expected},
        own["wait_ms"], own["amend_ms"], added("fates"),
    )  # fmt: skip


@dataclass
class EventLog:
    """Writes the events of one driver's life.

    Attributes:
        ledger: of the running epoch.
        finished: the last cycle that was finished before, whose events may be missing.
    """

    spark: SparkSession
    ledger: Ledger
    topology: Topology
    finished: int = 0
    _waiting: list[tuple[Plan, CycleSummary]] = field(default_factory=list)
    _caught_up: bool = False
    _wrote_s: float = float("-inf")

    @property
    def waiting(self) -> bool:
        """Whether there is anything to write, or may be: what earlier drivers have left out is not known yet."""
        return bool(self._waiting) or (self.finished > 0 and not self._caught_up)

    @property
    def due(self) -> bool:
        """Whether there is, and nothing was written within the half minute."""
        return self.waiting and time.monotonic() - self._wrote_s >= EVENTS_EVERY_S

    def closed(self, plan: Plan, summary: CycleSummary) -> None:
        """Takes note of a finished cycle."""
        self._waiting.append((plan, summary))

    def write(self) -> None:
        """Writes the events of all finished cycles that are not in the log yet."""
        if not self._caught_up:
            self._catch_up()
            self._caught_up = True
        while self._waiting:
            part, self._waiting = self._waiting[:_AT_ONCE], self._waiting[_AT_ONCE:]
            self._tell(part)
        self._wrote_s = time.monotonic()

    def _tell(self, part: Sequence[tuple[Plan, CycleSummary]]) -> None:
        self._append([row for one in part for row in events.of_cycle(self.topology, *one)], part[-1][0].cycle)

    def _catch_up(self) -> None:
        """Writes what earlier drivers finished and did not tell: in pieces, since it may be all that there ever was."""
        first = min((plan.cycle for plan, _ in self._waiting), default=self.finished + 1)
        if first == 1:
            return  # there is nothing before it
        logged = self._newest_cycle(first - 1) or self._newest_cycle(0)
        if first <= logged + 1:
            self._waiting = [one for one in self._waiting if one[0].cycle > logged]
            return
        topics = [source.topic for source in self.topology.sources]
        for start in range(logged + 1, first, _READ_AT_ONCE):
            below = min(start + _READ_AT_ONCE, first)
            missing = {one.cycle: one for one in self.ledger.summaries_below(self.spark, start, below)}
            plans = self.ledger.plans(self.spark, start, topics, below)
            found = [(plan, missing[plan.cycle]) for plan in plans if plan.cycle in missing]
            for place in range(0, len(found), _AT_ONCE):
                self._tell(found[place : place + _AT_ONCE])

    def _newest_cycle(self, least: int) -> int:
        """The newest cycle in the log from one on, 0 if there is none: of older ones no file is read."""
        own = (F.col("pipeline") == self.ledger.pipeline) & (F.col("cycle") >= least)
        newest = table(self.ledger).read(self.spark).where(own).agg(F.max("cycle")).first()
        return int(newest[0] or 0) if newest is not None else 0

    def _append(self, rows: Sequence[dict[str, Any]], cycle: int) -> None:
        kinds = events.SCHEMA.replace("timestamp timestamp", "timestamp bigint")
        text = F.from_json(F.lit(json.dumps(rows)), f"array<struct<{kinds}>>")
        frame = self.spark.range(0, 1, 1, 1).select(F.inline(text))
        frame = frame.withColumn("timestamp", F.timestamp_millis("timestamp"))
        self.ledger.failpoint("events.before")
        with translated(self.ledger.pipeline):
            fenced = self.ledger.fence(self.spark, frame)
            table(self.ledger).append(fenced, *decisions.of_events(cycle).of(self.ledger.pipeline))
        self.ledger.failpoint("events.after")
