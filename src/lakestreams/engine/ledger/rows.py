"""The rows of the ledger: their columns, how values are written into them, and how they are read back as values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import Row, StructType

from lakestreams.engine.ledger.plans import Accepted, Claim, Ingest, KnownTable, Plan, Range, StoredState
from lakestreams.errors import LedgerInconsistent
from lakestreams.formats.writers import AVRO, SchemaName, Written
from lakestreams.kafka.noted import Noted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RANGE_TYPE = (
    "struct<topic: string, partition: int, from_offset: bigint, to_offset: bigint, end_offset: bigint, "
    "records: bigint, bad: bigint, null_keys: bigint, null_values: bigint, stream_time_ms: bigint, lag_ms: bigint>"
)
SCHEMA = (
    "pipeline string, kind string, epoch bigint, run_id string, cycle bigint, seq bigint, seq_from bigint, "
    "fingerprint string, written_at_ms bigint, "
    f"ranges array<{RANGE_TYPE}>, clocks array<struct<task: int, clock_ms: bigint>>, "
    "attempts array<struct<topic: string, partition: int, offset: bigint, attempt: int>>, "
    "topic_ids map<string, string>, options map<string, string>, config string, "
    "ticks array<struct<topic: string, partition: int, time_ms: bigint>>, details string"
)
# What of a range is reported in the JSON text `details`: numbers that later versions may add to without another schema.
_IN_DETAILS = ("failed", "lateness")
_UNWRITTEN = ("homes",)  # of a range
REQUEST, SEMANTICS, RESULTS, FORMER = "request", "meaning", "results", "former"
_EPOCH: Final = "epoch"
_TOPICS, _MEAN_BYTES = "topics", "mean_bytes"
MARKED = "marked"
SCHEMA_OF_ID: Final = "schema"  # the kind of rows that say what a registry has under an id
_TABLES = "tables"
_INTERVAL, _CONFIGURATION, _STREAMS = "interval_ms", "configuration", "streams"


def schema(spark: SparkSession) -> StructType:
    """The ledger's columns as a Spark type."""
    return spark.createDataFrame([], SCHEMA).schema


def frame_of(spark: SparkSession, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Rows as one literal, read by the optimiser: no Python data travels, no task but one writes."""
    text = F.from_json(F.lit(json.dumps(rows)), f"array<struct<{SCHEMA}>>")
    return spark.range(0, 1, 1, 1).select(F.inline(text))


def row_of(part: Range) -> dict[str, Any]:
    """An offset range as it is written; what is not written here is in the details."""
    return {name: value for name, value in asdict(part).items() if name not in (*_IN_DETAILS, *_UNWRITTEN)}


def schema_details(name: SchemaName, one: Written) -> str:
    """The details of a schema's row: the texts of Avro alone, of other kinds with the kind; and a GUID, which has no column."""
    if one.kind == AVRO and isinstance(name, int):
        return json.dumps(list(one.texts))
    return json.dumps({"kind": one.kind, "texts": list(one.texts)} | ({"guid": name} if isinstance(name, str) else {}))


def schema_of(number: int | None, details: str) -> tuple[SchemaName, Written]:
    """What such a row says: the schema's name, and the schema."""
    schema = json.loads(details)
    if isinstance(schema, list):
        return int(number or 0), Written(AVRO, tuple(schema))
    return schema.get("guid") or int(number or 0), Written(schema["kind"], tuple(schema["texts"]))


def clocks_of(plan: Plan) -> list[dict[str, int]]:
    """A plan's clocks as they are written."""
    return [{"task": task, "clock_ms": clock} for task, clock in sorted(plan.clocks.items())]


def details_of(
    ranges: Sequence[Range],
    summary: Mapping[str, Any] | None = None,
    noted: Noted | None = None,
    mean_bytes: Mapping[str, int] | None = None,
) -> str | None:
    """What columns do not say: of each range, in their order, of the cycle that a row closes, of topics and records."""
    details: dict[str, Any] = {}
    more = [{name: getattr(part, name) for name in _IN_DETAILS if getattr(part, name)} for part in ranges]
    if any(more):
        details["ranges"] = more
    if summary is not None:
        details["closes"] = summary
    if noted is not None and noted.details():
        details[_TOPICS] = noted.details()
    if mean_bytes:
        details[_MEAN_BYTES] = dict(mean_bytes)
    return json.dumps(details) if details else None


def _ranges(row: Row) -> tuple[Range, ...]:
    details = json.loads(row["details"] or "{}").get("ranges") or [{} for _ in row["ranges"]]
    return tuple(
        Range(**part.asDict(), failed=more.get("failed", {}), lateness=tuple(more.get("lateness", ())))
        for part, more in zip(row["ranges"], details, strict=True)
    )


def noted_in(rows: Mapping[str, Row]) -> Noted:
    """What the newest rows say of topics: the later one counts."""
    kinds = [kind for kind in (_EPOCH, "ingest", "plan") if kind in rows]
    if kinds[-2:] == ["ingest", "plan"] and rows["plan"]["seq"] < rows["ingest"]["seq"]:
        kinds[-2:] = ["plan", "ingest"]
    noted = Noted()
    for row in (rows[kind] for kind in kinds):
        details = json.loads(row["details"] or "{}").get(_TOPICS) or {}
        noted = noted.then(Noted.from_details(row["topic_ids"], details))
    return noted


def stored_state_in(row: Row) -> StoredState:
    """Where what nodes keep is stored."""
    options = row["options"]
    frames = tuple((node, name) for node, name in json.loads(options["frames"]))
    return StoredState(
        row["cycle"], row["fingerprint"], options["slot"], int(options["rows"]), frames, MARKED in options
    )


def tables_in(row: Row) -> dict[str, KnownTable]:
    """What a claim says of the tables."""
    tables = json.loads((row["options"] or {}).get(_TABLES) or "{}")
    return {key: KnownTable(*known) for key, known in tables.items()}


def tables_option(tables: Mapping[str, KnownTable]) -> dict[str, str]:
    """What a claim says of the tables, as an option of it."""
    return {_TABLES: json.dumps({key: (one.table_id, one.version) for key, one in sorted(tables.items())})}


def accepted_in(row: Row) -> Accepted:
    """What an operator has accepted."""
    former = (row["options"] or {}).get(FORMER, "")
    changes = tuple(json.loads(row["details"] or "{}").get("changes", ()))
    return Accepted(row["cycle"], row["fingerprint"], former, changes, row["epoch"], row["written_at_ms"])


def stopped_in(stopped: Row | None, publishing: Row | None) -> int:
    """The cycle that was stopped last, unless somebody has begun to write its topics since."""
    if stopped is None or (publishing is not None and publishing["cycle"] >= stopped["cycle"]):
        return 0
    return int(stopped["cycle"])


def interval_option(interval_ms: int | None) -> dict[str, str]:
    """What a claim says of a run that waits between rounds, as an option of it."""
    return {} if interval_ms is None else {_INTERVAL: str(interval_ms)}


def configuration_option(fingerprint: str) -> dict[str, str]:
    """What a claim says of the run's configuration, as an option of it."""
    return {_CONFIGURATION: fingerprint}


def streams_option(topics: Iterable[str]) -> dict[str, str]:
    """What a trim says of topics of which nothing stays, as an option of it."""
    named = sorted(topics)
    return {_STREAMS: json.dumps(named)} if named else {}


def streams_in(row: Row) -> frozenset[str]:
    """Of which topics nothing stayed."""
    return frozenset(json.loads((row["options"] or {}).get(_STREAMS, "[]")))


def claim_in(row: Row, last_ms: int, ended: Row | None = None) -> Claim:
    """A claim, with the time of the ledger's newest row; `ended` is the newest row that says that a run has ended."""
    interval = int((row["options"] or {}).get(_INTERVAL, 0))
    configuration = (row["options"] or {}).get(_CONFIGURATION, "")
    has_ended = ended is not None and ended["epoch"] == row["epoch"]
    return Claim(row["run_id"], row["epoch"], row["written_at_ms"], last_ms, interval, configuration, has_ended)


def ingest_in(row: Row) -> Ingest:
    """A closed bronze batch."""
    request = int((row["options"] or {}).get(REQUEST, 0))
    mean_bytes = json.loads(row["details"] or "{}").get(_MEAN_BYTES, {})
    return Ingest(row["seq"], row["seq_from"], _ranges(row), request, mean_bytes)


def configured() -> dict[str, Column]:
    """`meaning`: of a row about a configuration the fingerprint of what results follow from."""
    # rows of older versions do not have it, and are rewritten
    return {SEMANTICS: F.when(F.col("kind") == "config", F.try_element_at("options", F.lit(SEMANTICS)))}


def plan_in(row: Row, taken: Row | None = None) -> Plan:
    """A plan, as it is executed: another configuration than planned it may have taken it over."""
    if row["fingerprint"] is None or row["ranges"] is None:
        message = f"plan {row['cycle']} has no ranges or fingerprint"
        raise LedgerInconsistent(message)
    took = taken if taken is not None and taken["cycle"] == row["cycle"] else None
    return Plan(
        cycle=row["cycle"],
        fingerprint=row["fingerprint"] if took is None else took["fingerprint"],
        ranges=_ranges(row),
        clocks={one["task"]: one["clock_ms"] for one in row["clocks"] or ()},
        seq_from=row["seq_from"],
        seq=row["seq"],
        topic_ids=dict(row["topic_ids"] or {}),
        ticks={(one["topic"], one["partition"]): one["time_ms"] for one in row["ticks"] or ()},
        taken_over=0 if took is None else took["epoch"],
    )
