"""Judges what a pipeline expects, cycle by cycle: before anything of the cycle is published.

What is expected of single records of a source was counted while the records were read into bronze and planned; it costs
nothing here. What is expected of steps and outputs is counted over their rows, in one job for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import NO_TIME, Plan
from lakestreams.engine.state import bronze
from lakestreams.engine.state.bronze import planned_rows
from lakestreams.errors import ExpectationFailed
from lakestreams.evaluate.outputs import LINEAGE
from lakestreams.expectations import judging
from lakestreams.expectations.cycle_metrics import CycleMetrics, Expected
from lakestreams.expectations.judging import EXAMPLES, Dataset
from lakestreams.expectations.rules import Judged, RecordRules
from lakestreams.formats.json_text import exact_json
from lakestreams.operators.records import MATCHED, UNMATCHED
from lakestreams.topology.expectations import (
    OF_RECORDS,
    Invariant,
    MatchRate,
    OneKeyOnePartition,
    Rule,
    Skew,
    TimeSkew,
    UniqueKey,
)
from lakestreams.topology.graph import sources_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.node import Node
    from lakestreams.topology.topology import Topology

KEYS_NOT_NULL = "keys_not_null"
WRITTEN = " (written)"


@dataclass(frozen=True)
class Rate:
    """How many results of a join a cycle had: its clock in ms, and matched and unmatched ones."""

    clock_ms: int
    matched: int
    unmatched: int


@dataclass
class ExpectationChecker:
    """Judges the expectations of one pipeline.

    Attributes:
        ledger: of the running epoch.
        rules: what is judged of single records.
        rates: join to what its newest cycles had, ascending; as far back as its `MatchRate` looks.
    """

    spark: SparkSession
    ledger: Ledger
    topology: Topology
    rules: RecordRules
    rates: dict[str, list[Rate]] = field(default_factory=dict)

    # --- sources -----------------------------------------------------------------------------------------------------

    def recounted(self, plan: Plan) -> Plan:
        """The plan, with what is judged now counted where another configuration has planned it."""
        wanted = {source.topic: {one.id for one in self.rules.of(source)} for source in self.topology.sources}
        lacking = [
            part for part in plan.ranges if part.records and not wanted.get(part.topic, set()) <= part.failed.keys()
        ]
        if not lacking:
            return plan
        again = bronze.cut_below(
            self.spark, self.ledger, lacking, None, plan.seq_from, self.rules, self.topology.sources
        )
        counted = {part.at: replace(part, failed=again[part.at].failed) for part in lacking}
        return replace(plan, ranges=tuple(counted.get(part.at, part) for part in plan.ranges))

    def of_sources(self, plan: Plan) -> CycleMetrics:
        """Counts of the plan's records, with what is expected of them.

        Raises:
            ExpectationFailed: if something with the action `fail` is violated.
        """
        cycle_metrics = CycleMetrics()
        faults: list[str] = []
        for source in self.topology.sources:
            parts = plan.of(source.topic)
            own = cycle_metrics.of(source.name)
            own.rows_in = sum(part.records for part in parts)
            readable = own.rows_in - sum(part.bad for part in parts)
            if source.keys_not_null != "off":
                nulls = sum(part.null_keys for part in parts)
                own.expected.append(Expected(KEYS_NOT_NULL, source.keys_not_null, readable - nulls, nulls))
                if nulls and source.keys_not_null == "fail":
                    faults.append(self._fault(source, KEYS_NOT_NULL, nulls, readable, self._without_key(source, plan)))
            values = readable - sum(part.null_values for part in parts)
            for one in self.rules.of(source):
                failed = sum(part.failed.get(one.id, 0) for part in parts)
                of = values if isinstance(one.what, Rule) else readable
                own.expected.append(Expected(one.name, one.action, of - failed, failed))
                if failed and one.action == "fail":
                    faults.append(self._fault(source, one.name, failed, of, self._violating(source, one, plan)))
            for invariant in self.topology.expectations.invariants_of(source.name):
                if not isinstance(invariant, OF_RECORDS):
                    faults += self._of_source(source, invariant, plan, cycle_metrics)
        if faults:
            raise ExpectationFailed("\n".join(faults), where=f"cycle {plan.cycle}")
        return cycle_metrics

    def _of_source(self, source: Source, invariant: Invariant, plan: Plan, cycle_metrics: CycleMetrics) -> list[str]:
        parts = [part for part in plan.of(source.topic) if not part.of_replays]
        records = sum(part.records for part in parts)
        shown: list[str] = []
        checked = failed = 0
        if isinstance(invariant, Skew) and records >= invariant.records:
            heaviest = max(parts, key=lambda part: part.records)
            share = heaviest.records / records
            checked, failed = 1, int(share > invariant.at_most)
            shown = [f"partition {heaviest.partition} has {share:.1%} of {records} records"]
        if isinstance(invariant, OneKeyOnePartition) and records:
            checked, failed, shown = self._keys_in_two(source, invariant, plan)
        return self._note(source.name, invariant, checked, failed, shown, cycle_metrics)

    def _keys_in_two(self, source: Source, invariant: OneKeyOnePartition, plan: Plan) -> tuple[int, int, list[str]]:
        """How many of the cycle's keys there are, how many lie in two partitions, and which."""
        rows = self.ledger.lake.bronze(self.ledger.pipeline, source.topic).read(self.spark)
        # of every partition, also those without a record in this cycle; a replayed record lies in its own one
        ranges = {
            part.partition: (max(0, part.from_offset - invariant.look_back), part.from_offset)
            for part in plan.ranges
            if part.topic == source.topic and not part.of_replays
        }
        old = rows.where(bronze.within(ranges)).select("key", "partition", F.lit(False).alias("new"))
        new = planned_rows(self.spark, self.ledger, source, [plan], readable=False)
        both = new.select("key", "partition", F.lit(True).alias("new")).unionByName(old).where(F.col("key").isNotNull())
        keys = both.groupBy("key").agg(F.max("new").alias("new"), F.collect_set("partition").alias("partitions"))
        judged = keys.where("new").withColumn("wrong", F.size("partitions") > 1)
        text = F.concat(F.coalesce(F.try_validate_utf8(F.col("key").cast("string")), F.hex("key")), F.lit(" in partitions "),
                        F.array_join(F.array_sort("partitions"), ", "))  # fmt: skip
        (row,) = judged.agg(F.count("*").alias("checked"), F.count_if("wrong").alias("failed")).collect()
        if not row["failed"]:
            return row["checked"], 0, []
        shown = judged.where("wrong").select(text.alias("shown")).orderBy("shown").limit(EXAMPLES).collect()
        return row["checked"], row["failed"], [one["shown"] for one in shown]

    def _fault(self, source: Source, name: str, failed: int, checked: int, shown: Sequence[str]) -> str:
        lines = "".join(f"\n  {line}" for line in shown)
        return f'{name} of source "{source.name}": {failed} of {checked} records violate it{lines}'

    def _without_key(self, source: Source, plan: Plan) -> list[str]:
        rows = planned_rows(self.spark, self.ledger, source, [plan]).where(F.col("k").isNull())
        return self._shown(source, rows)

    def _violating(self, source: Source, judged: Judged, plan: Plan) -> list[str]:
        rows = planned_rows(self.spark, self.ledger, source, [plan])
        return self._shown(source, rows.where(self.rules.violated(source, judged)))

    @staticmethod
    def _shown(source: Source, rows: DataFrame) -> list[str]:
        row = exact_json(F.struct(F.col("k").alias("key"), F.col("v").alias("value")), nulls=True)
        examples = (
            rows.orderBy("partition", "offset").select("partition", "offset", F.substring(row, 1, 300)).limit(EXAMPLES)
        )
        return [f"{source.topic}-{one[0]}@{one[1]} {one[2]}" for one in examples.collect()]

    # --- steps and outputs -------------------------------------------------------------------------------------------

    def of_steps(
        self, judged: Mapping[str, Dataset], counting: Sequence[DataFrame], plan: Plan, cycle_metrics: CycleMetrics
    ) -> None:
        """Counts the rows of steps and outputs, with what is expected of them, in one job.

        Args:
            judged: of the cycle's evaluation.
            counting: what else is to be counted, as rows of `judging`.
            cycle_metrics: what is counted is noted there.

        Raises:
            ExpectationFailed: if something with the action `fail` is violated.
        """
        datasets = {name: self._with_earlier(one, plan) for name, one in judged.items()}
        frames = [*(judging.counted(one) for one in datasets.values()), *counting]
        rows = reduce(DataFrame.unionByName, frames).collect() if frames else []
        by_dataset = judging.as_dict(rows)
        faults: list[str] = []
        for name, counts in by_dataset.items():
            cycle_metrics.rows(name.removesuffix(WRITTEN), {key: checked for key, (checked, _) in counts.items()})
        for name, dataset in datasets.items():
            expected: list[Rule | Invariant] = [*dataset.rules, *dataset.invariants]
            for what in expected:
                if isinstance(what, MatchRate):
                    faults += self._match_rate(name, what, by_dataset[name], plan, cycle_metrics)
                elif isinstance(what, TimeSkew):
                    faults += self._time_skew(name, what, plan, cycle_metrics)
                elif what.name in by_dataset[name]:
                    checked, failed = by_dataset[name][what.name]
                    shown = judging.examples(dataset, what) if failed and what.action == "fail" else []
                    faults += self._note(name, what, checked, failed, shown, cycle_metrics)
        if faults:
            raise ExpectationFailed("\n".join(faults), where=f"cycle {plan.cycle}")

    def _with_earlier(self, dataset: Dataset, plan: Plan) -> Dataset:
        if not any(isinstance(one, UniqueKey) for one in dataset.invariants):
            return dataset
        table = self.ledger.lake.output(dataset.name)
        return replace(dataset, earlier=lambda: table.read(self.spark).where(F.col(LINEAGE)["cycle"] < plan.cycle))

    def _match_rate(
        self, name: str, what: MatchRate, counts: Mapping[str, tuple[int, int]], plan: Plan, cycle_metrics: CycleMetrics
    ) -> list[str]:
        own = self.rate(plan, {kind: counts[f"rows.{kind}"][0] for kind in (MATCHED, UNMATCHED)})
        span = [one for one in self.rates.get(name, []) if one.clock_ms > own.clock_ms - what.over_ms] + [own]
        matched, unmatched = sum(one.matched for one in span), sum(one.unmatched for one in span)
        if matched + unmatched < what.records:
            return self._note(name, what, 0, 0, [], cycle_metrics)
        rate = matched / (matched + unmatched)
        shown = [
            f"{rate:.1%} of {matched + unmatched} results over {what.over} are matched; expected {what.at_least:.1%}"
        ]
        return self._note(name, what, 1, int(rate < what.at_least), shown, cycle_metrics)

    @staticmethod
    def rate(plan: Plan, kinds: Mapping[str, int]) -> Rate:
        """What a cycle's results count for match rates."""
        return Rate(max(plan.clocks.values(), default=NO_TIME), kinds.get(MATCHED, 0), kinds.get(UNMATCHED, 0))

    def closed(self, plan: Plan, cycle_metrics: CycleMetrics) -> None:
        """Remembers a finished cycle's results, as far back as any match rate looks."""
        for name, what in self.topology.expectations.invariants:
            if isinstance(what, MatchRate):
                own = self.rate(plan, cycle_metrics.of(name).kinds)
                kept = self.rates.setdefault(name, [])
                kept[:] = [one for one in kept if one.clock_ms > own.clock_ms - what.over_ms] + [own]

    def _time_skew(self, name: str, what: TimeSkew, plan: Plan, cycle_metrics: CycleMetrics) -> list[str]:
        node = next(node for node in self.topology.nodes if node.name == name)
        sides = [self._reached(parent, plan) for parent in node.parents]
        if NO_TIME in sides:
            return self._note(name, what, 0, 0, [], cycle_metrics)
        skew = abs(sides[0] - sides[1])
        shown = [f"the sides' stream times lie {skew} ms apart: {sides[0]} and {sides[1]}"]
        return self._note(name, what, 1, int(skew > what.at_most_ms), shown, cycle_metrics)

    @staticmethod
    def _reached(node: Node, plan: Plan) -> int:
        topics = {source.topic for source in sources_of(node)}
        return max((part.stream_time_ms for part in plan.ranges if part.topic in topics), default=NO_TIME)

    @staticmethod
    def _note(
        name: str, what: Rule | Invariant, checked: int, failed: int, shown: Sequence[str], cycle_metrics: CycleMetrics
    ) -> list[str]:
        """Notes counts; the fault, if it is one that ends the run."""
        cycle_metrics.of(name).expected.append(Expected(what.name, what.action, checked - failed, failed))
        if not failed or what.action != "fail":
            return []
        lines = "".join(f"\n  {line}" for line in shown)
        return [f'{what.name} of "{name}": {failed} of {checked} violate it{lines}']
