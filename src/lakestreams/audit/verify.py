"""Proof after the fact: what is in the tables is what bronze and the recorded plans give, row for row.

All finished cycles are evaluated again in one batch, which knows nothing of how the runs were cut, where they crashed or
what they stored; and what bronze says of itself (stream time, no gap, no offset twice) is computed from its raw columns.
The kernels that evaluate them are judged by SQL that shares no code with them (`second_opinion`).
Where bronze is trimmed, it begins behind that, from what was kept of the records that are gone.
Cycles belong together that results follow for from the same (`fingerprint.of_state`), whatever else was configured; cycles
of another configuration cannot be computed with this one, and are counted instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.audit import second_opinion
from lakestreams.audit.finding import Finding
from lakestreams.engine import fingerprint, past, sinks
from lakestreams.engine.bronze import planned_rows, row_cycle, within
from lakestreams.engine.ledger import Ledger
from lakestreams.engine.plans import ATTEMPTS, NO_TIME, Plan, Range
from lakestreams.errors import BronzeTrimmed, NothingToVerify
from lakestreams.flow import dataflow
from lakestreams.flow.dataflow import LINEAGE
from lakestreams.flow.steps import names
from lakestreams.joins.order import KEY, TOMBSTONE
from lakestreams.joins.validity import TableSide
from lakestreams.topology.nodes import is_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakestreams.engine.fingerprint import Configuration
    from lakestreams.engine.lake import Lake
    from lakestreams.engine.plans import History
    from lakestreams.topology.builder import Topology
    from lakestreams.topology.nodes import DeltaSink, Source

_EXAMPLES = 5
_HERE, _THERE = "computed", "in the table"
_SIDE, _RECORD = "_side", "_record"


@dataclass
class Verdict:
    """The result of a verification.

    Attributes:
        pipeline: whose.
        from_cycle, to_cycle: what was asked for, both inclusive.
        cycles, left_out: how many cycles of these there are, and how many of them are of another configuration: their
            appended rows were not compared.
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
        spark: the session.
        lake: where the tables are.
        topology: the pipeline, as it ran.
        from_cycle, to_cycle: of appended outputs, the cycles to compare; by default all that are finished and not
            trimmed. A merged table is compared as it is after the last finished cycle.
        ask_second: whether the joins are also compared with their SQL forms, of all cycles; one more evaluation.
        configuration: the one that is to be compared with; by default the newest one with this topology.

    Raises:
        NothingToVerify: if no cycle is finished, or none of those asked for, or all of them under other configurations.
        BronzeTrimmed: if bronze is trimmed up to a later cycle than the first one asked for.
    """
    ledger = Ledger(lake, topology.name)
    history = ledger.history(spark)
    topics = [source.topic for source in topology.sources]
    every = [plan for plan in ledger.plans(spark, 1, topics) if plan.cycle <= history.done_cycle]
    behind = past.reach(spark, ledger, topology, history)
    plans = [plan for plan in every if plan.cycle > behind]
    before = next((plan.ranges for plan in reversed(every) if plan.cycle <= behind), ())
    first, last = from_cycle or behind + 1, min(to_cycle or history.done_cycle, history.done_cycle)
    if first <= behind:
        _refuse(topology, behind, first)
    if not plans or first > last:
        begins = f"{behind + 1}, up to where bronze is trimmed," if behind else "1"
        message = (
            f"pipeline {topology.name} has finished cycles {begins} to {history.done_cycle}; asked: {first} to {last}"
        )
        raise NothingToVerify(message)
    foreign = _of_others(spark, ledger, topology, history, plans, configuration)
    asked = [plan for plan in plans if first <= plan.cycle <= last]
    left = [plan for plan in asked if plan.cycle in foreign]
    if left and len(left) == len(asked):
        _refuse_others(topology, history, left)
    found = Verdict(topology.name, first, last, len(asked), len(left))
    if behind:
        found.notes.append(f"bronze is trimmed up to cycle {behind}: what earlier cycles gave is not compared")
    found.findings.append(_plans_follow_each_other(every))
    found.findings.append(_settled(spark, ledger, topology.sources, plans))
    for source in topology.sources:
        found.findings += _bronze(spark, ledger, source, plans, before)
    if left:
        found.notes.append(
            f"{len(left)} of {len(asked)} cycles are of other configurations and not compared: {_told(left)}"
        )
    inputs = past.everything(spark, ledger, topology, history, plans)
    results = dataflow.run(topology, inputs)
    for sink in topology.sinks:
        there = ledger.lake.output(sink.name).read(spark).select(*results.outputs[sink.name].columns)
        if sink.mode != "merge":
            compared = F.col(LINEAGE)["cycle"].between(first, last)
            one = _appended(sink, results.outputs[sink.name], there, compared, _stretches(left))
        elif history.open_plan is not None:
            one = Finding(sink.name, 0, left_out=there.count())
            found.notes.append(f"{sink.name}: it may hold rows of a cycle that is not finished; not compared")
        else:
            floor = max(foreign, default=behind)
            one = _merged(sink, results.records[sink.name], results.outputs[sink.name], there, floor)
            if one.left_out:
                found.notes.append(
                    f"{sink.name}: {one.left_out} rows that were last written up to cycle {floor} are not compared"
                )
        found.findings.append(one)
    if ask_second and behind:
        found.notes.append("no second opinion: it would need the records that are trimmed")
    elif ask_second:
        frames = {name: rows.all() if isinstance(rows, TableSide) else rows for name, rows in results.nodes.items()}
        evaluation = second_opinion.Evaluation(frames, inputs.partitions, inputs.ticks, results.made, inputs.fewer)
        opinions, silent = second_opinion.judge(spark, topology, evaluation)
        found.findings += opinions
        found.notes += silent
    found.notes += [f"topic {sink.name}: what was written to Kafka is not read again" for sink in topology.kafka_sinks]
    return found


def _refuse(topology: Topology, behind: int, first: int) -> NoReturn:
    message = (
        f"bronze of {topology.name} is trimmed up to cycle {behind}; the earliest cycle that can be verified is "
        f"{behind + 1}; asked: {first}"
    )
    raise BronzeTrimmed(message, f"lakestreams verify --from {behind + 1}")


# --- configurations --------------------------------------------------------------------------------------------------


def _of_others(
    spark: SparkSession,
    ledger: Ledger,
    topology: Topology,
    history: History,
    plans: Sequence[Plan],
    configuration: Configuration | None,
) -> set[int]:
    """The cycles that other results follow from than from the configuration."""
    meanings = {name: history.meanings.get(name) for name in {plan.fingerprint for plan in plans}}
    if configuration is None:  # the topology is all there is to go by: the newest configuration with it is meant
        own = [plan for plan in plans if _with(spark, ledger, topology, plan.fingerprint, meanings[plan.fingerprint])]
        whole = own[-1].fingerprint if own else ""
        meaning = meanings.get(whole)
    else:
        whole, meaning = configuration.whole, configuration.meaning
    same = {name for name, its in meanings.items() if name == whole or (its is not None and its == meaning)}
    return {plan.cycle for plan in plans if plan.fingerprint not in same}


def _with(spark: SparkSession, ledger: Ledger, topology: Topology, name: str, meaning: str | None) -> bool:
    """Whether a configuration has this topology; where older versions did not write its meaning, by its text."""
    if meaning is not None:
        return fingerprint.is_of(meaning, topology)
    return fingerprint.describes(ledger.configuration(spark, name), topology)


def _refuse_others(topology: Topology, history: History, plans: Sequence[Plan]) -> NoReturn:
    last = history.meanings.get(plans[-1].fingerprint)
    same = last is not None and fingerprint.is_of(last, topology)
    what = "steps, columns or topics in the files" if same else "the topology"
    message = (
        f"{topology.name} ran under another configuration than the one given: {_told(plans)}; what differs is {what}"
    )
    hint = "give the files as they were when it ran; the ledger holds their text, in the rows of the kind config"
    raise NothingToVerify(message, hint)


def _stretches(plans: Sequence[Plan]) -> list[tuple[int, int, str]]:
    """Cycles that follow each other, with their fingerprint: first and last."""
    found: list[tuple[int, int, str]] = []
    for plan in plans:
        if found and found[-1][1:] == (plan.cycle - 1, plan.fingerprint):
            found[-1] = (found[-1][0], plan.cycle, plan.fingerprint)
        else:
            found.append((plan.cycle, plan.cycle, plan.fingerprint))
    return found


def _told(plans: Sequence[Plan]) -> str:
    return ", ".join(f"cycles {first} to {last} ({name})" for first, last, name in _stretches(plans))


# --- outputs ---------------------------------------------------------------------------------------------------------


def _appended(
    sink: DeltaSink, rows: DataFrame, there: DataFrame, asked: Column, left: Sequence[tuple[int, int, str]]
) -> Finding:
    """The rows of the cycles that were asked for, but for those that are left out."""
    cycle = F.col(LINEAGE)["cycle"]
    not_these = reduce(or_, (cycle.between(first, last) for first, last, _ in left), F.lit(False))
    place = {f"_{name}": F.col(LINEAGE)[name] for name in ("cycle", "trigger", "n")}
    computed, found = (side.where(asked & ~not_these).withColumns(place) for side in (rows, there))
    one = _compared(sink.name, computed, found, list(place))
    return replace(one, left_out=there.where(asked & not_these).count()) if left else one


def _merged(sink: DeltaSink, records: DataFrame, rows: DataFrame, there: DataFrame, floor: int) -> Finding:
    """The rows that cycles behind one have written: what no later cycle has touched is as it was, and not computed."""
    cycle = F.col(LINEAGE)["cycle"]
    by, key = sinks.merged_by(sink, records), names(records, KEY)
    if not is_table(sink.parent):
        rows, there = (side.withColumn(_RECORD, F.expr(sinks.RECORD)) for side in (rows, there))
        key = [_RECORD]
    newest = sinks.latest(rows.where(cycle > floor) if floor else rows, by)
    held = there
    if floor:
        held = there.where(cycle > floor).unionByName(_of_keys(there.where(cycle <= floor), newest, key))
    one = _compared(sink.name, newest.where(F.col(LINEAGE)["kind"] != TOMBSTONE), held, key)
    return replace(one, left_out=there.count() - held.count()) if floor else one


def _of_keys(rows: DataFrame, others: DataFrame, key: Sequence[str]) -> DataFrame:
    mine = others.select(*(F.col(name).alias(f"_{name}") for name in key))
    same = reduce(and_, (F.col(name).eqNullSafe(F.col(f"_{name}")) for name in key))
    return rows.join(mine, same, "left_semi")


def _compared(what: str, computed: DataFrame, there: DataFrame, key: Sequence[str]) -> Finding:
    """Rows that stand on one side only, or more often on one: by the place they have in both."""
    columns = computed.columns
    both = computed.withColumn(_SIDE, F.lit(0)).unionByName(there.select(*columns).withColumn(_SIDE, F.lit(1)))
    # a row as text: any type can be compared so, maps too
    as_text = F.to_json(F.struct(*(name for name in columns if name not in key or not name.startswith("_"))))
    told = both.select(*key, _SIDE, as_text.alias("row"))
    by_place = told.groupBy(*key).agg(
        F.sort_array(F.collect_list(F.when(F.col(_SIDE) == 0, F.col("row")))).alias(_HERE),
        F.sort_array(F.collect_list(F.when(F.col(_SIDE) == 1, F.col("row")))).alias(_THERE),
    )
    differs = F.col(_HERE) != F.col(_THERE)
    (total,) = by_place.agg(F.count("*").alias("all"), F.count_if(differs).alias("differ")).collect()
    examples = by_place.where(differs).orderBy(*key).limit(_EXAMPLES).collect() if total["differ"] else []
    return Finding(what, total["all"], total["differ"], tuple(_shown(row, key) for row in examples))


def _shown(row: Any, key: Sequence[str]) -> str:
    place = ", ".join(f"{name.lstrip('_')}={_plain(row[name])}" for name in key)
    return f"{place}\n  computed      {_or_nothing(row[_HERE])}\n  in the table  {_or_nothing(row[_THERE])}"


def _plain(value: Any) -> str:
    if hasattr(value, "asDict"):
        return f"{value['source']}-{value['partition']}@{value['offset']}"
    return str(value)


def _or_nothing(rows: Sequence[str]) -> str:
    return "; ".join(rows) or "nothing"


# --- bronze and ledger -----------------------------------------------------------------------------------------------


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
    ends = {part.partition: part.to_offset for part in plans[-1].ranges if part.topic == source.topic}
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
