"""Proof after the fact: what is in the tables is what bronze and the recorded plans give, row for row.

All finished cycles are evaluated again in one batch, which knows nothing of how the runs were cut, where they crashed or
what they stored; and what bronze says of itself (stream time, no gap, no offset twice) is computed from its raw columns.
The kernels that evaluate them are judged by SQL that shares no code with them (`second_opinion`).
Where bronze is trimmed, it begins behind that, from what was kept of the records that are gone.
Cycles that ran under another configuration than the given one are evaluated with that, from its recorded text
(`configurations`), in one batch a configuration; what cannot be is counted instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from lakestreams.engine.ledger import fingerprint
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import Plan
from lakestreams.engine.protocol import decisions
from lakestreams.engine.runtime.tuning import in_utc
from lakestreams.errors import BronzeTrimmed, NothingToVerify, TableDeleted
from lakestreams.operators.versions import TableSide
from lakestreams.verify import bronze, configurations, outputs, sql_check
from lakestreams.verify.comparison import Comparison
from lakestreams.verify.configurations import Configurations, in_words
from lakestreams.verify.evaluations import Evaluated, evaluations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.ledger.fingerprint import Configuration
    from lakestreams.engine.ledger.plans import History
    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.topology.topology import Topology


@dataclass
class Verdict:
    """The result of a verification.

    Attributes:
        pipeline: whose.
        from_cycle, to_cycle: what was asked for, both inclusive.
        cycles, left_out: how many cycles of these there are, and how many of them are of configurations that cannot be
            evaluated any more: their appended rows were not compared.
        findings: one for each thing that was looked at.
        notes: what could not be compared, and why.
        is_compared: False if there are rows in tables, and none of them could be compared.
    """

    pipeline: str
    from_cycle: int
    to_cycle: int
    cycles: int = 0
    left_out: int = 0
    findings: list[Comparison] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_compared: bool = True

    @property
    def equal(self) -> bool:
        """Whether something could be compared, and nothing of it differs."""
        return self.is_compared and not any(one.differs for one in self.findings)


@in_utc
def verify(
    spark: SparkSession,
    lake: Lake,
    topology: Topology,
    *,
    from_cycle: int | None = None,
    to_cycle: int | None = None,
    ask_second: bool = True,
    configuration: Configuration | None = None,
) -> Verdict:
    """Recomputes what finished cycles gave, and compares.

    Args:
        topology: the pipeline, as it is now; cycles that ran under another configuration are evaluated with that.
        from_cycle, to_cycle: of appended outputs, the cycles to compare; by default all that are finished and not
            trimmed. A merged table is compared as it is after the last finished cycle.
        ask_second: whether the joins are also compared with their SQL forms, of the given configuration, or of the newest
            one if no cycle is of that; one more evaluation.
        configuration: the given one; by default the newest one with this topology.

    Raises:
        NothingToVerify: if the pipeline has never run here, or no cycle asked for is finished and can be evaluated.
        BronzeTrimmed, TableDeleted: if bronze is trimmed up to a later cycle than asked for, or an output is gone.
    """
    lake = lake.naming(topology)
    ledger = Ledger(lake, topology.name)
    ledger.require_run(spark, NothingToVerify)
    history = ledger.history(spark)
    every = [plan for plan in ledger.plans(spark, 1) if plan.cycle <= history.done_cycle]
    trimmed = history.trim.cycle if history.trim is not None else 0
    held = [plan for plan in every if plan.cycle > trimmed]
    ran = configurations.of(spark, ledger, topology, history, held, configuration)
    evaluated = evaluations(spark, ledger, history, every, ran)
    behind = evaluated[0].behind if evaluated else trimmed
    first, last = from_cycle or behind + 1, min(to_cycle or history.done_cycle, history.done_cycle)
    asked = _asked(topology, history, every, behind, range(first, last + 1))
    left = [plan for plan in asked if plan.cycle in ran.why_not]
    if left and len(left) == len(asked):
        _refuse_others(topology, history, left, ran)
    verdict = Verdict(topology.name, first, last, len(asked), len(left))
    if behind:
        verdict.notes.append(f"bronze is trimmed up to cycle {behind}: what earlier cycles gave is not compared")
    verdict.notes += _which(asked, ran)
    verdict.notes += [
        f"accepted after cycle {one.cycle}: {'; '.join(one.changes)}"
        for one in (ledger.acceptances(spark) if history.accepted is not None else ())
        if first <= one.cycle < last
    ]
    verdict.findings += _of_bronze(spark, ledger, evaluated, every, behind)
    _outputs(spark, lake, evaluated, history, set(ran.why_not), verdict)
    if ask_second and behind:
        verdict.notes.append("no second opinion: it would need the records that are trimmed")
    elif ask_second:
        comparisons, silent = _sql_check(spark, evaluated[0])
        verdict.findings += comparisons
        verdict.notes += silent
    topics = dict.fromkeys(sink.name for one in evaluated for sink in one.group.topology.kafka_sinks)
    verdict.notes += [f"topic {name}: what was written to Kafka is not read again" for name in topics]
    return verdict


def _asked(topology: Topology, history: History, every: Sequence[Plan], behind: int, cycles: range) -> list[Plan]:
    """The plans of the cycles that were asked for; a refusal where there is none."""
    first, last = cycles.start, cycles.stop - 1
    if first <= behind:
        message = (
            f"bronze of {topology.name} is trimmed up to cycle {behind}; the earliest cycle that can be verified is "
            f"{behind + 1}; asked: {first}"
        )
        raise BronzeTrimmed(message, f"lakestreams verify --from {behind + 1}")
    plans = [plan for plan in every if plan.cycle > behind]
    if not plans or first > last:
        begins = f"{behind + 1}, up to where bronze is trimmed," if behind else "1"
        message = (
            f"pipeline {topology.name} has finished cycles {begins} to {history.done_cycle}; asked: {first} to {last}"
        )
        raise NothingToVerify(message)
    return [plan for plan in plans if plan.cycle in cycles]


def _of_bronze(
    spark: SparkSession, ledger: Ledger, evaluated: Sequence[Evaluated], every: Sequence[Plan], behind: int
) -> list[Comparison]:
    """What is found of plans and of every source's bronze."""
    sources = {source.topic: source for one in reversed(evaluated) for source in one.group.topology.sources}
    plans = [plan for plan in every if plan.cycle > behind]
    before = bronze.newest([plan for plan in every if plan.cycle <= behind])
    comparisons = [bronze.plans_follow_each_other(every), bronze.settled(spark, ledger, list(sources.values()), plans)]
    for source in sources.values():
        comparisons += bronze.of_source(spark, ledger, source, plans, before)
    return comparisons


def _which(asked: Sequence[Plan], ran: Configurations) -> list[str]:
    """What is reported of cycles that are not of the given configuration."""
    notes = []
    if not any(group.is_current for group in ran.groups):
        notes.append("what is given is another configuration than these cycles ran under")
    others = {cycle for group in ran.groups if not group.is_current for cycle in group.cycles - ran.why_not.keys()}
    again = [plan for plan in asked if plan.cycle in others]
    if again:
        notes.append(
            f"{len(again)} of {len(asked)} cycles are of other configurations and recomputed from their recorded text: "
            f"{in_words(again)}"
        )
    for why in dict.fromkeys(ran.why_not[plan.cycle] for plan in asked if plan.cycle in ran.why_not):
        these = [plan for plan in asked if ran.why_not.get(plan.cycle) == why]
        notes.append(
            f"{len(these)} of {len(asked)} cycles are of other configurations and not compared: {in_words(these)}: {why}"
        )
    return notes


def _refuse_others(topology: Topology, history: History, plans: Sequence[Plan], ran: Configurations) -> NoReturn:
    last = history.semantics_of.get(plans[-1].fingerprint)
    same = last is not None and fingerprint.is_of(last, topology)
    what = "steps, columns or topics in the files" if same else "the topology"
    message = (
        f"{topology.name} ran under another configuration than the one given: {in_words(plans)}; what differs is {what}; "
        f"it cannot be evaluated again: {ran.why_not[plans[-1].cycle]}"
    )
    raise NothingToVerify(message, "give the pipeline as it was when it ran")


def _outputs(
    spark: SparkSession,
    lake: Lake,
    evaluated: Sequence[Evaluated],
    history: History,
    left: set[int],
    verdict: Verdict,
) -> None:
    """Adds what is found of all outputs, and whether that says anything."""
    before = len(verdict.findings)
    for name in dict.fromkeys(sink.name for one in evaluated for sink in one.group.topology.sinks):
        _output(spark, lake, name, evaluated, history, left, verdict)
    of_tables = verdict.findings[before:]
    verdict.is_compared = not of_tables or any(one.looked for one in of_tables)  # without a table, all goes to topics


def _output(
    spark: SparkSession,
    lake: Lake,
    name: str,
    evaluated: Sequence[Evaluated],
    history: History,
    left: set[int],
    verdict: Verdict,
) -> None:
    """Adds what is found of one output, which several configurations may have written.

    What the first evaluation gives of it is compared whatever the table looks like; the others' only where it can stand
    next to that, or the table has the columns for it.
    """
    results = [
        outputs.CycleResults(sink, one.group.cycles, one.results.outputs[name], one.results.records[name])
        for one in evaluated
        for sink in one.group.topology.sinks
        if sink.name == name
    ]
    table = lake.output(name)
    of_first = any(sink.name == name for sink in evaluated[0].group.topology.sinks)
    if of_first and not table.exists(spark):
        raise TableDeleted(f"{name} no longer exists")
    if not of_first and not table.exists(spark):
        verdict.notes.append(f"{name}: there is no such table any more; not compared")
        return
    stored = table.read(spark)
    alike = [results[0]] if of_first else []
    for one in results[len(alike) :]:
        why = outputs.unlike(alike[0], one, stored) if alike else outputs.lacking(one, stored)
        if why is None:
            alike.append(one)
        else:
            left = left | one.cycles
            verdict.notes.append(f"{name}: what {len(one.cycles)} earlier cycles wrote is not compared: {why}")
    if not alike:
        verdict.findings.append(Comparison(name, 0, left_out=stored.count()))
    elif alike[0].sink.mode != "merge":
        of_cycles = outputs.appended(alike, stored, verdict.from_cycle, verdict.to_cycle, left)
        judged = outputs.with_strays(of_cycles, stored, decisions.cycle_of(history.plan))
        if judged is not of_cycles:  # cycles may have been planned since, and have written these
            now = Ledger(lake, verdict.pipeline).history(spark)
            judged = outputs.with_strays(of_cycles, stored, decisions.cycle_of(now.plan))
        verdict.findings.append(judged)
    elif history.open_plan is not None:
        verdict.findings.append(Comparison(name, 0, left_out=stored.count()))
        verdict.notes.append(f"{name}: it may hold rows of a cycle that is not finished; not compared")
    else:
        floor = max(left | {evaluated[0].behind})
        merged = outputs.merged(alike, stored, floor)
        if merged.differs and _has_moved(spark, lake, verdict.pipeline, history):
            verdict.findings.append(Comparison(name, 0, left_out=stored.count()))
            verdict.notes.append(f"{name}: a run published while it was compared; not compared")
            return
        verdict.findings.append(merged)
        if merged.left_out:
            verdict.notes.append(
                f"{name}: {merged.left_out} rows that were last written up to cycle {floor} are not compared"
            )


def _has_moved(spark: SparkSession, lake: Lake, pipeline: str, history: History) -> bool:
    """Whether cycles have begun since: a merged table has no cycles, so what they publish looks like rows that differ."""
    now = Ledger(lake, pipeline).history(spark)
    return decisions.cycle_of(now.plan) != decisions.cycle_of(history.plan)


def _sql_check(spark: SparkSession, one: Evaluated) -> tuple[list[Comparison], list[str]]:
    results = one.results
    frames = {name: rows.all() if isinstance(rows, TableSide) else rows for name, rows in results.nodes.items()}
    evaluation = sql_check.Evaluation(
        frames, one.inputs.partitions, one.inputs.ticks, results.unfiltered, one.inputs.fewer
    )
    return sql_check.judge(spark, one.group.topology, evaluation)
