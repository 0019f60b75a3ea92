"""What became of a record, and where a result comes from: read from bronze, plans, quarantine and the results' lineage.

What gave no result is followed through the topology: all finished cycles are evaluated once more, and the node is named
behind which nothing of the record is left; so is what came into one output and not into another. What was written to topics
is read from such an evaluation, too: a topic is not read. Where bronze is trimmed, what is left of earlier cycles cannot be
followed.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from operator import and_
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import REPLAYED, History, Plan
from lakestreams.engine.publish import quarantine
from lakestreams.engine.replay import quarantined
from lakestreams.engine.replay import requests as replays
from lakestreams.engine.runtime.tuning import in_utc
from lakestreams.engine.state.reach import everything, reach
from lakestreams.errors import NoSuchRecord
from lakestreams.evaluate import walk
from lakestreams.evaluate.inputs import Results
from lakestreams.evaluate.outputs import EVENT_TIME, LINEAGE
from lakestreams.evaluate.stateless import names
from lakestreams.formats import Int, Long, Short, Uuid
from lakestreams.operators.records import COORDINATES
from lakestreams.verify.following import followed, lacking, missed
from lakestreams.verify.identity import Identity, any_of, places
from lakestreams.verify.keys import has_key
from lakestreams.verify.origins import origins
from lakestreams.verify.readable import readable_value
from lakestreams.verify.trace import IN_QUARANTINE, OUTPUT, Asked, Trace, named, written

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.formats.base import Format
    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.topology import Topology

_MOST = 100  # records of a key that are reported, the newest ones
_MOST_RESULTS = 20
_DECIDED = {
    replays.REQUESTED: "is to be replayed by the next run, as asked",
    replays.REPLAYED: "was replayed, as asked",
    replays.SUPERSEDED: "was to be replayed and is superseded, as asked",
    replays.DISCARDED: "was discarded, as asked",
}


@in_utc
def why(
    spark: SparkSession, lake: Lake, topology: Topology, *, key: str | None = None, place: Asked | None = None
) -> list[Trace]:
    """What became of the records of a key, or of one record.

    Args:
        topology: the pipeline, as it ran.
        key: the key's bytes as text, or its columns: of one column what it holds as text, of any a JSON object.
        place: topic, partition and offset, of all attempts; or with the attempt.

    Returns:
        A trace for each record, in the order of topics and offsets; of a key with more than 100 records the newest ones. Behind
        them those of records of other keys that made results of the key, the newest ones of each output first.

    Raises:
        NoSuchRecord: if bronze holds none, and no output a row of the key; or if the pipeline has never run here.
    """
    lake = lake.naming(topology)
    ledger = Ledger(lake, topology.name)
    ledger.require_run(spark, NoSuchRecord)
    traces = _records(spark, ledger, topology, key, place)
    history = ledger.history(spark)
    plans = ledger.plans(spark, 1, [source.topic for source in topology.sources])
    done = [plan for plan in plans if plan.cycle <= history.done_cycle]
    if not traces and (key is None or not done):
        _refuse(topology, history, key, place)
    behind = reach(spark, ledger, topology, history)
    reached = [plan for plan in done if plan.cycle > behind]
    again = functools.cache(
        lambda: walk.run(topology, everything(spark, ledger, topology, history, reached))
    )  # all finished cycles in one evaluation, made when it is first asked for
    of_others = (
        _of_other_keys(spark, ledger, topology, key, traces, again if reached else None)
        if key is not None and done
        else []
    )
    if not traces and not of_others:
        _refuse(topology, history, key, place)
    every = [*traces, *(trace for trace, _ in of_others)]
    for trace in every:
        _planned(trace, plans, history.done_cycle)
    _quarantined(spark, ledger, every)
    _stored(spark, ledger, topology, every)
    if reached and topology.kafka_sinks:
        _sent(topology, again(), every)
    for trace, sentences in of_others:
        trace.sentences += sentences
    silent = [trace for trace in traces if not trace.sentences and (not trace.is_joined or lacking(topology, trace))]
    if silent and done:
        since = [trace for trace in silent if trace.cycle is not None and trace.cycle > behind]
        for trace in silent:
            if trace not in since and not trace.is_joined:
                trace.sentences.append(f"cannot be followed: bronze is trimmed up to cycle {behind}")
        if since:
            followed(topology, again(), done, since)
    for trace in every:
        if trace.results:
            trace.sentences.append(_results_text(trace.results))
    missed(topology, every, _cut(topology, history, traces))
    return every


def _cut(topology: Topology, history: History, traces: Sequence[Trace]) -> list[str]:
    """The topics that had more records of the key than there are traces, or may have had: older ones, or trimmed ones."""
    if history.trim is not None:
        return [source.topic for source in topology.sources]
    return [topic for topic, count in Counter(one.topic for one in traces).items() if count >= _MOST]


def _refuse(topology: Topology, history: History, key: str | None, place: Asked | None) -> NoReturn:
    what = f"with the key {key!r}, and no output a row of it" if place is None else written(place)
    message = f"bronze of {topology.name} holds no record {what}"
    if history.trim is not None:
        message += f"; it is trimmed: streams' records of cycles up to {history.trim.cycle} are gone, and of tables' "
        message += "all but the last ones"
    raise NoSuchRecord(message)


# --- what the tables say ---------------------------------------------------------------------------------------------


def _records(
    spark: SparkSession, ledger: Ledger, topology: Topology, key: str | None, place: Asked | None
) -> list[Trace]:
    traces: list[Trace] = []
    for source in topology.sources:
        if place is not None and place[0] != source.topic:
            continue
        if not (bronze := ledger.lake.bronze(ledger.pipeline, source.topic)).exists(spark):
            continue  # the source is new: no run has read it
        rows = bronze.read(spark)
        if place is not None:
            columns_of_place = zip(COORDINATES[1:], place[1:], strict=False)  # without an attempt all of them
            wanted = functools.reduce(and_, (F.col(name) == value for name, value in columns_of_place))
        else:
            columns = {name: F.col("k")[name] for name in names(rows, "k")}
            wanted = (F.col("key").cast("string") == F.lit(key)) | has_key(rows, columns, str(key))
        newest = rows.where(wanted).orderBy(*map(F.desc, ("stream_time_ms", "offset", "attempt"))).limit(_MOST)
        traces += _traces(source, newest)
    return sorted(traces, key=lambda one: one.identity)


def _traces(source: Source, rows: DataFrame) -> list[Trace]:
    text = [_readable(source.key, "key", "k"), _readable(source.value, "value", "v")]
    records = rows.select(
        "topic", "partition", "offset", "attempt", "seq", *text, "event_time_ms", "stream_time_ms"
    ).collect()
    return [Trace(**row.asDict(), cycle=None) for row in records]


def _readable(how: Format, raw: str, typed: str) -> Column:
    """What somebody can read of a key or value: of numbers and UUIDs in bytes what they are, else its bytes as text."""
    text = _text(raw)
    if isinstance(how, Long | Int | Short | Uuid):
        text = F.coalesce(F.col(typed)[how.column].cast("string"), text)
    return text.alias(raw)


def _text(raw: str) -> Column:
    """Bytes as text; those that are none are replaced: Spark Connect does not hand over a text that is not UTF-8."""
    return F.make_valid_utf8(F.col(raw).cast("string"))


def _of_other_keys(
    spark: SparkSession,
    ledger: Ledger,
    topology: Topology,
    key: str,
    traces: Sequence[Trace],
    again: Callable[[], Results] | None,
) -> list[tuple[Trace, list[str]]]:
    """Records of other keys that made results of the key, with what there is to say of them."""
    topics = {trace.topic for trace in traces}
    known_origins = origins(spark, ledger.lake, topology, key, again, topics=topics, most=_MOST)
    known = {trace.identity for trace in traces}
    said: dict[Identity, list[str]] = {}
    for one in known_origins:
        for place in one.places:
            if place not in known:
                said.setdefault(place, []).append(one.sentence(key))
    records: dict[Identity, Trace] = {}
    for source in topology.sources if said else ():
        if (bronze := ledger.lake.bronze(ledger.pipeline, source.topic)).exists(spark):
            of_these = bronze.read(spark).where(any_of(said, F.col("topic")))
            records |= {trace.identity: trace for trace in _traces(source, of_these)}
    return [(records[place], sentences) for place, sentences in said.items() if place in records]


def _planned(trace: Trace, plans: Sequence[Plan], done: int) -> None:
    at, number = (trace.partition, trace.offset) if not trace.attempt else (REPLAYED, trace.seq)
    for plan in plans:
        if any(part.partition == at and number < part.to_offset for part in plan.of(trace.topic)):
            trace.cycle = plan.cycle
            break
    if trace.cycle is None:
        trace.sentences.append(
            "waits in bronze: its order is not settled yet, or no run has come since it was ingested"
        )
    elif trace.cycle > done:
        trace.sentences.append(
            f"is in cycle {trace.cycle}, which was planned and is not finished; the next run finishes it"
        )


def _quarantined(spark: SparkSession, ledger: Ledger, traces: Sequence[Trace]) -> None:
    if not quarantine.table(ledger).exists(spark):
        return
    rows = quarantined.with_decisions(spark, ledger).where(any_of([trace.identity for trace in traces], F.col("topic")))
    known = {trace.identity: trace for trace in traces}
    for row in rows.orderBy("node", "code").collect():
        trace = known[row["topic"], row["partition"], row["offset"], row["attempt"]]
        trace.sentences.append(f"{IN_QUARANTINE}{row['node']}: {row['code']}, {row['message']}")
        if row["state"] != replays.OPEN:
            why_so = f": {row['reason']}" if row["reason"] else ""
            trace.sentences.append(f"{_DECIDED[row['state']]} by request {row['request']}{why_so}")


def _stored(spark: SparkSession, ledger: Ledger, topology: Topology, traces: Sequence[Trace]) -> None:
    """What is in tables; an output that no run has written yet has nothing."""
    for sink in topology.sinks:
        if (output := ledger.lake.output(sink.name)).exists(spark):
            _results(sink.name, output.read(spark), traces)


def _results(output: str, rows: DataFrame, traces: Sequence[Trace]) -> None:
    known = {trace.identity: trace for trace in traces}
    # an aggregate's row has its trigger alone as contributor
    one = F.explode(F.array_distinct(places(F.col(LINEAGE)["contributors"]))).alias("place")
    of_these = rows.select(F.struct(*rows.columns).alias("row"), one).where(
        any_of([trace.identity for trace in traces], F.col("place.source"), "place.")
    )
    in_order = [F.col("row")[LINEAGE][name] for name in ("cycle", "trigger", "n")]
    # of each record the first ones: none is reported to have no results because another one has many
    number = F.row_number().over(Window.partitionBy("place").orderBy(*in_order))
    first_ones = of_these.withColumn("number", number).where(F.col("number") <= _MOST_RESULTS).orderBy("number")
    kind = first_ones.schema["row"].dataType
    for row in first_ones.collect():
        trace = known[tuple(row["place"])]
        own = readable_value(row["row"], kind)
        if OUTPUT in own:  # a column of the user's, which would be taken for the output's name
            own[f"column {OUTPUT}"] = own.pop(OUTPUT)
        trace.results.append({OUTPUT: output, **own})


def _sent(topology: Topology, results: Results, traces: Sequence[Trace]) -> None:
    """What went to topics: keys and values as text."""
    for sink in topology.kafka_sinks:
        text = [_text(name).alias(name) for name in ("key", "value")]
        _results(sink.name, results.outputs[sink.name].select(*text, EVENT_TIME, LINEAGE), traces)


def _results_text(results: Sequence[dict[str, Any]]) -> str:
    parts = []
    for row in results:
        lineage = row[LINEAGE]
        others = " + ".join(named(*(one[name] for name in COORDINATES)) for one in lineage["contributors"])
        parts.append(f"{row[OUTPUT]}: {lineage['kind']} of {others}, cycle {lineage['cycle']}")
    return "gave " + "; ".join(parts)
