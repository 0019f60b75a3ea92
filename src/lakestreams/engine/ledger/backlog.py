"""What is in bronze and in no plan yet: the offset ranges that the next cycle may take. Plain Python over ledger rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakestreams.engine.ledger.pieces import Piece
from lakestreams.engine.ledger.plans import Ingest, Plan, Range, known_sum
from lakestreams.kafka.noted import TopicPartition


@dataclass(frozen=True)
class Backlog:
    """What is in bronze and not yet in a plan.

    Attributes:
        plan: the last plan, or None before the first.
        ingests: complete batches that may hold unplanned rows, ascending.
        judged: topic to what is judged of its records, by id.
    """

    plan: Plan | None
    ingests: tuple[Ingest, ...]
    judged: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def seq_from(self) -> int:
        """The first batch that can hold unplanned rows."""
        return min((ingest.seq_from for ingest in self.open_ingests()), default=0)

    def stream_times(self) -> dict[TopicPartition, int]:
        """The partitions' stream times behind the last plan."""
        return {part.at: part.stream_time_ms for part in (self.plan.ranges if self.plan else ())}

    def open_ingests(self) -> tuple[Ingest, ...]:
        """The batches that the last plan has not emptied."""
        planned = self.plan.positions if self.plan else {}
        return tuple(
            ingest
            for ingest in self.ingests
            if any(part.to_offset > planned.get(part.at, part.from_offset) for part in ingest.ranges)
        )

    def open_ranges(self) -> tuple[dict[TopicPartition, Range], set[TopicPartition]]:
        """Per topic-partition one range: everything ingested and not planned, but for replayed records.

        Returns:
            The ranges with their counts, and those to be counted again: a plan has cut a batch, or what is judged
            has changed since.
        """
        ranges = {
            part.at: Range(*part.at, part.to_offset, part.to_offset, stream_time_ms=part.stream_time_ms)
            for part in (self.plan.ranges if self.plan else ())
            if not part.of_replays
        }
        cut: set[TopicPartition] = set()
        for ingest in self.ingests:
            for part in (one for one in ingest.ranges if not one.of_replays):
                before = ranges.get(part.at)
                if before is None:
                    ranges[part.at] = part
                elif part.to_offset > before.to_offset:
                    if part.from_offset < before.to_offset:
                        cut.add(part.at)
                    ranges[part.at] = part.merged_with(before)
        cut.update(part.at for part in ranges.values() if part.records and not self.is_judged(part))
        return ranges, cut

    def pieces(self) -> dict[TopicPartition, list[Piece]]:
        """The records of each topic-partition in the finest parts of which counts are known, ascending."""
        found: dict[TopicPartition, list[Piece]] = {}
        for ingest in self.ingests:
            for part in ingest.ranges:
                if part.records and not part.of_replays:
                    # a batch may end behind its last record, a piece never does
                    whole = Piece(part, to_its_end=part.records == part.to_offset - part.from_offset)
                    own = [Piece(one, to_its_end=True) for one in ingest.pieces.get(part.at, ())]
                    found.setdefault(part.at, []).extend(own or [whole])
        return found

    def again(
        self, frontier: int | None, whole: frozenset[str]
    ) -> tuple[dict[TopicPartition, Range], dict[TopicPartition, int]]:
        """The replayed records that may be planned: whole batches, in their order, up to the first that reaches the frontier.

        They hold nothing back, and are held back like any others: else they would move clocks past records that wait.

        Args:
            frontier: the stream time that they must lie below; None: any.
            whole: topics that know no frontier.

        Returns:
            A range a topic that has any, and the stream times to which they move the partitions that they are of.
        """
        ranges = {
            part.at: Range(*part.at, part.to_offset, part.to_offset, stream_time_ms=part.stream_time_ms)
            for part in (self.plan.ranges if self.plan else ())
            if part.of_replays
        }
        moved: dict[TopicPartition, int] = {}
        held_back: set[str] = set()
        for ingest in self.ingests:
            for part in (one for one in ingest.ranges if one.of_replays):
                before = ranges.setdefault(part.at, Range(*part.at, part.from_offset, part.from_offset))
                if part.to_offset <= before.to_offset or part.topic in held_back:
                    continue
                below = None if part.topic in whole else frontier
                if below is not None and part.stream_time_ms >= below:
                    held_back.add(part.topic)
                    continue
                reached = max(before.stream_time_ms, part.stream_time_ms)
                ranges[part.at] = replace(part.merged_with(before), stream_time_ms=reached)
                # where a partition stands below the frontier, all that it had up to this batch is planned
                stands = {one.at: one.stream_time_ms for one in ingest.ranges if one.topic == part.topic}
                moved |= {at: time for at, time in stands.items() if below is None or time < below}
        return ranges, moved

    def one_by_one(self) -> dict[str, int | None]:
        """Of each topic with batches that no plan knew, how many of their records were read by themselves; None: unknown.

        Of whole batches, since it is not known on which side of a cut such records lie.
        """
        found: dict[str, list[int | None]] = {}
        for ingest in self.ingests:
            if self.plan is None or ingest.seq > self.plan.seq:
                for topic in {part.topic for part in ingest.ranges if part.records and not part.of_replays}:
                    found.setdefault(topic, []).append(ingest.one_by_one.get(topic))
        return {topic: known_sum(counts) for topic, counts in sorted(found.items())}

    def is_judged(self, part: Range) -> bool:
        """Whether all is counted of a range that is judged now; what an earlier configuration judged is not enough."""
        return self.judged.get(part.topic, frozenset()) <= part.failed.keys()
