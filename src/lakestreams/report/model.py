"""What a report tells, as plain values. A number that is not in the event log is None, which is not 0: nobody has counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

LATENESS: Final = ("on time", "≤ 1 s", "≤ 10 s", "≤ 1 min", "≤ 10 min", "≤ 1 h", "≤ 1 day", "more")
"""What the numbers of `lateness` stand for: how far behind its partition's stream time a record was."""

_STAGES: Final = ("ingest", "settle", "join")
_SOURCES = frozenset(("stream", "table", "global_table"))


@dataclass(frozen=True)
class Flow:
    """What went through one node: in one cycle, or in all of them.

    Attributes:
        name: the node's.
        kind: such as `stream`, `left_join`, `to_delta`; of several cycles the newest one's.
        rows_in, rows_out: rows.
        matched, unmatched: of a join, rows out with and without a partner.
        dropped: rows that an expectation took out.
        quarantined: rows by reason.
        failed: whether it has not ended well.
    """

    name: str
    kind: str = ""
    rows_in: int | None = None
    rows_out: int | None = None
    matched: int | None = None
    unmatched: int | None = None
    dropped: int | None = None
    quarantined: Mapping[str, int] = field(default_factory=dict)
    failed: bool = False

    @property
    def is_source(self) -> bool:
        """Whether records come in here."""
        return self.kind in _SOURCES

    @property
    def is_output(self) -> bool:
        """Whether rows are written here."""
        return self.kind.startswith("to_") and self.kind not in ("to_table", "to_stream")

    @property
    def match_rate(self) -> float | None:
        """Of the rows of a join that tells apart what found no partner, the share that found one."""
        if not self.kind.endswith("join") or self.matched is None or self.unmatched is None:
            return None
        if self.kind == "join" and not self.unmatched:  # an inner join has no row for what found none
            return None
        both = self.matched + self.unmatched
        return self.matched / both if both else None


@dataclass(frozen=True)
class Expectation:
    """How often an expectation held; `last_broken` is the newest cycle in which it did not."""

    dataset: str
    name: str
    action: str
    passed: int | None = None
    failed: int | None = None
    last_broken: int | None = None

    @property
    def share(self) -> float | None:
        """Of the records that were looked at, how many passed."""
        if self.passed is None or self.failed is None or not self.passed + self.failed:
            return None
        return self.passed / (self.passed + self.failed)


@dataclass(frozen=True)
class Example:
    """A record in quarantine: where it lies, why; `key` and `value` only if they were asked for."""

    place: str
    cycle: int | None
    message: str
    rules: tuple[str, ...] = ()
    key: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class Quarantined:
    """The records that one node refused for one reason, with the newest of them."""

    node: str
    code: str
    records: int
    first_cycle: int | None = None
    last_cycle: int | None = None
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True)
class Cycle:
    """One cycle.

    Attributes:
        number: its own.
        planned_at_ms, closed_at_ms: when, ms since 1970 (UTC).
        records, bad: records that it took, and how many of them could not be read.
        seconds: by stage.
        lag: by source, records that were on the broker and not yet taken.
        lateness: by source, records by how late they were (see `LATENESS`).
        flows: by node.
    """

    number: int
    planned_at_ms: int | None = None
    closed_at_ms: int | None = None
    records: int | None = None
    bad: int | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    lag: Mapping[str, int | None] = field(default_factory=dict)
    lateness: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    flows: Mapping[str, Flow] = field(default_factory=dict)

    @property
    def took_s(self) -> float | None:
        """Seconds of all stages; where they are not reported, those between plan and end."""
        if self.seconds:
            return sum(self.seconds.values())
        if self.planned_at_ms is None or self.closed_at_ms is None:
            return None
        return max(0, self.closed_at_ms - self.planned_at_ms) / 1_000

    @property
    def records_per_second(self) -> float | None:
        """Records over the seconds that they took."""
        took = self.took_s
        return self.records / took if self.records is not None and took else None

    @property
    def written(self) -> int | None:
        """Rows that went into outputs."""
        return total(flow.rows_in if flow.rows_out is None else flow.rows_out for flow in self._outputs())

    @property
    def quarantined(self) -> Mapping[str, int]:
        """Records that went to quarantine, by reason."""
        return summed(flow.quarantined for flow in self.flows.values())

    @property
    def lag_records(self) -> int | None:
        """Records that were on the broker and not yet taken; None if that is not known of every source."""
        return None if not self.lag or None in self.lag.values() else total(self.lag.values())

    def _outputs(self) -> Iterator[Flow]:
        return (flow for flow in self.flows.values() if flow.is_output)


@dataclass(frozen=True)
class Report:
    """What is reported of a pipeline.

    Attributes:
        pipeline: its name.
        cycles: in their order.
        flows: what went through each node in all of these cycles; sources first, outputs last.
        expectations: by dataset, in the order of the log.
        quarantine: most records first; None if the table was not looked at.
        unread: events that make no sense.
        open_cycle: the cycle that is planned and not finished, of which nothing here is; None: there is none.
    """

    pipeline: str
    cycles: tuple[Cycle, ...] = ()
    flows: tuple[Flow, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    quarantine: tuple[Quarantined, ...] | None = None
    unread: int = 0
    open_cycle: int | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources' names in the order of their first cycle: the order of their colours."""
        return tuple(dict.fromkeys(name for one in self.cycles for name in (*one.lag, *one.lateness)))

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages' names, in the order in which a cycle has them; those without a known place come last."""
        known = dict.fromkeys(name for one in self.cycles for name in one.seconds)
        return tuple(sorted(known, key=lambda name: _STAGES.index(name) if name in _STAGES else len(_STAGES)))

    @property
    def codes(self) -> tuple[str, ...]:
        """The reasons for which records went to quarantine, most records first."""
        counts = summed(one.quarantined for one in self.cycles)
        return tuple(sorted(counts, key=lambda code: (-counts[code], code)))

    @property
    def joins(self) -> tuple[str, ...]:
        """The joins that tell a match rate."""
        rated = (name for one in self.cycles for name, flow in one.flows.items() if flow.match_rate is not None)
        return tuple(dict.fromkeys(rated))

    @property
    def rows_out(self) -> Mapping[str, int]:
        """Node to rows that it has passed on, of the nodes where they were counted."""
        return {flow.name: flow.rows_out for flow in self.flows if flow.rows_out is not None}

    @property
    def records(self) -> int | None:
        """Records that the cycles took."""
        return total(one.records for one in self.cycles)

    @property
    def written(self) -> int | None:
        """Rows that went into outputs."""
        return total(one.written for one in self.cycles)

    @property
    def dropped(self) -> int | None:
        """Rows that expectations took out."""
        return total(flow.dropped for flow in self.flows)

    @property
    def quarantined(self) -> int:
        """Records that went to quarantine, by the event log."""
        return sum(sum(one.quarantined.values()) for one in self.cycles)

    @property
    def took_s(self) -> float | None:
        """Seconds that the cycles took."""
        took = [one.took_s for one in self.cycles if one.took_s is not None]
        return sum(took) if took else None

    @property
    def records_per_second(self) -> float | None:
        """Records over the seconds that they took, of the cycles where both are known."""
        known = [(one.records, one.took_s) for one in self.cycles if one.records is not None and one.took_s]
        return sum(records for records, _ in known) / sum(took or 0.0 for _, took in known) if known else None

    @property
    def missing(self) -> int:
        """Cycles between the first and the last one that the log does not have."""
        return self.cycles[-1].number - self.cycles[0].number + 1 - len(self.cycles) if self.cycles else 0

    def lateness(self, source: str) -> tuple[int, ...]:
        """Records of a source by how late they were."""
        per_cycle = [one.lateness[source] for one in self.cycles if source in one.lateness]
        return tuple(sum(numbers) for numbers in zip(*per_cycle, strict=True))


def total(numbers: Iterable[int | None]) -> int | None:
    """The sum of the numbers that are known; None if none is."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Counts by name, added."""
    sums: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            sums[name] = sums.get(name, 0) + count
    return sums
