"""What the ledger says: read by drivers, and by whoever looks at a pipeline without running it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.plans import Accepted, Claim, History, Ingest, Plan
from lakestreams.engine.ledger.rows import (
    RESULTS,
    SCHEMA_OF_ID,
    SEMANTICS,
    accepted_in,
    claim_in,
    configured,
    ingest_in,
    noted_in,
    plan_in,
    schema,
    schema_of,
    stopped_in,
    stored_state_in,
    streams_in,
    tables_in,
)
from lakestreams.engine.protocol import decisions
from lakestreams.engine.publish.events import CycleSummary
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.runtime.table import Table
from lakestreams.errors import LakestreamsError, LedgerInconsistent
from lakestreams.formats.writers import SchemaName, Written
from lakestreams.kafka.noted import TopicPartition
from lakestreams.spark import holds_any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

_PROPERTIES = {"delta.dataSkippingStatsColumns": "pipeline,kind,epoch,cycle,seq"}
_PLACE: Final = ("epoch", "cycle", "seq")
"""What tells which row of a kind is the newest; the latter ones are null where a kind has none."""
_MANY_NEWEST: Final = ("config", "loss", SCHEMA_OF_ID)
"""Kinds of which no single row counts."""


@dataclass(frozen=True)
class LedgerReader:
    """One pipeline's rows of the ledger, as values.

    Attributes:
        lake: where it lies.
        pipeline: whose rows.
    """

    lake: Lake
    pipeline: str

    @property
    def table(self) -> Table:
        """The Delta table; shared by the pipelines of a lake."""
        return self.lake.control("ledger")

    def create(self, spark: SparkSession) -> bool:
        """Creates the table unless it is there: whether it was not."""
        return self.table.create(spark, schema(spark), properties=_PROPERTIES, grows=True, lenient=True)

    def rows(self, spark: SparkSession) -> DataFrame:
        """The pipeline's rows.

        Raises:
            LedgerInconsistent: if the table is no ledger.
        """
        every = self.table.read(spark)
        try:
            return every.where(F.col("pipeline") == self.pipeline)
        except AnalysisException as error:
            raise _no_ledger(self.table) from error

    def history(self, spark: SparkSession) -> History:
        """The newest row of each kind; the result does not grow with the ledger.

        First a look at a few narrow columns of all rows says where these are: a pipeline that runs each minute has a million rows a
        year. No row ever changes or goes, so those places hold whatever is appended in between.
        """
        own = self.rows(spark).drop("config")  # its text may be long, and is not asked for
        latest = own.groupBy("kind").agg(F.max(F.struct(*_PLACE)).alias("at"), F.max("written_at_ms")).collect()
        places = {kind: (at, last_ms) for kind, at, last_ms in latest}
        wanted = [_is_at(kind, at) for kind, (at, _) in places.items() if kind not in _MANY_NEWEST]
        found = (
            own.where(holds_any([*wanted, F.col("kind") == "config"])).withColumns(configured()).collect()
            if places
            else []
        )
        rows = {row["kind"]: row for row in found}
        epoch = rows["epoch"]["epoch"] if "epoch" in rows else 0
        return History(
            epoch=epoch,
            ingest=ingest_in(rows["ingest"]) if "ingest" in rows else None,
            plan=plan_in(rows["plan"], rows.get("taken")) if "plan" in rows else None,
            done_cycle=decisions.done_cycle(*(rows[kind]["cycle"] if kind in rows else 0 for kind in ("done", "plan"))),
            semantics_of={row["fingerprint"]: row[SEMANTICS] for row in found if row[SEMANTICS]},
            state=stored_state_in(rows["state"]) if "state" in rows else None,
            base=stored_state_in(rows["base"]) if "base" in rows else None,
            trim=plan_in(rows["trim"]) if "trim" in rows else None,
            trimmed=plan_in(rows["trimmed"]) if "trimmed" in rows else None,
            trimmed_streams=streams_in(rows["trim"]) if "trim" in rows else frozenset(),
            maintenance=rows["maintain"]["epoch"] if "maintain" in rows else 0,
            accepted=accepted_in(rows["accepted"]) if "accepted" in rows else None,
            stopped=stopped_in(rows.get("stopped"), rows.get("publishing")),
            claim=claim_in(rows["epoch"], max(last_ms for _, last_ms in places.values()), rows.get("ended"))
            if "epoch" in rows
            else None,
            noted=noted_in(rows),
            tables=tables_in(rows["epoch"]) if "epoch" in rows else {},
        )

    def claimed(self, spark: SparkSession) -> Claim | None:
        """Who has the pipeline now; None if nobody ever had."""
        own = self.rows(spark).where(F.col("kind") == "epoch")
        rows = own.orderBy(F.desc("epoch")).limit(1).collect()
        return claim_in(rows[0], rows[0]["written_at_ms"]) if rows else None

    def require_run(
        self, spark: SparkSession, refusal: type[LakestreamsError], named_by: str = "--root or --catalog"
    ) -> None:
        """Refuses a pipeline that has never run in the lake, so that no table is looked for in vain.

        Args:
            spark: the session.
            refusal: how it is refused.
            named_by: how whoever asks names a lake.

        Raises:
            LakestreamsError: of the given kind.
        """
        if not self.table.exists(spark) or self.claimed(spark) is None:
            message = f"pipeline {self.pipeline} has never run in {self.lake.catalog or self.lake.root}"
            raise refusal(message, f"run the pipeline first, or name its lake with {named_by}")

    def ingests(self, spark: SparkSession, seq_from: int) -> list[Ingest]:
        """Ingest batches from one on, ascending; rows at the growing end only."""
        rows = self.rows(spark).where((F.col("kind") == "ingest") & (F.col("seq") >= seq_from)).orderBy("seq").collect()
        return [ingest_in(row) for row in rows]

    def plans(
        self, spark: SparkSession, cycle_from: int, topics: Sequence[str] | None = None, below: int | None = None
    ) -> list[Plan]:
        """Plans from a cycle on, `below` another, that take records of one of these topics, or of any, or move its clocks."""

        def wanted_one(topic: Column) -> Column:
            return F.lit(True) if topics is None else topic.isin(*topics)

        of_these = F.exists("ranges", lambda part: wanted_one(part["topic"]) & (part["records"] > 0))
        of_these |= F.coalesce(F.exists("ticks", lambda one: wanted_one(one["topic"])), F.lit(False))
        wanted = (F.col("kind") == "taken") | ((F.col("kind") == "plan") & of_these)
        since = F.col("cycle") >= cycle_from
        own = since if below is None else since & (F.col("cycle") < below)
        rows = self.rows(spark).where(wanted & own).orderBy("cycle", "epoch").collect()
        taken = {row["cycle"]: row for row in rows if row["kind"] == "taken"}
        return [plan_in(row, taken.get(row["cycle"])) for row in rows if row["kind"] == "plan"]

    def plans_behind(self, spark: SparkSession, cycles: Mapping[str, int]) -> list[Plan]:
        """Plans that take records of a topic behind the cycle that is given for it, ascending; at least one topic."""

        def behind(topic: str, cycle: int) -> Column:
            of_it = F.exists("ranges", lambda part: (part["topic"] == topic) & (part["records"] > 0))
            return (F.col("cycle") > cycle) & of_it

        # the least of them by itself, so that Delta skips the files before it
        newer = (F.col("kind") == "plan") & (F.col("cycle") > min(cycles.values()))
        wanted = holds_any(behind(*one) for one in cycles.items())
        return [plan_in(row) for row in self.rows(spark).where(newer & wanted).orderBy("cycle").collect()]

    def summaries(self, spark: SparkSession, cycle_from: int, newest: int) -> list[CycleSummary]:
        """What is reported of finished cycles from one on, ascending: of the newest ones, if there are more."""
        return self._summaries(self._reported(spark, cycle_from).orderBy(F.desc("cycle")).limit(newest), cycle_from)

    def summaries_below(self, spark: SparkSession, cycle_from: int, below: int) -> list[CycleSummary]:
        """What is reported of all finished cycles from one on, below another, ascending."""
        rows = self._reported(spark, cycle_from).where(F.col("cycle") <= below)  # a plan closes the cycle before
        return [one for one in self._summaries(rows, cycle_from) if one.cycle < below]

    def _reported(self, spark: SparkSession, cycle_from: int) -> DataFrame:
        closes = F.get_json_object("details", "$.closes")
        wanted = F.col("kind").isin("plan", "done") & (F.col("cycle") >= cycle_from) & closes.isNotNull()
        return self.rows(spark).where(wanted).select("cycle", closes.alias("closes"))

    @staticmethod
    def _summaries(rows: DataFrame, cycle_from: int) -> list[CycleSummary]:
        closed = [CycleSummary.from_dict(json.loads(row["closes"])) for row in rows.collect()]
        return sorted((one for one in closed if one.cycle >= cycle_from), key=lambda one: one.cycle)

    def arrivals(self, spark: SparkSession, since_ms: int) -> dict[TopicPartition, int]:
        """When the last records of each topic-partition were ingested, ms, of those that had any since then."""
        rows = (
            self.rows(spark)
            .where((F.col("kind") == "ingest") & (F.col("written_at_ms") >= since_ms))
            .select("written_at_ms", F.explode("ranges").alias("part"))
            .where(F.col("part.records") > 0)
            .groupBy("part.topic", "part.partition")
            .agg(F.max("written_at_ms").alias("at"))
            .collect()
        )
        return {(row["topic"], row["partition"]): row["at"] for row in rows}

    def losses(self, spark: SparkSession) -> dict[TopicPartition, int]:
        """Up to where the records of each partition expired unread, as the operator has accepted."""
        rows = (
            self.rows(spark)
            .where(F.col("kind") == "loss")
            .select(F.explode("ranges").alias("part"))
            .groupBy("part.topic", "part.partition")
            .agg(F.max("part.to_offset").alias("to_offset"))
            .collect()
        )
        return {(row["topic"], row["partition"]): row["to_offset"] for row in rows}

    def configuration(self, spark: SparkSession, fingerprint: str) -> str:
        """The full text of topology and configuration that a fingerprint stands for; empty if it is not known."""
        own = self.rows(spark).where((F.col("kind") == "config") & (F.col("fingerprint") == fingerprint))
        row = own.select("config").first()
        return str(row["config"]) if row is not None else ""

    def results(self, spark: SparkSession, fingerprint: str) -> str:
        """What results follow from under a fingerprint (`Configuration.results`); empty if it is not known."""
        own = self.rows(spark).where((F.col("kind") == "config") & (F.col("fingerprint") == fingerprint))
        rows = own.select(F.try_element_at("options", F.lit(RESULTS)).alias("results")).collect()
        return next((str(row["results"]) for row in rows if row["results"]), "")

    def executed_under(self, spark: SparkSession, cycle: int) -> str:
        """The fingerprint that a cycle was executed under; empty: there is no such cycle."""
        own = (F.col("cycle") == cycle) & F.col("kind").isin("plan", "taken")
        rows = self.rows(spark).where(own).select("kind", "fingerprint").orderBy("epoch").collect()
        # `taken` behind `plan`: whoever took it over last has executed it
        return next(
            (row["fingerprint"] for kind in ("taken", "plan") for row in reversed(rows) if row["kind"] == kind), ""
        )

    def acceptances(self, spark: SparkSession) -> list[Accepted]:
        """What was accepted, ascending."""
        rows = self.rows(spark).where(F.col("kind") == "accepted").orderBy("cycle", "epoch").collect()
        return [accepted_in(row) for row in rows]

    def schemas(self, spark: SparkSession) -> dict[SchemaName, Written]:
        """The writers' schemas by their ids or GUIDs."""
        rows = self.rows(spark).where(F.col("kind") == SCHEMA_OF_ID).select("seq", "details").collect()
        return dict(schema_of(row["seq"], row["details"]) for row in rows)

    def ingested_before(self, spark: SparkSession, moment_ms: int) -> int:
        """The last batch that was closed up to a moment; 0 if there is none."""
        closed = self.rows(spark).where((F.col("kind") == "ingest") & (F.col("written_at_ms") <= moment_ms))
        row = closed.agg(F.max("seq")).first()
        return int(row[0]) if row is not None and row[0] is not None else 0


def _is_at(kind: str, place: Row) -> Column:
    """Of the row of a kind at its place; compared with plain numbers, so that Delta skips files by them."""
    same = [F.col(name).isNull() if place[name] is None else F.col(name) == place[name] for name in _PLACE]
    return (F.col("kind") == kind) & same[0] & same[1] & same[2]


def pipelines(spark: SparkSession, lake: Lake) -> list[str]:
    """Every pipeline that has ever run in a lake.

    Raises:
        LedgerInconsistent: if its ledger is no ledger.
    """
    table = lake.control("ledger")
    if not table.exists(spark):
        return []
    every = table.read(spark)
    try:
        claims = every.where("kind = 'epoch'").select("pipeline")
    except AnalysisException as error:
        raise _no_ledger(table) from error
    return [row["pipeline"] for row in claims.distinct().orderBy("pipeline").collect()]


def _no_ledger(table: Table) -> LedgerInconsistent:
    message = f"{table.name} is no ledger: it lacks a ledger's columns"
    hint = "restore the ledger, or use another lake (--root or --catalog)"
    return LedgerInconsistent(message, hint=hint, where=table.path or table.reference)
