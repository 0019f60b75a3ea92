"""How far a pipeline's records are in bronze, as its driver knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakestreams.engine.ledger.backlog import Backlog
from lakestreams.engine.ledger.plans import BronzeState, Ingest, Plan

if TYPE_CHECKING:
    from lakestreams.engine.ledger.last_cycle import LastCycle
    from lakestreams.kafka.noted import Noted, TopicPartition


@dataclass
class BronzePosition:
    """Where bronze stands, and what of it no cycle has taken.

    Attributes:
        last_cycle: its plan says what cycles have taken.
        noted: what was last seen of the topics, by which they are distinguished from others of the same name.
        batches: complete ones that may hold unplanned rows, ascending; the newest says where bronze stands.
        lost: up to where expired records were accepted as lost.
        arrived: when the last records of a partition were ingested, ms.
    """

    last_cycle: LastCycle
    noted: Noted
    batches: list[Ingest] = field(default_factory=list)
    lost: dict[TopicPartition, int] = field(default_factory=dict)
    arrived: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def state(self) -> BronzeState:
        """Behind the newest batch."""
        return BronzeState.after(self.batches)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Up to where partitions are read: by the newest batch, or by what the last plan took."""
        plan = self.last_cycle.plan
        positions = dict(plan.positions) if plan else {}
        for one in self.batches:
            for part in one.ranges:
                positions[part.at] = max(positions.get(part.at, 0), part.to_offset)
        for at, lost in self.lost.items():
            if at in positions:
                positions[at] = max(positions[at], lost)
        return positions

    @property
    def unplanned(self) -> list[Ingest]:
        """Batches that no cycle has taken records of."""
        plan = self.last_cycle.plan
        return [one for one in self.batches if plan is None or one.seq > plan.seq]

    def add(self, batch: Ingest, now_ms: int) -> None:
        """A batch is complete."""
        self.batches.append(batch)
        self.arrived |= {part.at: now_ms for part in batch.ranges if part.records}

    def planned(self, plan: Plan) -> None:
        """A plan has taken records: what it has emptied is not needed any more, but for the newest batch."""
        self.batches = list(Backlog(plan, tuple(self.batches)).open_ingests()) or self.batches[-1:]


__all__ = ["BronzePosition"]
