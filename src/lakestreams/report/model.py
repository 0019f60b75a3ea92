"""What a report tells, made of the rows of the event log and of a summary of the quarantine; plain Python.

Events are taken as they are found. A number that is not in them is None, which is not 0: nobody has counted. Events of
other pipelines and of unknown types are passed over, an event that stands twice counts once, and a log may hold cycles
of several topologies, one after the other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

FLOW, CYCLE = "flow_progress", "cycle_progress"
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
        """Seconds of all stages; where they are not told, those between plan and end."""
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
        return _summed(flow.quarantined for flow in self.flows.values())

    @property
    def lag_records(self) -> int | None:
        """Records that were on the broker and not yet taken; None if that is not known of every source."""
        return None if not self.lag or None in self.lag.values() else total(self.lag.values())

    def _outputs(self) -> Iterator[Flow]:
        return (flow for flow in self.flows.values() if flow.is_output)


@dataclass(frozen=True)
class Report:
    """What is told of a pipeline.

    Attributes:
        pipeline: its name.
        cycles: in their order.
        flows: what went through each node in all of these cycles; sources first, outputs last.
        expectations: by dataset, in the order of the log.
        quarantine: most records first; None if the table was not looked at.
        unread: events that make no sense.
    """

    pipeline: str
    cycles: tuple[Cycle, ...] = ()
    flows: tuple[Flow, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    quarantine: tuple[Quarantined, ...] | None = None
    unread: int = 0

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources' names in the order of their first cycle: the order of their colours."""
        return tuple(dict.fromkeys(name for one in self.cycles for name in (*one.lag, *one.lateness)))

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages' names, in the order in which a cycle has them; those without a known place come last."""
        found = dict.fromkeys(name for one in self.cycles for name in one.seconds)
        return tuple(sorted(found, key=lambda name: _STAGES.index(name) if name in _STAGES else len(_STAGES)))

    @property
    def codes(self) -> tuple[str, ...]:
        """The reasons for which records went to quarantine, most records first."""
        found = _summed(one.quarantined for one in self.cycles)
        return tuple(sorted(found, key=lambda code: (-found[code], code)))

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


# --- reading -------------------------------------------------------------------------------------------------------


def build(
    pipeline: str, events: Iterable[Mapping[str, Any]], quarantine: Iterable[Mapping[str, Any]] | None = None
) -> Report:
    """Makes the report of a pipeline.

    Args:
        events: rows of `_lakestreams.events`, in any order: at least `pipeline, cycle, id, sequence, event_type,
            timestamp, origin, details`; `timestamp` as a datetime (naive is UTC) or ms since 1970.
        quarantine: a row a node and code: `node, code, records, first_cycle, last_cycle` and `examples`, rows with
            `topic, partition, offset, attempt, cycle, message, rules` and, if they are to be shown, `key` and `value`
            (bytes or None); None if the table was not looked at.
    """
    parts: dict[int, _Parts] = {}
    unread = 0
    own = [event for event in events if event.get("pipeline") == pipeline]
    for event in sorted(own, key=lambda event: _whole(event.get("sequence")) or 0):  # of what stands twice, the last
        number, kind = _whole(event.get("cycle")), event.get("event_type")
        details = _object(event.get("details")).get(str(kind))
        if kind not in (FLOW, CYCLE):
            continue
        if number is None or not isinstance(details, Mapping):
            unread += 1
            continue
        found = parts.setdefault(number, _Parts())
        if kind == CYCLE:
            found.cycle, found.timestamp = details, event.get("timestamp")
        else:
            name = _object(event.get("origin")).get("flow_name")
            found.flows[_text(name)] = details
    cycles = tuple(_cycle(number, parts[number]) for number in sorted(parts))
    return Report(
        pipeline,
        cycles,
        tuple(_flows(cycles)),
        tuple(_expectations(parts)),
        None if quarantine is None else tuple(sorted(map(_quarantined, quarantine), key=_most)),
        unread,
    )


@dataclass
class _Parts:
    """The events of a cycle."""

    cycle: Mapping[str, Any] = field(default_factory=dict)
    timestamp: object = None
    flows: dict[str, Mapping[str, Any]] = field(default_factory=dict)


def _cycle(number: int, parts: _Parts) -> Cycle:
    told = parts.cycle
    lag: dict[str, int | None] = {}
    lateness: dict[str, tuple[int, ...]] = {}
    for stretch in _objects(told.get("sources")):
        name, behind = _text(stretch.get("name")), _whole(stretch.get("lag_records"))
        known = lag.get(name, 0)
        lag[name] = None if known is None or behind is None else known + behind
        counts = [_whole(one) or 0 for one in _list(stretch.get("lateness"))]
        if len(counts) == len(LATENESS):
            before = lateness.get(name, (0,) * len(LATENESS))
            lateness[name] = tuple(map(sum, zip(before, counts, strict=True)))
    closed = _whole(told.get("closed_at_ms"))
    return Cycle(
        number,
        _whole(told.get("planned_at_ms")),
        _moment(parts.timestamp) if closed is None else closed,
        _whole(told.get("records")),
        _whole(told.get("bad")),
        {_text(name): value for name, value in _numbers(told.get("seconds"))},
        lag,
        lateness,
        {name: _flow(name, details) for name, details in parts.flows.items()},
    )


def _flow(name: str, details: Mapping[str, Any]) -> Flow:
    metrics, ours = _object(details.get("metrics")), _object(details.get("lakestreams"))
    kinds = dict(_numbers(ours.get("rows")))
    return Flow(
        name,
        _text(ours.get("kind")),
        _whole(metrics.get("num_input_rows")),
        _whole(metrics.get("num_output_rows")),
        _of_kind("matched", kinds),
        _of_kind("unmatched", kinds),
        _whole(_object(details.get("data_quality")).get("dropped_records")),
        {_text(code): int(count) for code, count in _numbers(ours.get("quarantined")) if count},
        failed=_text(details.get("status")).upper() not in ("", "COMPLETED"),
    )


def _of_kind(kind: str, kinds: Mapping[object, float]) -> int | None:
    """Rows of a kind; where rows of any kind were counted, those that are not named are none."""
    return int(kinds.get(kind, 0)) if kinds else None


def _flows(cycles: Sequence[Cycle]) -> list[Flow]:
    """One flow a node, in the order of sources, steps, outputs, and within these as in the newest cycles."""
    by_name: dict[str, list[Flow]] = {}
    for one in reversed(cycles):
        for name, flow in one.flows.items():
            by_name.setdefault(name, []).append(flow)
    return sorted(map(_added, by_name.values()), key=lambda flow: (not flow.is_source, flow.is_output))


def _added(flows: Sequence[Flow]) -> Flow:
    """What went through one node in several cycles, the newest first."""
    return Flow(
        flows[0].name,
        flows[0].kind,
        total(flow.rows_in for flow in flows),
        total(flow.rows_out for flow in flows),
        total(flow.matched for flow in flows),
        total(flow.unmatched for flow in flows),
        total(flow.dropped for flow in flows),
        _summed(flow.quarantined for flow in flows),
        failed=any(flow.failed for flow in flows),
    )


def _expectations(parts: Mapping[int, _Parts]) -> list[Expectation]:
    found: dict[tuple[str, str, str], Expectation] = {}
    for number in sorted(parts):
        for details in parts[number].flows.values():
            for told in _objects(_object(details.get("data_quality")).get("expectations")):
                at = (_text(told.get("dataset")), _text(told.get("name")), _text(told.get("action")))
                passed, failed = _whole(told.get("passed_records")), _whole(told.get("failed_records"))
                before = found.get(at, Expectation(*at))
                found[at] = Expectation(
                    *at,
                    total((before.passed, passed)),
                    total((before.failed, failed)),
                    number if failed else before.last_broken,
                )
    return sorted(found.values(), key=lambda one: one.dataset)


def _quarantined(row: Mapping[str, Any]) -> Quarantined:
    return Quarantined(
        _text(row.get("node")),
        _text(row.get("code")),
        _whole(row.get("records")) or 0,
        _whole(row.get("first_cycle")),
        _whole(row.get("last_cycle")),
        tuple(map(_example, _objects(row.get("examples")))),
    )


def _most(one: Quarantined) -> tuple[int, str, str]:
    return -one.records, one.node, one.code


def _example(row: Mapping[str, Any]) -> Example:
    attempt = _whole(row.get("attempt")) or 0
    again = f", attempt {attempt}" if attempt else ""
    return Example(
        f"{_text(row.get('topic'))}-{_text(row.get('partition'))}@{_text(row.get('offset'))}{again}",
        _whole(row.get("cycle")),
        _text(row.get("message")),
        tuple(map(_text, _list(row.get("rules")))),
        _shown(row["key"]) if "key" in row else None,
        _shown(row["value"]) if "value" in row else None,
    )


def _shown(data: object) -> str:
    """Bytes as text; those that are none are replaced."""
    if isinstance(data, bytes | bytearray):
        return bytes(data).decode("utf-8", "replace")
    return "null" if data is None else str(data)


# --- values of unknown making ----------------------------------------------------------------------------------------


def _object(value: object) -> Mapping[str, Any]:
    """A JSON object, given as such or as its text; an empty one for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, Mapping) else {}


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [one for one in _list(value) if isinstance(one, Mapping)]


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _numbers(value: object) -> Iterator[tuple[object, float]]:
    """The entries of an object that are numbers."""
    for name, number in _object(value).items():
        if isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number):
            yield name, number


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value)


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _moment(value: object) -> int | None:
    """A time as ms since 1970."""
    if isinstance(value, datetime):
        return int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1_000)
    return _whole(value)


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            found[name] = found.get(name, 0) + count
    return found
