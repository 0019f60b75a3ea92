"""`lakestreams check`: everything that can be known to be wrong before anything starts, at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from lakestreams.cli import cost
from lakestreams.cli.options import CheckOptions
from lakestreams.cli.screen import Screen, table
from lakestreams.costs.commits import ANY, frames
from lakestreams.errors import LakestreamsError, LocationNotWritable, TopologyInvalid, unfold
from lakestreams.run import failure
from lakestreams.run.locating import locate
from lakestreams.run.options import RunOptions
from lakestreams.run.runner import Job, load, open_session, prepare
from lakestreams.times import readable
from lakestreams.topology.durations import to_text
from lakestreams.topology.expectations import ForeignKeyExists
from lakestreams.topology.graph import closes_too_soon, delays_before_ms, only_looks_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.cli.target import TargetReport
    from lakestreams.config.compile import Pipeline
    from lakestreams.engine.publish.partitioning import Partitioning
    from lakestreams.topology.node import Node
    from lakestreams.topology.topology import Topology


@dataclass
class Report:
    """What a check found out about one pipeline."""

    pipeline: Pipeline
    outputs: Mapping[str, DataFrame] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    fault: LakestreamsError | None = None
    data: Partitioning | None = None
    cost: cost.Cost | None = None


def run(
    screen: Screen,
    options: RunOptions,
    wanted: CheckOptions,
    *,
    broker: bool,
    target_report: TargetReport | None = None,
) -> int:
    """Checks the pipelines and draws the first one, if there is a file for it; returns the exit code.

    Args:
        options: the pipelines and how they are run.
        wanted: what is looked at and shown beyond faults.
        broker: whether the broker is asked.
        target_report: what was found out about a target, for the result and the exit code.
    """
    pipelines = load(options.files, screen.secrets)
    if not broker:  # nobody signs in then, and a service credential is known on Databricks only
        pipelines = [_without_credential(pipeline) for pipeline in pipelines]
    job = prepare(pipelines, options)
    if wanted.svg is not None:  # without counts, which need a session: so that an unwritable file is known before
        write_drawing(job.pipelines[0].topology, {}, wanted.svg)
    with screen.working("starting Spark"):
        spark = open_session(ends=screen.ends, quick=True, progress=screen.say)
    reports = []
    for index in range(len(job.pipelines)):
        with screen.working(f"checking {job.pipelines[index].topology.name}"):
            reports.append(_examine(spark, job, index, broker=broker))
        if wanted.data:
            with screen.working(f"looking at the records of {job.pipelines[index].topology.name}"):
                reports[-1].data = _judged(spark, job, index, wanted.newest)
        if wanted.explain:
            reports[-1].cost = cost.of(job, index, wanted.records_per_second, wanted.table_rows)
    for one in reports:
        _show(screen, one, job, explain=wanted.explain)
    if wanted.svg is not None:
        write_drawing(job.pipelines[0].topology, reports[0].partitions, wanted.svg)
        screen.say(f"drawing: {wanted.svg}")
    ok = all(one.fault is None for one in reports) and (target_report is None or target_report.ok)
    result: dict[str, Any] = {"ok": ok, "pipelines": [_as_dict(one, job, explain=wanted.explain) for one in reports]}
    screen.result(result if target_report is None else result | {"target": target_report.as_dict()})
    return failure.OK if ok else failure.FAILED


def _without_credential(pipeline: Pipeline) -> Pipeline:
    return replace(pipeline, kafka=replace(pipeline.kafka, service_credential=None, service_credential_scope=None))


def _examine(spark: SparkSession, job: Job, index: int, *, broker: bool) -> Report:
    from lakestreams.engine.ingest.delta_source import is_delta  # noqa: PLC0415 - needs pyspark
    from lakestreams.evaluate import walk  # noqa: PLC0415 - needs pyspark

    report = Report(job.pipelines[index])
    topology = report.pipeline.topology
    try:
        if broker:
            report.outputs, view, report.warnings = job.driver(spark, index).check()
            report.partitions = {topic: count for topic, count in view.partitions.items() if not is_delta(topic)}
            if report.partitions and not any(topic in view.topic_ids for topic in report.partitions):
                report.unchecked.append(
                    "topic ids: only an admin client tells them; a recreated topic may go unnoticed"
                )
        else:
            report.unchecked.append("topics, partition counts and Delta tables that are read: --no-broker")
            report.outputs, faults = walk.check(topology, spark)
            if faults:
                raise TopologyInvalid(faults, topology.name)
        report.warnings += late_behind_waits(topology)
        report.warnings += _windows(spark, job, topology)
    except LakestreamsError as error:
        report.fault = locate(error, report.pipeline)
    return report


def late_behind_waits(topology: Topology) -> list[str]:
    """A sentence for each window that may close before rows come to it that have waited in a step before."""
    return [
        f"{node.name}: rows come to it up to {to_text(delays_before_ms(node))} behind its clock, because steps before it let "
        f"them wait; its windows close sooner, and such rows go to quarantine as LATE: make its grace {to_text(missing)} longer"
        for node, missing in closes_too_soon(topology.nodes)
    ]


def _windows(spark: SparkSession, job: Job, topology: Topology) -> list[str]:
    """Windows that hold too much, measured by the interval of runs, else by what the cycles so far have brought."""
    from lakestreams.costs import spans  # noqa: PLC0415 - needs pyspark
    from lakestreams.engine.ledger.ledger import Ledger  # noqa: PLC0415

    interval_ms = job.interval_ms or spans.cycle_ms(spark, Ledger(job.lake, topology.name))
    return spans.warnings(topology, interval_ms) if interval_ms else []


def _judged(spark: SparkSession, job: Job, index: int, newest: int) -> Partitioning:
    """How the topics are partitioned, judged from the records that bronze holds."""
    from lakestreams.engine.publish.partitioning import examine  # noqa: PLC0415 - needs pyspark

    return examine(spark, job.lake, job.pipelines[index].topology, newest)


def write_drawing(topology: Topology, partitions: Mapping[str, int], path: Path) -> None:
    """Writes the topology as SVG.

    Raises:
        LocationNotWritable: if the file cannot be written.
    """
    try:
        path.write_text(topology.svg(partitions), encoding="utf-8")
    except OSError as error:
        message = f"cannot write the drawing to {path}: {error.strerror or error}"
        hint = "give --svg a file in a folder that is there and can be written to"
        raise LocationNotWritable(message, hint=hint) from None


# --- showing -------------------------------------------------------------------------------------------------------


def _show(screen: Screen, one: Report, job: Job, *, explain: bool) -> None:
    topology = one.pipeline.topology
    if one.fault is not None:
        screen.failure(one.fault)
    else:
        counts = ", ".join(f"{topic} {count}" for topic, count in sorted(one.partitions.items()))
        screen.say(
            Text.assemble(
                ("ok", "bold green"),
                f"  {topology.name}: {_count(topology.sources, 'source')}, {_count(topology.joins, 'join')}, "
                f"{_count(topology.outputs, 'output')}" + (f"; partitions: {counts}" if counts else ""),
            )
        )
    for warning in one.warnings:
        screen.say(Text.assemble(("warning", "yellow"), f"  {warning}"))
    for what in one.unchecked:
        screen.say(Text.assemble(("not checked", "dim"), f"  {what}"))
    if one.data is not None:
        from lakestreams.cli import partitioning  # noqa: PLC0415 - needs pyspark

        partitioning.show(screen, one.data)
    if explain:
        _explain(screen, one, job)


def _explain(screen: Screen, one: Report, job: Job) -> None:
    topology = one.pipeline.topology
    screen.say()
    screen.say(Text("Plan", style="bold"))
    for line in in_words(topology.nodes):
        screen.say(f"  {readable(line)}")
    rows = [(t["name"], t["what"], _columns(t["columns"]), t["layout"]) for t in tables(one, job)]
    screen.show(table("table", "what", "columns", "layout", title="\nTables", rows=rows))
    if one.cost is not None:
        cost.show(screen, one.cost)
    screen.say(topology.describe())
    screen.say()
    screen.say(topology.mermaid())


def in_words(nodes: tuple[Node, ...]) -> list[str]:
    """The plan, a line a node."""
    from lakestreams.evaluate.registry import explain  # noqa: PLC0415 - needs pyspark

    return [f"{node.name}: {node.plan(explain(node))}" for node in nodes]


def tables(one: Report, job: Job) -> list[dict[str, Any]]:
    """The tables that a run writes: name, what it is for, columns (where the check got that far), layout."""
    topology, lake = one.pipeline.topology, job.lake
    result: list[dict[str, Any]] = []
    for sink in topology.sinks:
        layout = f"cluster by {', '.join(sink.cluster_by)}" if sink.cluster_by else ""
        layout = f"partitioned by {', '.join(sink.partition_by)}" if sink.partition_by else layout
        frame = one.outputs.get(sink.name)
        columns = [] if frame is None else [(c.name, c.dataType.simpleString()) for c in frame.schema.fields]
        result.append(_table(lake.output(sink.name).name, "output", columns, layout))
    for source in topology.sources:
        typed = [(f"k.{c.name}", c.type) for c in source.key.fields] + [
            (f"v.{c.name}", c.type) for c in source.value.fields
        ]
        name = lake.bronze(topology.name, source.topic).name
        result.append(_table(name, f"bronze of {source.topic}: raw, coordinates, time, and typed", typed, ""))
    for source in topology.sources:
        if source.kind != "stream" and only_looks_up(topology.nodes):
            name = lake.snapshot(topology.name, source.topic).name
            result.append(_table(name, f"cache: live rows of {source.topic}", [], ""))
    if frames(topology):
        result.append(_table(lake.state(topology.name, ANY).name, "cache: what nodes keep of the past", [], ""))
    control = {
        "ledger": "epochs, ingests, plans",
        "epochs": "which driver may write",
        "quarantine": "records without a result, with reason",
        "events": "what finished cycles did",
    }
    if any(isinstance(what, ForeignKeyExists) for _, what in topology.expectations.invariants):
        control["orphans"] = "rows that name a row which is not there"
    result += [_table(lake.control(name).name, what, [], "") for name, what in control.items()]
    return result


def _table(name: str, what: str, columns: list[tuple[str, str]], layout: str) -> dict[str, Any]:
    return {"name": name, "what": what, "columns": [{"name": n, "type": t} for n, t in columns], "layout": layout}


def _columns(columns: list[dict[str, str]]) -> str:
    shown = [
        f"{c['name']} {c['type'] if len(c['type']) <= _TYPE_WIDTH else c['type'].partition('<')[0]}" for c in columns
    ]
    return ", ".join(shown)


_TYPE_WIDTH = 24


def _as_dict(one: Report, job: Job, *, explain: bool) -> dict[str, Any]:
    topology = one.pipeline.topology
    result: dict[str, Any] = {
        "pipeline": topology.name,
        "ok": one.fault is None,
        "faults": [fault.as_dict() for fault in unfold(one.fault)] if one.fault else [],
        "warnings": one.warnings,
        "unchecked": one.unchecked,
        "partitions": dict(one.partitions),
    }
    if one.data is not None:
        from lakestreams.cli import partitioning  # noqa: PLC0415 - needs pyspark

        result["data"] = partitioning.as_dict(one.data)
    if explain:
        result["plan"] = in_words(topology.nodes)
        result["tables"] = tables(one, job)
        result["cost"] = None if one.cost is None else one.cost.as_dict()
        result["topology"] = topology.describe()
        result["mermaid"] = topology.mermaid()
    return result


def _count(things: tuple[object, ...], word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"
