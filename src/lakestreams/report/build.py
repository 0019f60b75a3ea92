"""Makes a report of the rows of the event log and of a summary of the quarantine.

Events are taken as they are found. Events of other pipelines and of unknown types are passed over, an event that stands
twice counts once, and a log may hold cycles of several topologies, one after the other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lakestreams.report.model import LATENESS, Cycle, Example, Expectation, Flow, Quarantined, Report, summed, total

FLOW, CYCLE = "flow_progress", "cycle_progress"


def build(
    pipeline: str,
    events: Iterable[Mapping[str, Any]],
    quarantine: Iterable[Mapping[str, Any]] | None = None,
    open_cycle: int | None = None,
) -> Report:
    """Makes the report of a pipeline.

    Args:
        events: rows of `_lakestreams.events`, in any order: at least `pipeline, cycle, id, sequence, event_type,
            timestamp, origin, details`; `timestamp` as a datetime (naive is UTC) or ms since 1970.
        quarantine: a row a node and code: `node, code, records, first_cycle, last_cycle` and `examples`, rows with
            `topic, partition, offset, attempt, cycle, message, rules` and, if they are to be shown, `key` and `value`
            (bytes or None); None if the table was not looked at.
        open_cycle: the cycle that is planned and not finished; None: there is none.
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
        own_parts = parts.setdefault(number, _Parts())
        if kind == CYCLE:
            own_parts.cycle, own_parts.timestamp = details, event.get("timestamp")
        else:
            name = _object(event.get("origin")).get("flow_name")
            own_parts.flows[_text(name)] = details
    cycles = tuple(_cycle(number, parts[number]) for number in sorted(parts))
    return Report(
        pipeline,
        cycles,
        tuple(_flows(cycles)),
        tuple(_expectations(parts)),
        None if quarantine is None else tuple(sorted(map(_quarantined, quarantine), key=_most)),
        unread,
        open_cycle,
    )


@dataclass
class _Parts:
    """The events of a cycle."""

    cycle: Mapping[str, Any] = field(default_factory=dict)
    timestamp: object = None
    flows: dict[str, Mapping[str, Any]] = field(default_factory=dict)


def _cycle(number: int, parts: _Parts) -> Cycle:
    progress = parts.cycle
    lag: dict[str, int | None] = {}
    lateness: dict[str, tuple[int, ...]] = {}
    for source in _objects(progress.get("sources")):
        name, behind = _text(source.get("name")), _whole(source.get("lag_records"))
        known = lag.get(name, 0)
        lag[name] = None if known is None or behind is None else known + behind
        counts = [_whole(one) or 0 for one in _list(source.get("lateness"))]
        if len(counts) == len(LATENESS):
            before = lateness.get(name, (0,) * len(LATENESS))
            lateness[name] = tuple(map(sum, zip(before, counts, strict=True)))
    closed = _whole(progress.get("closed_at_ms"))
    return Cycle(
        number,
        _whole(progress.get("planned_at_ms")),
        _moment(parts.timestamp) if closed is None else closed,
        _whole(progress.get("records")),
        _whole(progress.get("bad")),
        {_text(name): value for name, value in _numbers(progress.get("seconds"))},
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
        summed(flow.quarantined for flow in flows),
        failed=any(flow.failed for flow in flows),
    )


def _expectations(parts: Mapping[int, _Parts]) -> list[Expectation]:
    by_name: dict[tuple[str, str, str], Expectation] = {}
    for number in sorted(parts):
        for details in parts[number].flows.values():
            for entry in _objects(_object(details.get("data_quality")).get("expectations")):
                at = (_text(entry.get("dataset")), _text(entry.get("name")), _text(entry.get("action")))
                passed, failed = _whole(entry.get("passed_records")), _whole(entry.get("failed_records"))
                before = by_name.get(at, Expectation(*at))
                by_name[at] = Expectation(
                    *at,
                    total((before.passed, passed)),
                    total((before.failed, failed)),
                    number if failed else before.last_broken,
                )
    return sorted(by_name.values(), key=lambda one: one.dataset)


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
