"""The fate of a record, and where a result comes from: told from bronze, plans, quarantine and the results' lineage.

What gave no result is followed through the topology: all finished cycles are evaluated once more, and the node is named
behind which nothing of the record is left; so is what came into one output and not into another. What was written to topics
is told from such an evaluation, too: a topic is not read. Where bronze is trimmed, what is left of earlier cycles cannot be
followed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import ATTEMPTS, History, Plan
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
from lakestreams.verify.fate import Fate, Place, named, written
from lakestreams.verify.following import followed, lacking, missed
from lakestreams.verify.identity import Identity, any_of, places
from lakestreams.verify.keys import has_key
from lakestreams.verify.origins import origins

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.formats.base import Format
    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.topology import Topology

_MOST = 100  # records of a key that are told, the newest ones
_MOST_RESULTS = 20
_DECIDED = {
    replays.REQUESTED: "is to be replayed by the next run, as asked",
    replays.REPLAYED: "was replayed, as asked",
    replays.SUPERSEDED: "was to be replayed and is superseded, as asked",
    replays.DISCARDED: "was discarded, as asked",
}


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
        NoSuchRecord: if bronze holds none, and no output a row of the key; or if the pipeline has never run here.
    """
    lake = lake.naming(topology)
    ledger = Ledger(lake, topology.name)
    ledger.require_run(spark, NoSuchRecord)
    fates = _records(spark, ledger, topology, key, place)
    history = ledger.history(spark)
    plans = ledger.plans(spark, 1, [source.topic for source in topology.sources])
    done = [plan for plan in plans if plan.cycle <= history.done_cycle]
    if not fates and (key is None or not done):
        _refuse(topology, history, key, place)
    behind = reach(spark, ledger, topology, history)
    reached = [plan for plan in done if plan.cycle > behind]
    again = functools.cache(
        lambda: walk.run(topology, everything(spark, ledger, topology, history, reached))
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
    _stored(spark, ledger, topology, told)
    if reached and topology.kafka_sinks:
        _sent(topology, again(), told)
    for fate, sentences in made:
        fate.told += sentences
    silent = [fate for fate in fates if not fate.told and (not fate.is_joined or lacking(topology, fate))]
    if silent and done:
        since = [fate for fate in silent if fate.cycle is not None and fate.cycle > behind]
        for fate in silent:
            if fate not in since and not fate.is_joined:
                fate.told.append(f"cannot be followed: bronze is trimmed up to cycle {behind}")
        if since:
            followed(topology, again(), done, since)
    for fate in told:
        if fate.results:
            fate.told.append(_made(fate.results))
    missed(topology, told)
    return told


def _refuse(topology: Topology, history: History, key: str | None, place: Place | None) -> NoReturn:
    what = f"with the key {key!r}, and no output a row of it" if place is None else written(place)
    message = f"bronze of {topology.name} holds no record {what}"
    if history.trim is not None:
        message += f"; it is trimmed: streams' records of cycles up to {history.trim.cycle} are gone, and of tables' "
        message += "all but the last ones"
    raise NoSuchRecord(message)


# --- what the tables say ---------------------------------------------------------------------------------------------


def _records(
    spark: SparkSession, ledger: Ledger, topology: Topology, key: str | None, place: Place | None
) -> list[Fate]:
    found: list[Fate] = []
    for source in topology.sources:
        if place is not None and place[0] != source.topic:
            continue
        if not (bronze := ledger.lake.bronze(ledger.pipeline, source.topic)).exists(spark):
            continue  # the source is new: no run has read it
        rows = bronze.read(spark)
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
    again: Callable[[], Results] | None,
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
        if (bronze := ledger.lake.bronze(ledger.pipeline, source.topic)).exists(spark):
            of_these = bronze.read(spark).where(any_of(told, F.col("topic")))
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
    rows = quarantined.standing(spark, ledger).where(any_of([fate.identity for fate in fates], F.col("topic")))
    known = {fate.identity: fate for fate in fates}
    for row in rows.orderBy("node", "code").collect():
        fate = known[row["topic"], row["partition"], row["offset"], row["attempt"]]
        fate.told.append(f"is in quarantine by {row['node']}: {row['code']}, {row['message']}")
        if row["state"] != replays.OPEN:
            why_so = f": {row['reason']}" if row["reason"] else ""
            fate.told.append(f"{_DECIDED[row['state']]} by request {row['request']}{why_so}")


def _stored(spark: SparkSession, ledger: Ledger, topology: Topology, fates: Sequence[Fate]) -> None:
    """What is in tables; an output that no run has written yet has nothing."""
    for sink in topology.sinks:
        if (output := ledger.lake.output(sink.name)).exists(spark):
            _results(sink.name, output.read(spark), fates)


def _results(output: str, rows: DataFrame, fates: Sequence[Fate]) -> None:
    known = {fate.identity: fate for fate in fates}
    # an aggregate's row has its trigger alone as contributor
    one = F.explode(F.array_distinct(places(F.col(LINEAGE)["contributors"]))).alias("place")
    of_these = rows.select(F.struct(*rows.columns).alias("row"), one).where(
        any_of([fate.identity for fate in fates], F.col("place.source"), "place.")
    )
    in_order = [F.col("row")[LINEAGE][name] for name in ("cycle", "trigger", "n")]
    # of each record the first ones: none is told to have no results because another one has many
    number = F.row_number().over(Window.partitionBy("place").orderBy(*in_order))
    told = of_these.withColumn("number", number).where(F.col("number") <= _MOST_RESULTS).orderBy("number")
    for found in told.collect():
        fate = known[tuple(found["place"])]
        fate.results.append({"output": output, **found["row"].asDict(recursive=True)})


def _sent(topology: Topology, results: Results, fates: Sequence[Fate]) -> None:
    """What went to topics: keys and values as text."""
    for sink in topology.kafka_sinks:
        text = [F.col(name).cast("string").alias(name) for name in ("key", "value")]
        _results(sink.name, results.outputs[sink.name].select(*text, EVENT_TIME, LINEAGE), fates)


def _made(results: Sequence[dict[str, Any]]) -> str:
    parts = []
    for row in results:
        lineage = row[LINEAGE]
        others = " + ".join(named(*(one[name] for name in COORDINATES)) for one in lineage["contributors"])
        parts.append(f"{row['output']}: {lineage['kind']} of {others}, cycle {lineage['cycle']}")
    return "gave " + "; ".join(parts)
