"""The fate of a record, and where a result comes from: told from bronze, plans, quarantine and the results' lineage.

What gave no result is followed through the topology: all finished cycles are evaluated once more, and the node is named
behind which nothing of the record is left; so is what came into one output and not into another. What was written to topics
is told from such an evaluation, too: a topic is not read. Where bronze is trimmed, what is left of earlier cycles cannot be
followed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import ATTEMPTS, History, Plan
from lakestreams.engine.publish import quarantine
from lakestreams.engine.replay import requests as replays
from lakestreams.engine.runtime.tuning import in_utc
from lakestreams.engine.state import past
from lakestreams.errors import InvalidOption, NoSuchRecord
from lakestreams.evaluate import walk
from lakestreams.evaluate.stateless import names
from lakestreams.evaluate.walk import EVENT_TIME, LINEAGE
from lakestreams.formats import Int, Long, Short, Uuid
from lakestreams.operators.records import AMENDED, CONTRIBUTORS, COORDINATES, MATCHED, UNMATCHED
from lakestreams.operators.versions import TableSide
from lakestreams.topology.graph import key_source, sources_of
from lakestreams.topology.joins import StreamGlobalJoin, StreamTableJoin, WindowedJoin
from lakestreams.topology.node import Join
from lakestreams.topology.steps import Filter
from lakestreams.verify.keys import has_key
from lakestreams.verify.origins import Identity, gathers, origins

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.formats.base import Format
    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.node import Node, Sink
    from lakestreams.topology.topology import Topology

_MOST = 100  # records of a key that are told, the newest ones
_MOST_RESULTS = 20
_DECIDED = {
    replays.REQUESTED: "is to be replayed by the next run, as asked",
    replays.REPLAYED: "was replayed, as asked",
    replays.SUPERSEDED: "was to be replayed and is superseded, as asked",
    replays.DISCARDED: "was discarded, as asked",
}

Place = tuple[str, int, int]
"""Topic, partition, offset."""


@dataclass
class Fate:
    """What became of a record.

    Attributes:
        topic, partition, offset, attempt: which one; attempt 0 is as the topic has it, the others were replayed.
        seq: the ingest batch that brought it.
        key, value: as text, as far as they are text or numbers.
        event_time_ms: its time.
        cycle: the cycle that took it, or None.
        told: what became of it, a sentence each.
        results: output, row and lineage of what it contributed to, at most 20 an output; of a topic key and value.
    """

    topic: str
    partition: int
    offset: int
    attempt: int
    seq: int
    key: str | None
    value: str | None
    event_time_ms: int | None
    cycle: int | None
    told: list[str] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)

    @property
    def place(self) -> Place:
        """Its coordinates."""
        return self.topic, self.partition, self.offset

    @property
    def identity(self) -> Identity:
        """Its coordinates and its attempt."""
        return *self.place, self.attempt


def at(text: str) -> Place:
    """Coordinates as they are written: `TOPIC-PARTITION@OFFSET`.

    Raises:
        InvalidOption: if the text is none.
    """
    head, _, offset = text.rpartition("@")
    topic, _, partition = head.rpartition("-")
    if not (topic and partition.isdigit() and offset.isdigit()):
        message = f"{text!r} names no record"
        raise InvalidOption(message, hint="TOPIC-PARTITION@OFFSET, such as PageViews-0@17")
    return topic, int(partition), int(offset)


@in_utc
def why(
    spark: SparkSession, lake: Lake, topology: Topology, *, key: str | None = None, place: Place | None = None
) -> list[Fate]:
    """What became of the records of a key, or of one record.

    Args:
        topology: the pipeline, as it ran.
        key: the key's bytes as text, or its columns: of one column what it holds as text, of any a JSON object.
        place: topic, partition and offset.

    Returns:
        A fate a record, in the order of topics and offsets; of a key with more than 100 records the newest ones. Behind
        them those of records of other keys that made results of the key, the newest ones of each output first.

    Raises:
        NoSuchRecord: if bronze holds none, and no output a row of the key.
    """
    lake = lake.naming(topology)
    ledger = Ledger(lake, topology.name)
    fates = _records(spark, ledger, topology, key, place)
    history = ledger.history(spark)
    plans = ledger.plans(spark, 1, [source.topic for source in topology.sources])
    done = [plan for plan in plans if plan.cycle <= history.done_cycle]
    if not fates and (key is None or not done):
        _refuse(topology, history, key, place)
    behind = past.reach(spark, ledger, topology, history)
    reached = [plan for plan in done if plan.cycle > behind]
    again = functools.cache(
        lambda: walk.run(topology, past.everything(spark, ledger, topology, history, reached))
    )  # all finished cycles in one evaluation, made when it is first asked for
    made = (
        _made_by_others(spark, ledger, topology, key, fates, again if reached else None)
        if key is not None and done
        else []
    )
    if not fates and not made:
        _refuse(topology, history, key, place)
    told = [*fates, *(fate for fate, _ in made)]
    for fate in told:
        _planned(fate, plans, history.done_cycle)
    _quarantined(spark, ledger, told)
    for sink in topology.sinks:
        _results(sink.name, ledger.lake.output(sink.name).read(spark), told)
    if reached and topology.kafka_sinks:
        _sent(topology, again(), told)
    for fate, sentences in made:
        fate.told += sentences
    silent = [fate for fate in fates if not fate.told and (not _joined(fate) or _lacking(topology, fate))]
    if silent and done:
        since = [fate for fate in silent if fate.cycle is not None and fate.cycle > behind]
        for fate in silent:
            if fate not in since and not _joined(fate):
                fate.told.append(f"cannot be followed: bronze is trimmed up to cycle {behind}")
        if since:
            _followed(topology, again(), done, since)
    for fate in told:
        if fate.results:
            fate.told.append(_made(fate.results))
    return told


def _refuse(topology: Topology, history: History, key: str | None, place: Place | None) -> NoReturn:
    what = f"with the key {key!r}, and no output a row of it" if place is None else _text(place)
    message = f"bronze of {topology.name} holds no record {what}"
    if history.trim is not None:
        message += f"; it is trimmed: streams' records of cycles up to {history.trim.cycle} are gone, and of tables' "
        message += "all but the last ones"
    raise NoSuchRecord(message)


def _joined(fate: Fate) -> bool:
    """Whether a join's row is made of it; an aggregate's row only names the record that brought it about."""
    return any(map(_is_joined, fate.results))


def _is_joined(row: dict[str, Any]) -> bool:
    return row[LINEAGE]["kind"] in (MATCHED, AMENDED, UNMATCHED)


def _lacking(topology: Topology, fate: Fate) -> list[Sink]:
    """The outputs that its topic can cause rows of, and that have none of it; of aggregates' rows that cannot be said."""
    there = {row["output"] for row in fate.results}
    return [
        sink
        for sink in topology.outputs
        if sink.name not in there and fate.topic in _topics(sink) and not gathers(sink)
    ]


# --- what the tables say ---------------------------------------------------------------------------------------------


def _records(
    spark: SparkSession, ledger: Ledger, topology: Topology, key: str | None, place: Place | None
) -> list[Fate]:
    found: list[Fate] = []
    for source in topology.sources:
        if place is not None and place[0] != source.topic:
            continue
        rows = ledger.lake.bronze(ledger.pipeline, source.topic).read(spark)
        if place is not None:
            wanted = (F.col("partition") == place[1]) & (F.col("offset") == place[2])
        else:
            columns = {name: F.col("k")[name] for name in names(rows, "k")}
            wanted = (F.col("key").cast("string") == F.lit(key)) | has_key(rows, columns, str(key))
        newest = rows.where(wanted).orderBy(*map(F.desc, ("stream_time_ms", "offset", "attempt"))).limit(_MOST)
        found += _fates(source, newest)
    return sorted(found, key=lambda one: one.identity)


def _fates(source: Source, rows: DataFrame) -> list[Fate]:
    text = [_readable(source.key, "key", "k"), _readable(source.value, "value", "v")]
    told = rows.select("topic", "partition", "offset", "attempt", "seq", *text, "event_time_ms").collect()
    return [Fate(**row.asDict(), cycle=None) for row in told]


def _readable(how: Format, raw: str, typed: str) -> Column:
    """What somebody can read of a key or value: of numbers and UUIDs in bytes what they are, else its bytes as text."""
    text = F.col(raw).cast("string")
    if isinstance(how, Long | Int | Short | Uuid):
        text = F.coalesce(F.col(typed)[how.column].cast("string"), text)
    return text.alias(raw)


def _made_by_others(
    spark: SparkSession,
    ledger: Ledger,
    topology: Topology,
    key: str,
    fates: Sequence[Fate],
    again: Callable[[], walk.Results] | None,
) -> list[tuple[Fate, list[str]]]:
    """Records of other keys that made results of the key, with what there is to say of them."""
    topics = {fate.topic for fate in fates}
    found = origins(spark, ledger.lake, topology, key, again, topics=topics, most=_MOST)
    known = {fate.identity for fate in fates}
    told: dict[Identity, list[str]] = {}
    for one in found:
        for place in one.places:
            if place not in known:
                told.setdefault(place, []).append(one.told(key))
    records: dict[Identity, Fate] = {}
    for source in topology.sources if told else ():
        rows = ledger.lake.bronze(ledger.pipeline, source.topic).read(spark)
        of_these = rows.where(_any_of(told, F.col("topic")))
        records |= {fate.identity: fate for fate in _fates(source, of_these)}
    return [(records[place], sentences) for place, sentences in told.items() if place in records]


def _planned(fate: Fate, plans: Sequence[Plan], done: int) -> None:
    at, number = (fate.partition, fate.offset) if not fate.attempt else (ATTEMPTS, fate.seq)
    for plan in plans:
        if any(part.partition == at and number < part.to_offset for part in plan.of(fate.topic)):
            fate.cycle = plan.cycle
            break
    if fate.cycle is None:
        fate.told.append("waits in bronze: its order is not settled yet, or no run has come since it was ingested")
    elif fate.cycle > done:
        fate.told.append(f"is in cycle {fate.cycle}, which was planned and is not finished; the next run finishes it")


def _quarantined(spark: SparkSession, ledger: Ledger, fates: Sequence[Fate]) -> None:
    if not quarantine.table(ledger).exists(spark):
        return
    rows = replays.standing(spark, ledger).where(_any_of(_identities(fates), F.col("topic")))
    known = {fate.identity: fate for fate in fates}
    for row in rows.orderBy("node", "code").collect():
        fate = known[row["topic"], row["partition"], row["offset"], row["attempt"]]
        fate.told.append(f"is in quarantine by {row['node']}: {row['code']}, {row['message']}")
        if row["state"] != replays.OPEN:
            why_so = f": {row['reason']}" if row["reason"] else ""
            fate.told.append(f"{_DECIDED[row['state']]} by request {row['request']}{why_so}")


def _results(output: str, rows: DataFrame, fates: Sequence[Fate]) -> None:
    known = {fate.identity: fate for fate in fates}
    # an aggregate's row has its trigger alone as contributor
    one = F.explode(F.array_distinct(F.transform(F.col(LINEAGE)["contributors"], _place_of))).alias("place")
    of_these = rows.select(F.struct(*rows.columns).alias("row"), one).where(
        _any_of(_identities(fates), F.col("place.source"), "place.")
    )
    in_order = [F.col("row")[LINEAGE][name] for name in ("cycle", "trigger", "n")]
    # of each record the first ones: none is told to have no results because another one has many
    number = F.row_number().over(Window.partitionBy("place").orderBy(*in_order))
    told = of_these.withColumn("number", number).where(F.col("number") <= _MOST_RESULTS).orderBy("number")
    for found in told.collect():
        fate = known[tuple(found["place"])]
        fate.results.append({"output": output, **found["row"].asDict(recursive=True)})


def _sent(topology: Topology, results: walk.Results, fates: Sequence[Fate]) -> None:
    """What went to topics: keys and values as text."""
    for sink in topology.kafka_sinks:
        text = [F.col(name).cast("string").alias(name) for name in ("key", "value")]
        _results(sink.name, results.outputs[sink.name].select(*text, EVENT_TIME, LINEAGE), fates)


def _place_of(contributor: Column) -> Column:
    return F.struct(*(contributor[name].alias(name) for name in COORDINATES))


def _identities(fates: Sequence[Fate]) -> list[Identity]:
    return [fate.identity for fate in fates]


def _any_of(records: Iterable[Identity], topic: Column, prefix: str = "") -> Column:
    return reduce(
        or_,
        (
            (topic == of_topic)
            & (F.col(f"{prefix}partition") == partition)
            & (F.col(f"{prefix}offset") == offset)
            & (F.col(f"{prefix}attempt") == attempt)
            for of_topic, partition, offset, attempt in records
        ),
    )


def _made(results: Sequence[dict[str, Any]]) -> str:
    parts = []
    for row in results:
        lineage = row[LINEAGE]
        others = " + ".join(_named(*(one[name] for name in COORDINATES)) for one in lineage["contributors"])
        parts.append(f"{row['output']}: {lineage['kind']} of {others}, cycle {lineage['cycle']}")
    return "gave " + "; ".join(parts)


# --- what gave no result ---------------------------------------------------------------------------------------------


def _followed(topology: Topology, results: walk.Results, done: Sequence[Plan], fates: Sequence[Fate]) -> None:
    """Names the node behind which nothing is left; of a record that other outputs have, with the output that lacks it."""
    outputs = {sink.name for sink in topology.outputs}
    steps = [node for node in topology.nodes if node.name not in outputs]
    parts = [_left_of(name, rows, fates) for name, rows in results.nodes.items() if name not in outputs]
    found = reduce(DataFrame.unionByName, parts).collect()
    there = {(row["node"], tuple(row[name] for name in COORDINATES)) for row in found}
    for fate in fates:
        reached = [node for node in steps if (node.name, fate.identity) in there]
        lost = [node for node in steps if node not in reached and any(parent in reached for parent in node.parents)]
        if not _joined(fate):
            fate.told += list(dict.fromkeys(_lost(node, fate, done) for node in lost))
        else:
            for sink in _lacking(topology, fate):
                why_not = [_lost(node, fate, done) for parent in sink.parents for node in _stopped_at(parent, reached)]
                fate.told += [f"not in {sink.name}: {text}" for text in dict.fromkeys(why_not)]
        if not fate.told and not fate.results:
            fate.told.append("gave nothing, and no node says why: a later record of its key has taken its place")


def _stopped_at(node: Node, reached: Sequence[Node]) -> list[Node]:
    """The nodes that a record has come up to, and not past, on its ways to a node; none if it has come there on one of them."""
    if node in reached:
        return []
    if any(parent in reached for parent in node.parents):
        return [node]
    return [found for parent in node.parents for found in _stopped_at(parent, reached)]


def _left_of(name: str, rows: DataFrame | TableSide, fates: Sequence[Fate]) -> DataFrame:
    frame = rows.all() if isinstance(rows, TableSide) else rows
    one = F.explode(F.array_distinct(F.transform(CONTRIBUTORS, _place_of))).alias("place")
    found = frame.select(one).where(_any_of(_identities(fates), F.col("place.source"), "place.")).distinct()
    return found.select(F.lit(name).alias("node"), "place.*")


def _lost(node: Node, fate: Fate, done: Sequence[Plan]) -> str:
    if isinstance(node, Filter):
        return f"was filtered out by {node.name}"
    if isinstance(node, WindowedJoin):
        return _unpaired(node, fate, done)
    if isinstance(node, StreamTableJoin | StreamGlobalJoin):
        if fate.topic in _topics(node.right) and fate.topic not in _topics(node.left):
            return f"is a row of {node.right.name} that no later record of {node.left.name} has looked up"
        if isinstance(node, StreamTableJoin) and node.wait_ms is not None:
            return _waiting(node.wait_ms, node, node.left, fate, done) or (
                f"has no partner in {node.name}: {node.right.name} had no row of its key while it waited"
            )
        return f"has no partner in {node.name}: {node.right.name} had no row of its key when it came"
    if isinstance(node, Join):
        return f"has no partner in {node.name}, a {node.shape} join"
    return f"is not told by {node.name} ({node.word}): what came of it was replaced before it came out, or waits"


def _unpaired(node: WindowedJoin, fate: Fate, done: Sequence[Plan]) -> str:
    """Of a record that has met none in its window: whether it waits to come out, or may still meet one."""
    left = fate.topic in _topics(node.left)
    side = node.left if left else node.right
    if node.how == "outer" or (node.how == "left" and left):
        waits = _waiting(_closes_after(node, left=left), node, side, fate, done)
        if waits is not None:
            return waits
    until = _until(_meets_for(node, left=left), side, fate, done)
    if until is not None:
        return f"has no partner in {node.name} yet: one may come until {until}"
    return f"has no partner in {node.name}: none of its key lies within its window"


def _closes_after(node: WindowedJoin, *, left: bool) -> int:
    """How far the clock passes a record's time before its window is closed."""
    return (node.after_ms if left else node.before_ms) + node.grace_ms


def _meets_for(node: WindowedJoin, *, left: bool) -> int:
    """How far the clock passes a record's time before it can meet nothing any more: under `kafka` its store's retention."""
    if node.rules == "kafka":
        return node.before_ms + node.after_ms + node.grace_ms - 1
    return _closes_after(node, left=left)


def _waiting(bound: int, node: Node, side: Node, fate: Fate, done: Sequence[Plan]) -> str | None:
    """That a record waits in a node, if its task's clock has not passed its time and a bound."""
    until = _until(bound, side, fate, done)
    return None if until is None else f"waits in {node.name} until {until}"


def _until(bound: int, side: Node, fate: Fate, done: Sequence[Plan]) -> str | None:
    """When its task's clock passes a record's time and a bound, in words; None if it has."""
    clocks = done[-1].clocks
    clock = max(clocks.values(), default=0)
    if key_source(side) is not None:  # then its partition is its task
        clock = clocks.get(fate.partition, clock)
    closes = (fate.event_time_ms or 0) + bound
    return f"the clock, now at {clock}, passes {closes}" if clock <= closes else None


def _topics(node: Node) -> set[str]:
    return {source.topic for source in sources_of(node)}


def _text(place: Place) -> str:
    return f"{place[0]}-{place[1]}@{place[2]}"


def _named(topic: str, partition: int, offset: int, attempt: int) -> str:
    return _text((topic, partition, offset)) + (f"#{attempt}" if attempt else "")
