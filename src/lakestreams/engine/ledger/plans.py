"""What is decided, as plain values: ranges of topic-partitions, ingest batches, plans of cycles, a pipeline's history.

Plain Python without Spark. The rows that say them are written and read in `ledger`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakestreams.kafka.noted import Noted, TopicPartition
from lakestreams.operators import noted_homes
from lakestreams.operators.noted_homes import Homes

# Upper bounds, in ms, of the ranges by which lateness is counted; the last range has none.
LATENESS_MS = (0, 1_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000)
# The number of no partition: ranges of it are of a topic's replayed records, and count ingest batches, not offsets.
REPLAYED = -1
NO_TIME = -1  # a partition's stream time before its first usable record (Kafka Streams starts at -1)


def known_sum(counts: Sequence[int | None]) -> int | None:
    """The sum of counts that are all known; None if one is not."""
    known = [one for one in counts if one is not None]
    return sum(known) if len(known) == len(counts) else None


@dataclass(frozen=True)
class Range:
    """A range of one topic-partition, or of a topic's replayed records (decision 0020).

    Attributes:
        topic, partition: which one; ATTEMPTS: the replayed records of all partitions.
        from_offset, to_offset: the range, the end exclusive; of replayed records the ingest batches that hold them.
        end_offset: the topic's end as captured at the run's start (plans), or None.
        records, bad, null_keys, null_values: how many bronze rows it holds, how many of them could not be read, and
            how many readable ones have a null key or value.
        stream_time_ms: the running maximum event time at `to_offset`.
        lag_ms: how far a record's event time lies behind the maximum before it, at most; of a plan, behind any task's
            clock, as far as that is known.
        failed: what is judged of single records (`RecordRules`) to how many readable ones violate it; what was not
            judged is not there.
        lateness: how many readable records lie how far behind the stream time, by `LATENESS_MS`; empty: not counted.
        homes: by which partitioners its keys lie at home, and which keys do not; of a range that was cut, those of all of it.
            Known to the driver that appended the records, not to the ledger.
    """

    topic: str
    partition: int
    from_offset: int
    to_offset: int
    records: int = 0
    bad: int = 0
    null_keys: int = 0
    null_values: int = 0
    stream_time_ms: int = NO_TIME
    lag_ms: int = 0
    end_offset: int | None = None
    failed: Mapping[str, int] = field(default_factory=dict)
    lateness: tuple[int, ...] = ()
    homes: Homes = field(default_factory=dict, compare=False)

    def merged_with(self, other: Range) -> Range:
        """This range with the counts of another one before it."""
        both = self.failed.keys() & other.failed.keys() if self.records and other.records else None
        failed = other.failed if not self.records else self.failed
        if both is not None:  # what is counted of one alone is not counted of both
            failed = {name: self.failed[name] + other.failed[name] for name in both}
        pairs = zip(self.lateness, other.lateness, strict=False)
        return replace(
            self,
            from_offset=other.from_offset,
            records=self.records + other.records,
            bad=self.bad + other.bad,
            null_keys=self.null_keys + other.null_keys,
            null_values=self.null_values + other.null_values,
            lag_ms=max(self.lag_ms, other.lag_ms),
            failed=failed,
            lateness=tuple(a + b for a, b in pairs) or self.lateness or other.lateness,
            homes=noted_homes.of_all([one.homes for one in (self, other) if one.records]),
        )

    @property
    def at(self) -> TopicPartition:
        """The topic-partition."""
        return (self.topic, self.partition)

    @property
    def of_replays(self) -> bool:
        """Whether it is of replayed records."""
        return self.partition == REPLAYED


@dataclass(frozen=True)
class Ingest:
    """A complete bronze batch: rows with `seq_from <= seq <= seq` that no earlier batch holds.

    Attributes:
        seq, seq_from: the batch.
        ranges: one a topic-partition that is known.
        request: the last request for a replay that is ingested, this batch's or an earlier one's; 0: none was.
        mean_bytes: topic to the bytes of a record, in the last batch that had any and was weighed; a hint for the size of batches.
        pieces: topic-partition to counts of its records, a few thousand each. Each ends behind its last record. They are
            known to the driver that appended the batch, not to the ledger.
        one_by_one: topic to how many of its records were read by themselves (decision 0039), as far as it is known. To the
            ledger it is not: a driver that takes over has nothing to decide by it, and reports that it is unknown.
    """

    seq: int
    seq_from: int
    ranges: tuple[Range, ...]
    request: int = 0
    mean_bytes: Mapping[str, int] = field(default_factory=dict, compare=False)
    pieces: Mapping[TopicPartition, tuple[Range, ...]] = field(default_factory=dict, compare=False)
    one_by_one: Mapping[str, int | None] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Position:
    """Where a topic-partition stands in bronze."""

    offset: int
    stream_time_ms: int = NO_TIME


@dataclass(frozen=True)
class AppendedRange:
    """What bronze holds of one topic-partition past a sequence number; the same in pieces, where these are known."""

    range: Range
    seq: int
    ingest_time_ms: int
    pieces: tuple[Range, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class BronzeState:
    """Where bronze stands.

    Attributes:
        seq: the last batch's number.
        positions: of every topic-partition.
        request: the last one that was ingested.
        mean_bytes: topic to the bytes of a record, as far as it is known.
    """

    seq: int
    positions: Mapping[TopicPartition, Position]
    request: int = 0
    mean_bytes: Mapping[str, int] = field(default_factory=dict, compare=False)

    @classmethod
    def after(cls, ingests: Sequence[Ingest]) -> BronzeState:
        """After these batches, which must reach to the newest."""
        positions = {part.at: Position(part.to_offset, part.stream_time_ms) for one in ingests for part in one.ranges}
        if not ingests:
            return cls(0, positions)
        return cls(ingests[-1].seq, positions, ingests[-1].request, ingests[-1].mean_bytes)

    def offset(self, at: TopicPartition) -> int:
        """Up to where a partition is in bronze."""
        return self.positions[at].offset if at in self.positions else 0


@dataclass(frozen=True)
class Plan:
    """A cycle, written down before it is processed.

    Attributes:
        cycle: its number, ascending by one for ever.
        fingerprint: of topology and configuration, those that it is executed under.
        ranges: one a topic-partition of every source, empty ones too, so that one plan tells all positions.
        clocks: task to its clock after the cycle, ms.
        seq_from, seq: its bronze rows lie in these ingest batches.
        topic_ids: topic to Kafka's id for it, where it could be had.
        ticks: topic-partition to the time, ms, to which its task's clock moves on after the cycle's records; behind what
            waits, less that.
        taken_over: the epoch in which another configuration than it was made under took it over; 0: none did.
        one_by_one: of each topic with new batches, how many of their records were read by themselves; None: unknown. Nothing
            of it stands in the ledger, as of a batch.
    """

    cycle: int
    fingerprint: str
    ranges: tuple[Range, ...]
    clocks: Mapping[int, int]
    seq_from: int
    seq: int
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    ticks: Mapping[TopicPartition, int] = field(default_factory=dict)
    taken_over: int = 0
    one_by_one: Mapping[str, int | None] = field(default_factory=dict, compare=False)

    def of(self, topic: str) -> tuple[Range, ...]:
        """The topic's ranges that hold something."""
        return tuple(part for part in self.ranges if part.topic == topic and part.to_offset > part.from_offset)

    def records(self, topic: str) -> int:
        """How many bronze rows of a topic it takes."""
        return sum(part.records for part in self.of(topic))

    def ticks_of(self, topic: str) -> dict[int, int]:
        """Partition to the time to which its clock moves on."""
        return {partition: time for (name, partition), time in self.ticks.items() if name == topic}

    def touches(self, topic: str) -> bool:
        """Whether it takes records of a topic or moves one of its clocks."""
        return self.records(topic) > 0 or bool(self.ticks_of(topic))

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Where the next cycle begins."""
        return {part.at: part.to_offset for part in self.ranges}


@dataclass(frozen=True)
class KnownTable:
    """What the ledger knows of a table.

    Attributes:
        table_id: Delta's id of it.
        version: the newest one that a driver has seen when it took the pipeline over.
    """

    table_id: str
    version: int


@dataclass(frozen=True)
class StoredState:
    """Where what the nodes keep of the past lies.

    Attributes:
        cycle: the finished cycle as of which it is.
        fingerprint: of topology and configuration that kept it.
        slot: which of its two sets of tables.
        rows: how many rows the tables hold.
        frames: node and name of each frame.
        marked: whether the commits that wrote it say so, as those of older versions do not.
    """

    cycle: int
    fingerprint: str
    slot: str
    rows: int
    frames: tuple[tuple[str, str], ...]
    marked: bool = False

    @property
    def mark(self) -> str:
        """What the commits that wrote it carry."""
        return f"lakestreams state {self.cycle} {self.fingerprint}"


@dataclass(frozen=True)
class Accepted:
    """That the operator goes on from a finished cycle with a changed configuration.

    Attributes:
        cycle: the last one that was finished before.
        fingerprint: of the changed configuration.
        former: of that before; empty: what was accepted is of tables, not of the configuration.
        changes: in words, one a change.
        epoch, at_ms: of the run that was asked to.
    """

    cycle: int
    fingerprint: str
    former: str
    changes: tuple[str, ...]
    epoch: int = 0
    at_ms: int = 0


@dataclass(frozen=True)
class Claim:
    """Who has the pipeline, as the ledger tells.

    Attributes:
        run_id, epoch: of the run.
        began_ms: when it took the pipeline over, by its machine's clock.
        last_ms: when the ledger's newest row was written, by its writer's.
        interval_ms: how long the run waits between its rounds; 0: it has one round.
        configuration: the fingerprint of what it is configured by; "": it does not say.
        has_ended: whether it has said that it ended, behind all that it wrote.
    """

    run_id: str
    epoch: int
    began_ms: int
    last_ms: int
    interval_ms: int = 0
    configuration: str = ""
    has_ended: bool = False

    @property
    def waits(self) -> bool:
        """Whether the run waits for its next round, as far as the ledger tells."""
        return bool(self.interval_ms) and not self.has_ended


@dataclass(frozen=True)
class History:
    """What the ledger says of a pipeline at a driver's start."""

    epoch: int = 0
    ingest: Ingest | None = None
    plan: Plan | None = None
    done_cycle: int = 0
    semantics_of: Mapping[str, str] = field(default_factory=dict)  # fingerprint to that of what results follow from
    state: StoredState | None = None
    base: StoredState | None = None
    trim: Plan | None = None  # everything that the cycles up to it took, as one plan
    trimmed: Plan | None = None
    trimmed_streams: frozenset[str] = frozenset()  # topics of which nothing is left up to `trim`: read as streams
    maintenance: int = 0
    accepted: Accepted | None = None
    stopped: int = 0  # the cycle of which no topic was written, as whoever stopped says; 0: none
    claim: Claim | None = None
    noted: Noted = field(default_factory=Noted)  # the newest of topics that a claim, an ingest batch or a plan says
    tables: Mapping[str, KnownTable] = field(default_factory=dict)

    @property
    def open_plan(self) -> Plan | None:
        """A plan that was begun and not finished."""
        return self.plan if self.plan is not None and self.plan.cycle > self.done_cycle else None
