"""Maintenance of a pipeline's tables while it runs: bronze trimmed, small files joined, files of old versions removed.

Nothing of it changes a result. Statements that a run's commit gets in the way of are tried again, on both sides.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from lakestreams.engine.ingest import checkpoint
from lakestreams.engine.ledger import fence, fingerprint
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.protocol import decisions
from lakestreams.engine.publish import event_log, orphans, quarantine
from lakestreams.engine.replay import requests as replays
from lakestreams.engine.runtime.conflicts import lost_to_others
from lakestreams.engine.runtime.parallel import in_parallel
from lakestreams.engine.runtime.table import Table
from lakestreams.engine.state import store as state
from lakestreams.errors import InvalidOption, NothingToMaintain
from lakestreams.maintenance.trimming import Trimming

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.topology.topology import Topology

# What Delta keeps by default, and the least that is safe: a run that reads a version must end before its files go.
SAFE_HOURS: Final = 168.0
_CHECKED: Final = "spark.databricks.delta.retentionDurationCheck.enabled"


@dataclass(frozen=True)
class Options:
    """What maintenance is to do.

    Attributes:
        retention_ms: how long bronze keeps records after they were ingested; None: for ever.
        outputs: whether the outputs' files are looked after as well.
        vacuum_hours: how long files of old versions are kept; None: as Delta does, seven days.
        dry_run: only tell.
        semantics: the part of the configuration that results follow from, as the runs have it (`RunSettings`).
    """

    retention_ms: int | None = None
    outputs: bool = False
    vacuum_hours: float | None = None
    dry_run: bool = False
    semantics: str = ""


@dataclass(frozen=True)
class Tended:
    """What was done to a table; sizes are of its newest version.

    Attributes:
        table: its name.
        what: what it holds.
        deleted: rows that were deleted, or would be.
        files_before, files_after, bytes_before, bytes_after: its size.
        unused_files: of a dry run, files of old versions that would be removed (Delta tells up to 1,000).
    """

    table: str
    what: str
    deleted: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    unused_files: int | None = None


@dataclass
class Maintained:
    """What was done, or would be.

    Attributes:
        pipeline: whose.
        dry_run: whether nothing was changed.
        trimmed_to_cycle: bronze is trimmed up to the end of this cycle; 0: it is not.
        tables: one for each table that was looked at.
        checkpoints: replaced checkpoints of the ingest query that were removed.
        notes: what was not done, and why.
    """

    pipeline: str
    dry_run: bool
    trimmed_to_cycle: int = 0
    tables: list[Tended] = field(default_factory=list)
    checkpoints: int = 0
    notes: list[str] = field(default_factory=list)


def maintain(spark: SparkSession, lake: Lake, topology: Topology, options: Options) -> Maintained:
    """Looks after a pipeline's tables.

    Raises:
        NothingToMaintain: if the pipeline has never run here.
        InvalidOption: if files are to be removed that a run may still read.
        Fenced: if another maintenance of the pipeline came after this one.
    """
    _require_safe(spark, options.vacuum_hours)
    lake = lake.naming(topology)
    ledger = Ledger(lake, topology.name)
    ledger.require_run(spark, NothingToMaintain)
    done = Maintained(topology.name, options.dry_run)
    tables = _tables(spark, ledger, topology, outputs=options.outputs)
    before = {table.name: table.size(spark) for table, _, _ in tables}
    deleted = _trim(spark, ledger, topology, options, done)

    def tend(one: tuple[Table, str, bool]) -> Tended:
        table, what, many_files = one
        unused = None
        if options.dry_run:
            unused = table.vacuum(spark, options.vacuum_hours, dry_run=True)
        else:
            _tend(spark, table, options.vacuum_hours, done, many_files=many_files)
        after = table.size(spark)
        (files, size) = before[table.name]
        return Tended(table.name, what, deleted.get(table.name, 0), files, after[0], size, after[1], unused)

    done.tables += in_parallel(spark, [partial(tend, one) for one in tables])
    kept_s = (SAFE_HOURS if options.vacuum_hours is None else options.vacuum_hours) * 3_600
    root = lake.checkpoints(topology.name)
    done.checkpoints = checkpoint.discard_old(root, time.time() - kept_s, dry_run=options.dry_run)
    return done


def _require_safe(spark: SparkSession, hours: float | None) -> None:
    if hours is None or hours >= SAFE_HOURS:
        return
    allowed = False
    with contextlib.suppress(Exception):  # some compute hides its settings
        allowed = spark.conf.get(_CHECKED, "true") == "false"
    if not allowed:
        message = (
            f"files of old versions are to be removed after {hours:g} hours; a run or a reader may still need them"
        )
        hint = f"{SAFE_HOURS:g} hours or more; or, where nothing runs and nothing reads, set {_CHECKED} to false"
        raise InvalidOption(message, hint)


def _trim(
    spark: SparkSession, ledger: Ledger, topology: Topology, options: Options, done: Maintained
) -> Mapping[str, int]:
    """Trims bronze: table name to how many rows went."""
    if options.retention_ms is None:
        done.trimmed_to_cycle = max((plan.cycle for plan in [ledger.history(spark).trim] if plan), default=0)
        done.notes.append("bronze is not trimmed: no retention is given (--retention, or bronze_retention)")
        return {}
    trimming = Trimming(spark, ledger, topology, fingerprint.of_state(topology, options.semantics))
    moment = time.time_ns() // 1_000_000 - options.retention_ms
    trimmed = trimming.planned(moment) if options.dry_run else trimming.run(moment)
    done.trimmed_to_cycle = trimmed.cycle
    done.notes += trimmed.notes
    return {ledger.lake.bronze(ledger.pipeline, topic).name: rows for topic, rows in trimmed.rows.items()}


def _tables(spark: SparkSession, ledger: Ledger, topology: Topology, *, outputs: bool) -> list[tuple[Table, str, bool]]:
    """Tables that are there, what they hold, and whether they consist of many small files as time goes by.

    Caches are not: each storing overwrites them whole, and leaves the former files behind.
    """
    lake, name = ledger.lake, ledger.pipeline
    tables = [(lake.bronze(name, source.topic), f"bronze of {source.topic}", True) for source in topology.sources]
    tables += [
        (ledger.table, "ledger", True),
        (fence.table(lake), "epochs", True),
        (quarantine.table(ledger), "quarantine", True),
    ]
    tables += [(event_log.table(ledger), "events", True), (orphans.table(ledger), "orphans", True)]
    tables.append((replays.table(ledger), "decisions on quarantine", True))
    tables += [(lake.output(sink.name), "output", True) for sink in topology.sinks if outputs]
    tables += [(lake.snapshot(name, one.topic), f"snapshot of {one.topic}", False) for one in topology.sources]
    history = ledger.history(spark)
    frames = {place for kept in (history.state, history.base) if kept is not None for place in kept.frames}
    tables += [
        (state.table(ledger, node, frame, slot), f"state of {node}", False)
        for node, frame in sorted(frames)
        for slot in chain(*decisions.SLOTS.values())
    ]
    return [one for one in tables if one[0].exists(spark)]


def _tend(spark: SparkSession, table: Table, hours: float | None, done: Maintained, *, many_files: bool) -> None:
    try:
        if many_files:
            table.optimize(spark)
    except Exception as error:
        if not lost_to_others(error):
            raise
        done.notes.append(f"{table.name} is too busy to compact its files: the next maintenance tries again")
    table.vacuum(spark, hours)
