"""`lakestreams maintain`: bronze trimmed, small files joined, files of old versions removed, while jobs run."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lakestreams.cli.ending import each
from lakestreams.cli.shown import Screen, Text, table
from lakestreams.run import failure
from lakestreams.run.options import MaintainOptions, PipelineOptions
from lakestreams.run.runner import load, open_lake, open_session
from lakestreams.topology.durations import retention_ms as kept_ms
from lakestreams.topology.durations import to_ms

if TYPE_CHECKING:
    from lakestreams.config.compile import Pipeline
    from lakestreams.maintenance.maintain import Maintained

_UNITS = ("bytes", "KB", "MB", "GB", "TB")


def run(screen: Screen, options: PipelineOptions, wanted: MaintainOptions) -> int:
    """Maintains the pipelines; returns the exit code: 1 if any of them could not be maintained."""
    retention_ms = None if wanted.retention is None else kept_ms(wanted.retention, "--retention")
    vacuum_ms = None if wanted.vacuum_retention is None else to_ms(wanted.vacuum_retention, "--vacuum-retention")
    lake, pipelines = open_lake(options.lake), load(options.files, screen.secrets)
    with screen.working("starting Spark"):
        spark = open_session(ends=screen.ends, progress=screen.say)
    from lakestreams.maintenance.maintain import Options, maintain  # noqa: PLC0415 - needs pyspark

    def one(pipeline: Pipeline) -> dict[str, Any]:
        retention = pipeline.settings.bronze_retention_ms if retention_ms is None else retention_ms
        vacuum_hours = None if vacuum_ms is None else vacuum_ms / 3_600_000
        asked = Options(retention, wanted.outputs, vacuum_hours, wanted.dry_run, pipeline.semantics)
        with screen.working(f"maintaining {pipeline.topology.name}"):
            done = maintain(spark, lake, pipeline.topology, asked)
        _show(screen, done)
        return asdict(done)

    results = each(screen, pipelines, one)
    ok = not any(result["faults"] for result in results)
    screen.result({"ok": ok, "pipelines": results})
    return failure.OK if ok else failure.FAILED


def _show(screen: Screen, one: Maintained) -> None:
    columns = ("table", "what", "would be deleted" if one.dry_run else "deleted", "files", "size")
    rows = [
        (
            row.table,
            row.what,
            f"{row.deleted:,} rows" if row.deleted else None,
            _both(f"{row.files_before:,}", f"{row.files_after:,}"),
            _both(_size(row.bytes_before), _size(row.bytes_after)),
        )
        for row in one.tables
    ]
    would = ", dry run: nothing was changed" if one.dry_run else ""
    trimmed = f"bronze {'would be ' if one.dry_run else ''}trimmed up to cycle {one.trimmed_to_cycle}"
    title = f"{one.pipeline}, {trimmed if one.trimmed_to_cycle else 'bronze whole'}{would}"
    screen.show(table(*columns, title=title, rows=rows, right=columns[2:]))
    unused = sum(row.unused_files or 0 for row in one.tables)
    if unused:
        screen.say(f"{unused:,} files of old versions would be removed")
    if one.checkpoints:
        screen.say(f"{one.checkpoints} replaced checkpoints {'would be ' if one.dry_run else ''}removed")
    for note in one.notes:
        screen.say(Text.assemble(("note", "yellow"), f"  {note}"))


def _both(before: str, after: str) -> str:
    return after if before == after else f"{before} to {after}"


def _size(count: int) -> str:
    size = float(count)
    for unit in _UNITS:
        if size < 1_000 or unit == _UNITS[-1]:
            break
        size /= 1_000
    return f"{size:.3g} {unit}"
