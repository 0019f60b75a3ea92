"""`lakestreams status`: where pipelines stand, from the ledger and the broker; no table is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.text import Text

from lakestreams.cli.screen import Screen, table
from lakestreams.errors import LakestreamsError
from lakestreams.run import failure
from lakestreams.run.options import PipelineOptions
from lakestreams.run.runner import load, open_lake, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.config.compile import Pipeline
    from lakestreams.engine.ledger.ledger import Ledger
    from lakestreams.engine.ledger.plans import History, Range
    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.kafka.cluster_view import ClusterView
    from lakestreams.kafka.noted import TopicPartition


@dataclass(frozen=True)
class Partition:
    """How far one topic-partition has come; offsets are exclusive ends.

    Of a Delta table (`delta/<source>`) all of them count commits, not records: `ingested_to` 5 says that versions 0 to 4
    were read.

    Attributes:
        topic, partition: which one.
        ingested_to: bronze holds everything below.
        planned_to: cycles have taken everything below.
        end: the topic's end now, or None where no broker was asked or none answered.
        lag: records between `ingested_to` and `end` that the topic still has, or None.
        held: offsets in bronze that no cycle has taken.
        why: why they are held, or None.
    """

    topic: str
    partition: int
    ingested_to: int
    planned_to: int
    end: int | None
    lag: int | None
    held: int
    why: str | None


@dataclass
class Status:
    """Where one pipeline stands.

    Attributes:
        pipeline: its name.
        epoch: how often a driver has taken it over; 0: never run.
        last_finished_cycle: every result up to here is in the tables.
        last_finished_at: when that was written down (UTC), or None.
        open_plan: a cycle that was planned and not finished, with its records; the run that is under way finishes it, or the
            next one.
        partitions: how far each topic-partition has come.
        bronze_rows, unreadable: per topic what was ingested, from the ledger; bronze has fewer rows once it is trimmed.
        quarantine: records by reason.
        quarantine_open: how many of them nobody has replayed or discarded.
        races: of each join that waits or amends, how many of its records are pending, were amended, have waited in vain.
        expectations: of each dataset and name, how often it passed and failed.
        replays: requests for a replay that no run has ingested yet.
        notes: what could not be found out.
    """

    pipeline: str
    epoch: int = 0
    last_finished_cycle: int = 0
    last_finished_at: str | None = None
    open_plan: dict[str, int] | None = None
    partitions: list[Partition] = field(default_factory=list)
    bronze_rows: dict[str, int] = field(default_factory=dict)
    unreadable: dict[str, int] = field(default_factory=dict)
    quarantine: dict[str, int] = field(default_factory=dict)
    quarantine_open: dict[str, int] = field(default_factory=dict)
    races: dict[str, dict[str, int]] = field(default_factory=dict)
    expectations: list[dict[str, Any]] = field(default_factory=list)
    replays: int = 0
    notes: list[str] = field(default_factory=list)


def run(screen: Screen, options: PipelineOptions, *, broker: bool) -> int:
    """Shows where the pipelines stand (all of the lake if none is named); returns the exit code."""
    lake, pipelines = open_lake(options.lake), load(options.files, screen.secrets)
    with screen.working("starting Spark"):
        spark = open_session(ends=screen.ends, quick=True, lake=lake, progress=screen.say)
    with screen.working("reading the ledger"):
        if pipelines:
            statuses = [read(spark, lake, one.topology.name, one if broker else None) for one in pipelines]
        else:
            statuses = [read(spark, lake, name) for name in names(spark, lake)]
    if not statuses:
        screen.say(f"no pipeline has run in {lake.root}")
    for one in statuses:
        show(screen, one)
    screen.result({"root": lake.root, "catalog": lake.catalog, "pipelines": [asdict(one) for one in statuses]})
    return failure.OK


# --- reading -------------------------------------------------------------------------------------------------------


def names(spark: SparkSession, lake: Lake) -> list[str]:
    """Every pipeline that has ever run in the lake."""
    from lakestreams.engine.ledger import reading  # noqa: PLC0415 - needs pyspark

    return reading.pipelines(spark, lake)


def read(spark: SparkSession, lake: Lake, name: str, asked: Pipeline | None = None) -> Status:
    """Where a pipeline stands.

    Args:
        name: the pipeline.
        asked: its files, to ask its broker for the topics' ends; None asks none.
    """
    from lakestreams.engine.ledger.ledger import Ledger  # noqa: PLC0415 - needs pyspark

    status = Status(name)
    ledger = Ledger(lake, name)
    view, notes = _view(spark, lake, asked) if asked else (None, [])
    status.notes.extend(notes)
    if not ledger.table.exists(spark):
        return status
    history = ledger.history(spark)
    status.epoch, status.last_finished_cycle = history.epoch, history.done_cycle
    status.last_finished_at = _finished_at(spark, ledger, history.done_cycle)
    if history.open_plan is not None:
        records = sum(part.records for part in history.open_plan.ranges)
        status.open_plan = {"cycle": history.open_plan.cycle, "records": records}
    status.partitions = _partitions(history, view)
    if history.trim is not None:
        status.notes.append(
            f"bronze is trimmed up to cycle {history.trim.cycle}: it no longer has all that was ingested"
        )
    status.bronze_rows, status.unreadable = _ingested(spark, ledger)
    status.quarantine, status.quarantine_open = _quarantined(spark, ledger)
    _counted(spark, ledger, status)
    status.replays = _requested(spark, ledger, history.ingest.request if history.ingest is not None else 0)
    return status


def _view(spark: SparkSession, lake: Lake, pipeline: Pipeline) -> tuple[ClusterView, list[str]]:
    """The topics and tables as they are now, and what could not be found out."""
    from lakestreams.engine.ingest import delta_source  # noqa: PLC0415 - needs pyspark
    from lakestreams.kafka import cluster, cluster_view  # noqa: PLC0415 - needs pyspark

    sources = pipeline.topology.sources
    topics = [source.topic for source in sources if source.delta is None]
    tables, unfit = delta_source.examine(spark, lake, sources)
    notes = [f"{fault.code}: {fault.message}" for fault in unfit]
    view = cluster_view.ClusterView({})
    if topics:
        try:
            scratch = lake.checkpoints(pipeline.topology.name)
            view = cluster.connect(spark, pipeline.kafka.spark_options(), scratch).view(topics)
        except LakestreamsError as error:
            told = f"{error.code}: ends are unknown, {error.message}. Fix: {error.hint}"
            notes.append(pipeline.kafka.redact(told))
    return delta_source.with_tables(view, tables), notes


def _partitions(history: History, view: ClusterView | None) -> list[Partition]:
    from lakestreams.engine.ingest.delta_source import is_delta, versions  # noqa: PLC0415 - needs pyspark

    def counted(offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {at: versions(offset) if is_delta(at[0]) else offset for at, offset in offsets.items()}

    def positions(ranges: Iterable[Range]) -> dict[TopicPartition, int]:
        return counted({part.at: part.to_offset for part in ranges if not part.of_replays})

    ingested = positions(history.ingest.ranges if history.ingest else ())
    planned = positions(history.plan.ranges if history.plan else ())
    ends, starts = (counted(view.ends), view.starts) if view is not None else ({}, {})
    behind = sorted(at for at, end in ends.items() if ingested.get(at, 0) < end)
    partitions = []
    for at in sorted({*ingested, *planned, *ends}):
        to = max(ingested.get(at, 0), planned.get(at, 0))
        held = to - planned.get(at, 0)
        end = ends.get(at)
        lag = None if end is None else max(0, end - max(to, starts.get(at, 0)))  # what has expired is not behind
        partitions.append(Partition(*at, to, planned.get(at, 0), end, lag, held, _why(behind) if held else None))
    return partitions


def _why(behind: list[TopicPartition]) -> str:
    if behind:
        topic, partition = behind[0]
        more = f" and {len(behind) - 1} more" if len(behind) > 1 else ""
        return f"order not settled: {topic}-{partition}{more} is behind its end"
    return "ingested by a run that did not finish: the next run takes it"


def _finished_at(spark: SparkSession, ledger: Ledger, cycle: int) -> str | None:
    """When the cycle was closed: by its own DONE row or by the next plan, whichever came first."""
    closes = f"(kind = 'done' and cycle = {cycle}) or (kind = 'plan' and cycle = {cycle + 1})"
    row = ledger.rows(spark).where(closes).agg({"written_at_ms": "min"}).first() if cycle else None
    if row is None or row[0] is None:
        return None
    return datetime.fromtimestamp(row[0] / 1_000, UTC).isoformat(timespec="seconds")


def _ingested(spark: SparkSession, ledger: Ledger) -> tuple[dict[str, int], dict[str, int]]:
    rows = (
        ledger.rows(spark)
        .where("kind = 'ingest'")
        .selectExpr("explode(ranges) as part")
        .groupBy("part.topic")
        .agg({"part.records": "sum", "part.bad": "sum"})
        .toDF("topic", "records", "bad")
        .orderBy("topic")
        .collect()
    )
    return {row["topic"]: row["records"] for row in rows}, {row["topic"]: row["bad"] for row in rows if row["bad"]}


def _quarantined(spark: SparkSession, ledger: Ledger) -> tuple[dict[str, int], dict[str, int]]:
    """Records by reason: all, and those that are open."""
    from lakestreams.engine.publish import quarantine  # noqa: PLC0415 - needs pyspark
    from lakestreams.engine.replay import quarantined  # noqa: PLC0415 - needs pyspark
    from lakestreams.engine.replay.requests import OPEN  # noqa: PLC0415 - needs pyspark

    if not quarantine.table(ledger).exists(spark):
        return {}, {}
    counted = quarantined.with_decisions(spark, ledger).groupBy("code", "state").count().orderBy("code").collect()
    every, undecided = Counter[str](), Counter[str]()
    for code, state, count in counted:
        every[code] += count
        undecided[code] += count if state == OPEN else 0
    return dict(every), dict(undecided)


def _counted(spark: SparkSession, ledger: Ledger, status: Status) -> None:
    """What the event log says of waiting joins and expectations."""
    from lakestreams.engine.publish import event_log  # noqa: PLC0415 - needs pyspark

    for one in event_log.totals(spark, ledger):
        status.expectations += [
            {"dataset": one.node, "name": name, "passed": passed, "failed": failed}
            for name, (passed, failed) in one.expected.items()
        ]
        if one.wait_ms is None and one.amend_ms is None:
            continue
        came, matched, unmatched, amended, expired = (
            one.fates.get(name, 0) for name in ("came", "matched", "unmatched", "amended", "expired")
        )
        status.races[one.node] = {  # without a wait none is pending, and what is unmatched has not waited
            "pending": max(0, came - matched - unmatched - expired),
            "amended": amended,
            "expired": expired + (unmatched if one.wait_ms is not None else 0),
        }


def _requested(spark: SparkSession, ledger: Ledger, ingested: int) -> int:
    from lakestreams.engine.replay import requests as replays  # noqa: PLC0415 - needs pyspark

    return replays.waiting(spark, ledger, ingested)


# --- showing -------------------------------------------------------------------------------------------------------


def show(screen: Screen, one: Status) -> None:
    """A headline, a table of partitions, counts."""
    if not one.epoch:
        screen.say(Text.assemble((one.pipeline, "bold"), "  has never run here"))
    else:
        finished = (
            f"cycle {one.last_finished_cycle} finished {(one.last_finished_at or '').replace('+00:00', 'Z')}".rstrip()
        )
        headline = Text.assemble(
            (one.pipeline, "bold"),
            f"  epoch {one.epoch}, {finished if one.last_finished_cycle else 'no cycle finished'}",
        )
        if one.open_plan:
            plan = one.open_plan
            headline.append(f", cycle {plan['cycle']} open ({plan['records']:,} records)", style="yellow")
        screen.say(headline)
    if one.partitions:
        columns = ("topic", "partition", "ingested", "planned", "end", "lag", "held")
        rows = [
            (p.topic, p.partition, p.ingested_to, p.planned_to, p.end, _lag(p.lag), _untaken(p.held))
            for p in one.partitions
        ]
        screen.show(table(*columns, rows=rows, right=columns[1:]))
        for p in one.partitions:
            if p.why:
                screen.say(Text(f"held of {p.topic}-{p.partition}: {p.why}", style="yellow"))
    for title, counts in (("ingested", one.bronze_rows), ("unreadable", one.unreadable)):
        if counts:
            screen.say(f"{title}: " + ", ".join(f"{name} {count:,}" for name, count in counts.items()))
    if one.quarantine:
        left = one.quarantine_open
        told = (
            f"{code} {count:,}" + (f" ({left[code]:,} open)" if left[code] < count else "")
            for code, count in one.quarantine.items()
        )
        screen.say("quarantine: " + ", ".join(told))
    for node, counts in one.races.items():
        screen.say(f"races of {node}: " + ", ".join(f"{name} {count:,}" for name, count in counts.items()))
    if one.expectations:
        names = ("dataset", "expectation", "passed", "failed")
        counted = [(e["dataset"], e["name"], e["passed"], _lag(e["failed"])) for e in one.expectations]
        screen.show(table(*names, rows=counted, right=names[2:]))
    if one.replays:
        screen.say(f"replays: {one.replays:,} requests wait for the next run")
    for note in one.notes:
        screen.say(Text.assemble(("note", "yellow"), f"  {note}"))


def _lag(lag: int | None) -> Text | None:
    return None if lag is None else Text(f"{lag:,}", style="yellow" if lag else "green")


def _untaken(count: int) -> Text:
    return Text(f"{count:,}", style="yellow" if count else "")
