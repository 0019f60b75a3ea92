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
from functools import reduce
from typing import TYPE_CHECKING, NoReturn

from pyspark.errors import AnalysisException
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger import fingerprint
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import ATTEMPTS, NO_TIME, Plan, Range
from lakestreams.engine.runtime.tuning import in_utc
from lakestreams.engine.state import past
from lakestreams.engine.state.bronze import planned_rows, row_cycle, within
from lakestreams.errors import BronzeTrimmed, LakestreamsError, NothingToVerify
from lakestreams.evaluate import walk
from lakestreams.operators.versions import TableSide
from lakestreams.verify import configurations, outputs, sql_check
from lakestreams.verify.comparison import Finding
from lakestreams.verify.configurations import Configurations, Group, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.ledger.fingerprint import Configuration
    from lakestreams.engine.ledger.plans import History
    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.evaluate.walk import Inputs, Results
    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.topology import Topology

_EXAMPLES = outputs.EXAMPLES


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
    """

    pipeline: str
    from_cycle: int
    to_cycle: int
    cycles: int = 0
    left_out: int = 0
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether nothing differs of what could be compared."""
        return not any(one.differs for one in self.findings)


@dataclass(frozen=True)
class _Evaluated:
    """A configuration's cycles, evaluated again behind a cycle up to which bronze is trimmed (0: it is not)."""

    group: Group
    behind: int
    inputs: Inputs
    results: Results


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
        NothingToVerify: if no cycle is finished, or none of those asked for, or none of these can be evaluated.
        BronzeTrimmed: if bronze is trimmed up to a later cycle than the first one asked for.
    """
    lake = lake.naming(topology)
    ledger = Ledger(lake, topology.name)
    history = ledger.history(spark)
    every = [plan for plan in ledger.plans(spark, 1) if plan.cycle <= history.done_cycle]
    trimmed = history.trim.cycle if history.trim is not None else 0
    held = [plan for plan in every if plan.cycle > trimmed]
    ran = configurations.of(spark, ledger, topology, history, held, configuration)
    evaluated = _evaluations(spark, ledger, history, every, ran)
    behind = evaluated[0].behind if evaluated else trimmed
    plans = [plan for plan in every if plan.cycle > behind]
    first, last = from_cycle or behind + 1, min(to_cycle or history.done_cycle, history.done_cycle)
    if first <= behind:
        _refuse(topology, behind, first)
    if not plans or first > last:
        begins = f"{behind + 1}, up to where bronze is trimmed," if behind else "1"
        message = (
            f"pipeline {topology.name} has finished cycles {begins} to {history.done_cycle}; asked: {first} to {last}"
        )
        raise NothingToVerify(message)
    asked = [plan for plan in plans if first <= plan.cycle <= last]
    left = [plan for plan in asked if plan.cycle in ran.why_not]
    if left and len(left) == len(asked):
        _refuse_others(topology, history, left, ran)
    found = Verdict(topology.name, first, last, len(asked), len(left))
    if behind:
        found.notes.append(f"bronze is trimmed up to cycle {behind}: what earlier cycles gave is not compared")
    found.notes += _which(asked, ran)
    found.notes += [
        f"accepted behind cycle {one.cycle}: {'; '.join(one.changes)}"
        for one in (ledger.acceptances(spark) if history.accepted is not None else ())
        if first <= one.cycle < last
    ]
    sources = {source.topic: source for one in reversed(evaluated) for source in one.group.topology.sources}
    found.findings.append(_plans_follow_each_other(every))
    found.findings.append(_settled(spark, ledger, list(sources.values()), plans))
    before = _newest([plan for plan in every if plan.cycle <= behind])
    for source in sources.values():
        found.findings += _bronze(spark, ledger, source, plans, before)
    for name in dict.fromkeys(sink.name for one in evaluated for sink in one.group.topology.sinks):
        _output(spark, lake, name, evaluated, history, set(ran.why_not), found)
    if ask_second and behind:
        found.notes.append("no second opinion: it would need the records that are trimmed")
    elif ask_second:
        opinions, silent = _second_opinion(spark, evaluated[0])
        found.findings += opinions
        found.notes += silent
    topics = dict.fromkeys(sink.name for one in evaluated for sink in one.group.topology.kafka_sinks)
    found.notes += [f"topic {name}: what was written to Kafka is not read again" for name in topics]
    return found


def _refuse(topology: Topology, behind: int, first: int) -> NoReturn:
    message = (
        f"bronze of {topology.name} is trimmed up to cycle {behind}; the earliest cycle that can be verified is "
        f"{behind + 1}; asked: {first}"
    )
    raise BronzeTrimmed(message, f"lakestreams verify --from {behind + 1}")


# --- configurations --------------------------------------------------------------------------------------------------


def _evaluations(
    spark: SparkSession, ledger: Ledger, history: History, every: Sequence[Plan], ran: Configurations
) -> list[_Evaluated]:
    """Each configuration's evaluation, in their order; of cycles that have none it is noted why."""
    found = []
    for group in ran.groups:
        try:
            behind = past.reach(spark, ledger, group.topology, history, group.meaning)
            ran.why_not |= dict.fromkeys(
                (cycle for cycle in group.cycles if cycle <= behind), "bronze is trimmed there"
            )
            if group.plans[-1].cycle > behind:
                found.append(_evaluation(spark, ledger, history, every, group, behind))
        except (LakestreamsError, AnalysisException) as error:
            if group.given:
                raise
            ran.why_not |= dict.fromkeys(group.cycles, _first_line(error))
    return found


def _evaluation(
    spark: SparkSession, ledger: Ledger, history: History, every: Sequence[Plan], group: Group, behind: int
) -> _Evaluated:
    """All that was taken up to the last cycle of a configuration, evaluated with it."""
    topology = group.topology
    plans = [plan for plan in every if behind < plan.cycle <= group.plans[-1].cycle]
    own = [plan for plan in plans if any(plan.touches(source.topic) for source in topology.sources)]
    # a cycle that another configuration took over may be of other topics, and gave nothing
    inputs = past.everything(spark, ledger, topology, history, own or plans[-1:])
    results = walk.run(topology, inputs)
    for rows in results.outputs.values():
        _ = rows.schema  # behind Spark Connect a fault shows only when something of the frame is asked for
    return _Evaluated(group, behind, inputs, results)


def _first_line(error: Exception) -> str:
    return error.message if isinstance(error, LakestreamsError) else str(error).splitlines()[0]


def _which(asked: Sequence[Plan], ran: Configurations) -> list[str]:
    """What is told of cycles that are not of the given configuration."""
    notes = []
    if not any(group.given for group in ran.groups):
        notes.append("what is given is another configuration than these cycles ran under")
    others = {cycle for group in ran.groups if not group.given for cycle in group.cycles - ran.why_not.keys()}
    again = [plan for plan in asked if plan.cycle in others]
    if again:
        notes.append(
            f"{len(again)} of {len(asked)} cycles are of other configurations and recomputed from their recorded text: "
            f"{told(again)}"
        )
    for why in dict.fromkeys(ran.why_not[plan.cycle] for plan in asked if plan.cycle in ran.why_not):
        these = [plan for plan in asked if ran.why_not.get(plan.cycle) == why]
        notes.append(
            f"{len(these)} of {len(asked)} cycles are of other configurations and not compared: {told(these)}: {why}"
        )
    return notes


def _refuse_others(topology: Topology, history: History, plans: Sequence[Plan], ran: Configurations) -> NoReturn:
    last = history.meanings.get(plans[-1].fingerprint)
    same = last is not None and fingerprint.is_of(last, topology)
    what = "steps, columns or topics in the files" if same else "the topology"
    message = (
        f"{topology.name} ran under another configuration than the one given: {told(plans)}; what differs is {what}; "
        f"it cannot be evaluated again: {ran.why_not[plans[-1].cycle]}"
    )
    raise NothingToVerify(message, "give the pipeline as it was when it ran")


# --- outputs ---------------------------------------------------------------------------------------------------------


def _output(
    spark: SparkSession,
    lake: Lake,
    name: str,
    evaluated: Sequence[_Evaluated],
    history: History,
    left: set[int],
    found: Verdict,
) -> None:
    """Adds what is found of one output, which several configurations may have written.

    What the first evaluation gives of it is compared whatever the table looks like; the others' only where it can stand
    beside that, or the table has the columns for it.
    """
    made = [
        outputs.Made(sink, one.group.cycles, one.results.outputs[name], one.results.records[name])
        for one in evaluated
        for sink in one.group.topology.sinks
        if sink.name == name
    ]
    table = lake.output(name)
    of_first = any(sink.name == name for sink in evaluated[0].group.topology.sinks)
    if not of_first and not table.exists(spark):
        found.notes.append(f"{name}: there is no such table any more; not compared")
        return
    there = table.read(spark)
    alike = [made[0]] if of_first else []
    for one in made[len(alike) :]:
        why = outputs.unlike(alike[0], one, there) if alike else outputs.lacking(one, there)
        if why is None:
            alike.append(one)
        else:
            left = left | one.cycles
            found.notes.append(f"{name}: what {len(one.cycles)} earlier cycles wrote is not compared: {why}")
    if not alike:
        found.findings.append(Finding(name, 0, left_out=there.count()))
    elif alike[0].sink.mode != "merge":
        found.findings.append(outputs.appended(alike, there, found.from_cycle, found.to_cycle, left))
    elif history.open_plan is not None:
        found.findings.append(Finding(name, 0, left_out=there.count()))
        found.notes.append(f"{name}: it may hold rows of a cycle that is not finished; not compared")
    else:
        floor = max(left | {evaluated[0].behind})
        merged = outputs.merged(alike, there, floor)
        found.findings.append(merged)
        if merged.left_out:
            found.notes.append(
                f"{name}: {merged.left_out} rows that were last written up to cycle {floor} are not compared"
            )


def _second_opinion(spark: SparkSession, one: _Evaluated) -> tuple[list[Finding], list[str]]:
    made = one.results
    frames = {name: rows.all() if isinstance(rows, TableSide) else rows for name, rows in made.nodes.items()}
    evaluation = sql_check.Evaluation(frames, one.inputs.partitions, one.inputs.ticks, made.made, one.inputs.fewer)
    return sql_check.judge(spark, one.group.topology, evaluation)


# --- bronze and ledger -----------------------------------------------------------------------------------------------


def _newest(plans: Sequence[Plan]) -> list[Range]:
    """The last range of each topic-partition; not every configuration reads every topic."""
    return list({part.at: part for plan in plans for part in plan.ranges}.values())


def _plans_follow_each_other(plans: Sequence[Plan]) -> Finding:
    """Each plan takes a partition up where the one before has left it; cycles ascend by one."""
    wrong = []
    position: dict[tuple[str, int], int] = {}
    for plan in plans:
        for part in plan.ranges:
            at = position.get(part.at)
            if at is not None and part.from_offset != at:
                wrong.append(
                    f"cycle {plan.cycle}: {part.topic}-{part.partition} from {part.from_offset}, not from {at}"
                )
            position[part.at] = part.to_offset
    return Finding("plans", len(plans), len(wrong), tuple(wrong[:_EXAMPLES]))


def _settled(spark: SparkSession, ledger: Ledger, sources: Sequence[Source], plans: Sequence[Plan]) -> Finding:
    """In a round, a cycle's records lie strictly before those of all later cycles: what was planned was settled.

    A round is known by the ends that it has captured; what lies past them, replayed records, and global tables, which are
    read to their end first, hold nobody back.
    """
    bounds: dict[int, list[tuple[int, int]]] = {}
    for source in sources:
        ends = [
            (plan.cycle, part.partition, part.end_offset)
            for plan in plans
            for part in plan.of(source.topic)
            if part.end_offset is not None
        ]
        if source.kind == "global_table" or not ends:
            continue
        taken = [plan for plan in plans if plan.of(source.topic)]
        captured = spark.createDataFrame(ends, "cycle bigint, partition int, end_offset bigint")
        given = planned_rows(spark, ledger, source, taken, readable=False).where(F.col("attempt") == 0)
        rows = given.select(row_cycle(source.topic, taken).alias("cycle"), "partition", "offset", "stream_time_ms")
        of_round = rows.join(F.broadcast(captured), ["cycle", "partition"]).where("offset < end_offset")
        for row in of_round.groupBy("cycle").agg(F.min("stream_time_ms"), F.max("stream_time_ms")).collect():
            bounds.setdefault(row[0], []).append((row[1], row[2]))
    wrong = []
    reached: int | None = None
    captured_before: dict[tuple[str, int], int | None] = {}
    for plan in plans:
        captured_now = {part.at: part.end_offset for part in plan.ranges if not part.of_attempts}
        if captured_now != captured_before:
            reached, captured_before = None, captured_now
        if plan.cycle not in bounds:
            continue
        first, last = min(low for low, _ in bounds[plan.cycle]), max(high for _, high in bounds[plan.cycle])
        if reached is not None and first <= reached:
            wrong.append(f"cycle {plan.cycle} begins at stream time {first}, an earlier one has reached {reached}")
        reached = last if reached is None else max(reached, last)
    return Finding("plans, what was settled", len(plans), len(wrong), tuple(wrong[:_EXAMPLES]))


def _bronze(
    spark: SparkSession, ledger: Ledger, source: Source, plans: Sequence[Plan], before: Sequence[Range]
) -> list[Finding]:
    """Stream time anew from the raw columns; no record twice; as many rows as the plans took."""
    begins = {part.partition: part for part in before if part.topic == source.topic}
    ends = {part.partition: part.to_offset for part in _newest(plans) if part.topic == source.topic}
    if not ends:
        return []
    starts = {partition: part.to_offset for partition, part in begins.items()}
    planned_now = within({partition: (starts.get(partition, 0), end) for partition, end in ends.items()})
    wanted = planned_now
    if ATTEMPTS in ends:  # a replayed record moves stream time where it was ingested, also one that waits for its plan
        wanted |= (F.col("attempt") > 0) & F.col("seq").between(starts.get(ATTEMPTS, 0), plans[-1].seq)
    rows = ledger.lake.bronze(ledger.pipeline, source.topic).read(spark).where(wanted)
    in_order = Window.partitionBy("partition").orderBy("seq", "offset", "attempt")
    moves = F.when(F.col("error").isNull(), F.col("event_time_ms"))
    stood = reduce(  # where the partition's stream time stood before the first of these rows
        lambda column, part: F.when(F.col("partition") == part.partition, part.stream_time_ms).otherwise(column),
        (part for part in begins.values() if not part.of_attempts),
        F.lit(NO_TIME),
    )
    so_far = F.max(moves).over(in_order.rowsBetween(Window.unboundedPreceding, 0))
    expected = F.greatest(so_far, stood.cast("bigint"))
    before_it = in_order.rowsBetween(Window.unboundedPreceding, -1)
    as_given = F.col("attempt") == 0
    twice = as_given & (F.max(F.when(as_given, F.col("offset"))).over(before_it) >= F.col("offset"))
    judged = rows.withColumns({"_expected": expected, "_twice": F.coalesce(twice, F.lit(False))}).where(planned_now)
    wrong = (F.col("_expected") != F.col("stream_time_ms")) | F.col("_twice")
    (total,) = judged.agg(F.count("*").alias("all"), F.count_if(wrong).alias("wrong")).collect()
    examples = judged.where(wrong).orderBy("partition", "offset").limit(_EXAMPLES).collect() if total["wrong"] else []
    texts = tuple(
        f"{source.topic}-{row['partition']}@{row['offset']}: "
        + ("twice" if row["_twice"] else f"stream time {row['stream_time_ms']}, computed {row['_expected']}")
        for row in examples
    )
    planned = sum(plan.records(source.topic) for plan in plans)
    missing = abs(planned - total["all"])
    counted = Finding(
        f"bronze of {source.topic}, rows",
        planned,
        missing,
        (f"the plans took {planned} records, bronze holds {total['all']} of them",) if missing else (),
    )
    return [Finding(f"bronze of {source.topic}, stream time", total["all"], total["wrong"], texts), counted]
