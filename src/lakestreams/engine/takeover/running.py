"""Who else runs a pipeline, and whether the machine's clock can be right: what a driver compares with the ledger.

Plain Python: sentences about what was found, for warnings and errors (docs/decisions/0030-hard-cases-of-a-run.md).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lakestreams.engine.ledger.plans import Claim, History, Plan
    from lakestreams.expectations.cycle_metrics import CycleMetrics
    from lakestreams.topology.topology import Topology

CLOCK_SLACK_MS: Final = 60_000
"""How far two machines' clocks may lie apart before it is reported."""
FUTURE_SHARE: Final = 0.01
_FUTURE: Final = "FUTURE_TIMESTAMP"
_SECONDS: Final = (631_152_000, 4_102_444_800)
"""Of 1990 to 2100, as seconds; as milliseconds they lie in January and February 1970."""


def taken_from(history: History) -> list[str]:
    """What to know of the run that had the pipeline before, as warnings: it has crashed, or runs still."""
    claim = history.claim
    if claim is None or (history.open_plan is None and not claim.waits):
        return []
    what = f"has not finished cycle {history.open_plan.cycle}" if history.open_plan else "has not ended"
    text = (
        f"run {claim.run_id} (epoch {claim.epoch}) {what}: it took the pipeline over at {shown(claim.began_ms)} and last "
        f"wrote at {shown(claim.last_ms)}; this run continues in its place; if the other still runs, it ends with LS503"
    )
    return [text]


def taken_by(claim: Claim | None, epoch: int) -> str | None:
    """Which run has taken the pipeline over from an epoch; None if the ledger does not tell of any."""
    if claim is None or claim.epoch <= epoch:
        return None
    return f"run {claim.run_id} (epoch {claim.epoch}) took it over at {shown(claim.began_ms)}"


def clock_behind(history: History, now_ms: int) -> list[str]:
    """Whether the machine's clock lies behind what the ledger has been written by, as warnings."""
    behind = history.claim.last_ms - now_ms if history.claim is not None else 0
    if behind <= CLOCK_SLACK_MS:
        return []
    text = (
        f"this machine's clock says {shown(now_ms)}, but the ledger was already written at {shown(now_ms + behind)}: one of the "
        "two clocks is wrong. If this clock is behind, current records look like future ones and go to quarantine "
        "(FUTURE_TIMESTAMP)"
    )
    return [text]


def in_the_future(topology: Topology, cycle_metrics: CycleMetrics, now_ms: int) -> list[str]:
    """Sources of which a cycle has quarantined many records as of the future, as warnings."""
    warnings = []
    for source in topology.sources:
        own = cycle_metrics.of(source.name)
        future = own.quarantined.get(_FUTURE, 0)
        if future > FUTURE_SHARE * (own.rows_in or 0):
            warnings.append(
                f"{source.name}: {future} of {own.rows_in} records lie more than {source.max_future_ms} ms in the future and "
                f"are in quarantine; this machine's clock says {shown(now_ms)}"
            )
    return warnings


def in_seconds(topology: Topology, plan: Plan) -> list[str]:
    """Sources whose event times look like seconds that are read as milliseconds, as warnings."""
    low, high = _SECONDS
    warnings = []
    for source in topology.sources:
        newest = max((part.stream_time_ms for part in plan.of(source.topic) if part.records), default=0)
        if low <= newest < high:
            column = source.event_time.field
            hint = (
                f"declare the column as {column} timestamp_s"
                if column
                else "let the producer set milliseconds, or name a column in event_time"
            )
            warnings.append(
                f"{source.name}: all event times lie before March 1970; are they seconds? Event times are milliseconds: {hint}"
            )
    return warnings


def shown(time_ms: int) -> str:
    """A time as people read it."""
    try:
        return datetime.fromtimestamp(time_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
