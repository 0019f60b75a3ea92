"""Events: what a finished cycle did, node by node, as rows of the event log. Plain Python over ledger rows.

Names and nesting are those of Lakeflow's event log, so that a query over one works over the other: `flow_progress` with
`metrics` and `data_quality.expectations`, in `details`, which is a JSON text. What Lakeflow has no name for stands under
`lakestreams`, and in events of the type `cycle_progress`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lakestreams.expectations import log_columns
from lakestreams.expectations.cycle_metrics import CycleMetrics, NodeCounts
from lakestreams.operators.records import TOMBSTONE
from lakestreams.topology.kinds import DELTA_TOPIC

if TYPE_CHECKING:
    from lakestreams.engine.ledger.plans import Plan, Range
    from lakestreams.topology.node import Node
    from lakestreams.topology.topology import Topology

SCHEMA: Final = log_columns.SCHEMA
FLOW, CYCLE = "flow_progress", "cycle_progress"
_EXPECTATION: Final = "EXPECTATION"
# Events of one cycle are numbered within so many, so that numbers ascend over cycles.
_A_CYCLE: Final = 10_000


@dataclass(frozen=True)
class CycleSummary:
    """What the ledger says of a finished cycle.

    Attributes:
        cycle: its number.
        cycle_metrics: what was counted.
        seconds: wall time by stage.
        run_id: of the run that finished it.
        planned_at_ms, closed_at_ms: when.
    """

    cycle: int
    cycle_metrics: CycleMetrics
    seconds: Mapping[str, float]
    run_id: str
    planned_at_ms: int
    closed_at_ms: int

    def as_dict(self) -> dict[str, Any]:
        """For the ledger's JSON."""
        return {
            "cycle": self.cycle,
            "nodes": self.cycle_metrics.as_dict(),
            "seconds": {stage: round(s, 4) for stage, s in self.seconds.items()},
            "run_id": self.run_id,
            "planned_at_ms": self.planned_at_ms,
            "closed_at_ms": self.closed_at_ms,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CycleSummary:
        """What `as_dict` gave."""
        return cls(
            **{name: value for name, value in data.items() if name != "nodes"},
            cycle_metrics=CycleMetrics.from_dict(data["nodes"]),
        )


def of_cycle(topology: Topology, plan: Plan, summary: CycleSummary) -> list[dict[str, Any]]:
    """The events of a finished cycle: one a node, then one of the cycle; columns of `SCHEMA`, `timestamp` in ms."""
    parts = [*_flows(topology, summary), _cycle(topology, plan, summary)]
    common = {
        "pipeline": topology.name,
        "cycle": plan.cycle,
        "level": "METRICS",
        "timestamp": summary.closed_at_ms,
    }
    return [
        {
            **common,
            "id": f"{topology.name}/{plan.cycle}/{place}",
            "sequence": plan.cycle * _A_CYCLE + place,
            **one,
            "origin": json.dumps(one["origin"]),
            "details": json.dumps(one["details"]),
        }
        for place, one in enumerate(parts)
    ]


def _flows(topology: Topology, summary: CycleSummary) -> Iterator[dict[str, Any]]:
    for node in topology.nodes:
        own = summary.cycle_metrics.nodes.get(node.name, NodeCounts())
        yield {
            "event_type": FLOW,
            "maturity_level": "STABLE",
            "message": f"Completed cycle {summary.cycle} of {node.name}.",
            "origin": _origin(topology, summary) | {"flow_name": node.name, "dataset_name": node.name},
            "details": {FLOW: {"status": "COMPLETED"} | _quality(node, own) | {"lakestreams": _own(node, own)}},
        }


def _quality(node: Node, own: NodeCounts) -> dict[str, Any]:
    metrics: dict[str, int] = {}
    if own.rows_in is not None:
        metrics["num_input_rows"] = own.rows_in
    if own.rows is not None:
        metrics["num_output_rows"] = own.rows
    if node.upserts and own.rows is not None:
        deleted = own.kinds.get(TOMBSTONE, 0)
        metrics |= {"num_upserted_rows": own.rows - deleted, "num_deleted_rows": deleted}
    expectations = [
        {
            "name": one.name,
            "dataset": node.name,
            "passed_records": one.passed,
            "failed_records": one.failed,
            "action": one.action,
        }
        for one in own.expected
    ]
    dropped = own.quarantined.get(_EXPECTATION, 0)
    return {"metrics": metrics, "data_quality": {"dropped_records": dropped, "expectations": expectations}}


def _own(node: Node, own: NodeCounts) -> dict[str, Any]:
    details: dict[str, Any] = {
        "kind": node.word,
        "parents": [parent.name for parent in node.parents],
        "rows": own.kinds,
        "quarantined": own.quarantined,
    }
    if node.wait_bounds:
        details |= {**node.wait_bounds, "fates": own.fates}
    return details


def _cycle(topology: Topology, plan: Plan, summary: CycleSummary) -> dict[str, Any]:
    names = {source.topic: source.name for source in topology.sources}
    sources = [
        {
            "name": names.get(part.topic, part.topic),
            "topic": part.topic,
            "partition": part.partition,
            "from_offset": part.from_offset,
            "to_offset": part.to_offset,
            "end_offset": part.end_offset,
            "records": part.records,
            "bad": part.bad,
            "null_keys": part.null_keys,
            "stream_time_ms": part.stream_time_ms,
            "lag_records": _lag_records(part),
            "lag_ms": part.lag_ms,
            "lateness": list(part.lateness),
        }
        for part in plan.ranges
        if not part.of_replays
    ]
    return {
        "event_type": CYCLE,
        "maturity_level": "EVOLVING",
        "message": f"Finished cycle {plan.cycle} of {topology.name}.",
        "origin": _origin(topology, summary),
        "details": {
            CYCLE: {
                "cycle": plan.cycle,
                "records": sum(part.records for part in plan.ranges),
                "bad": sum(part.bad for part in plan.ranges),
                "replayed": sum(part.records for part in plan.ranges if part.of_replays),
                "planned_at_ms": summary.planned_at_ms,
                "closed_at_ms": summary.closed_at_ms,
                "seconds": dict(summary.seconds),
                "clocks": {str(task): clock for task, clock in sorted(plan.clocks.items())},
                "ticks": len(plan.ticks),
                "read_one_by_one": dict(plan.one_by_one),
                "sources": sources,
            }
        },
    }


def _lag_records(part: Range) -> int | None:
    """Records that were there and are not taken; of a Delta table, whose offsets count commits, only that there are none."""
    if part.end_offset is None:
        return None
    behind = max(0, part.end_offset - part.to_offset)
    return None if behind and part.topic.startswith(DELTA_TOPIC) else behind


def _origin(topology: Topology, summary: CycleSummary) -> dict[str, Any]:
    return {"pipeline_name": topology.name, "update_id": summary.run_id, "batch_id": summary.cycle}
