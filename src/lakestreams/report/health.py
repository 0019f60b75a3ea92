"""What of a report wants attention: a few judgements, each a word, a colour's meaning and a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from lakestreams.report import wording
from lakestreams.report.model import Report

Level = Literal["good", "warn", "bad", "none"]


@dataclass(frozen=True)
class Badge:
    """A judgement; `says` is short, `why` a sentence that it rests upon."""

    level: Level
    says: str
    why: str


def badges(report: Report) -> tuple[Badge, ...]:
    """The judgements of a report, in a fixed order; of one without a cycle there is little to judge."""
    if not report.cycles:
        return (Badge("none", "no cycle in the log", "The event log has no cycle of this pipeline."), *_open(report))
    return tuple(badge for judge in (_open, _lag, _flows, _expectations, _quarantine, _log) for badge in judge(report))


def _open(report: Report) -> Iterator[Badge]:
    if report.open_cycle is not None:
        why = f"Nothing here is of cycle {report.open_cycle}, which was planned: a run is at it, or has failed."
        yield Badge("warn", f"cycle {report.open_cycle} not finished", why)


def _lag(report: Report) -> Iterator[Badge]:
    newest = report.cycles[-1]
    behind = newest.lag_records
    if behind is None:
        yield Badge(
            "none", "lag unknown", f"Cycle {newest.number} does not know of all its sources how many records were left."
        )
    elif behind:
        worst = max(newest.lag, key=lambda name: newest.lag[name] or 0)
        why = f"After cycle {newest.number} most of them were left in {worst}."
        yield Badge("warn", f"{_counted(behind, 'record')} behind", why)
    else:
        yield Badge("good", "caught up", f"Cycle {newest.number} left nothing on the broker.")


def _flows(report: Report) -> Iterator[Badge]:
    failed = [flow.name for flow in report.flows if flow.failed]
    if failed:
        yield Badge(
            "bad", f"{_counted(len(failed), 'node')} failed", f"Not completed in some cycle: {', '.join(failed)}."
        )


def _expectations(report: Report) -> Iterator[Badge]:
    if not report.expectations:
        return
    broken = [one for one in report.expectations if one.failed]
    if not broken:
        count = len(report.expectations)
        yield Badge("good", "expectations hold", f"No record broke any of {_counted(count, 'expectation')}.")
        return
    names = ", ".join(f"{one.dataset}.{one.name}" for one in broken)
    level: Level = "bad" if any(one.action == "fail" for one in broken) else "warn"
    yield Badge(level, f"{_counted(len(broken), 'expectation')} broken", f"Broken: {names}.")


def _quarantine(report: Report) -> Iterator[Badge]:
    count = report.quarantined
    if not count:
        yield Badge("good", "nothing quarantined", "These cycles sent no record to quarantine.")
        return
    share = f", which is {wording.share(count / report.records)} of what was read" if report.records else ""
    yield Badge("warn", f"{count:,} in quarantine", f"These cycles sent {_counted(count, 'record')} there{share}.")


def _log(report: Report) -> Iterator[Badge]:
    if report.missing:
        first, last = report.cycles[0].number, report.cycles[-1].number
        why = f"Of the cycles {first} to {last} the log lacks {report.missing}: numbers and charts are without them."
        yield Badge("warn", f"{_counted(report.missing, 'cycle')} not in the log", why)
    if report.unread:
        yield Badge("warn", f"{_counted(report.unread, 'event')} unreadable", "They are left out of all numbers.")


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
