"""The last cycle of a pipeline as its driver knows it: how far it has come, and what the ledger gets when it is closed.

Between two rows of the ledger it is known nowhere else. Plain Python: the driver writes the rows and does the work, and says
here what is done; what would not be true is refused here, before a row says it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakestreams.engine.ledger.plans import History, Plan
from lakestreams.engine.protocol import decisions
from lakestreams.engine.publish.events import CycleSummary
from lakestreams.expectations.cycle_metrics import CycleMetrics

State = decisions.State


@dataclass
class LastCycle:
    """How far the last cycle has come; each new one takes the place of the one before.

    States, and what leads on from them:
        none: there was no cycle yet; `planned`.
        planned: its plan is in the ledger, or will be before anything of it is out; `revised`, `executed`.
        executed: all of it is out; `left_open`, `closed`.
        left: its round has ended and the ledger does not say yet that it is done; `closed`.
        closed: the ledger says so; `planned`.

    A cycle that is planned, executed or left is open. One that was not executed is never closed: the next driver executes
    its plan again. What is reported of one that was left is what was reported when its round ended, whenever it is closed.

    Attributes:
        pipeline: whose.
        plan: of the last cycle, whether it is closed or not; None: there was none.
    """

    pipeline: str
    plan: Plan | None = None
    _open: bool = False
    _planned_at_ms: int = 0  # 0: an earlier driver has planned it
    _before: Mapping[str, float] = field(default_factory=dict)  # seconds by stage when it was planned
    _metrics: CycleMetrics | None = None
    _left: CycleSummary | None = None

    @classmethod
    def of(cls, pipeline: str, history: History, seconds: Mapping[str, float]) -> LastCycle:
        """As the ledger tells of it: a cycle that is open is to be executed again, however far it came.

        Args:
            seconds: wall time of the whole run up to now, by stage: a run may go on behind itself after many rounds.
        """
        return cls(pipeline, history.plan, history.open_plan is not None, _before=dict(seconds))

    # --- how far it has come ---------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """How far it has come."""
        if self.plan is None:
            return "none"
        if not self._open:
            return "closed"
        if self._metrics is None:
            return "planned"
        return "executed" if self._left is None else "left"

    @property
    def number(self) -> int:
        """Its number; 0: there was none."""
        return self.plan.cycle if self.plan is not None else 0

    @property
    def open_plan(self) -> Plan | None:
        """Its plan, if it is open."""
        return self.plan if self._open else None

    def summary(self, run_id: str, seconds: Mapping[str, float], now_ms: int) -> CycleSummary:
        """What is reported of it if it is closed now; if it was left, what was reported then.

        Args:
            run_id: of the run that closes it.
            seconds: wall time of the whole run up to now, by stage.

        Raises:
            RuntimeError: if it has not been executed, or is not open.
        """
        if self._left is not None:
            return self._left
        _, cycle_metrics = self._done()
        since = {stage: s - self._before.get(stage, 0.0) for stage, s in seconds.items()}
        # as the ledger has them, so that the event log says the same
        spent = {stage: round(s, 4) for stage, s in since.items() if s > 0}
        return CycleSummary(self.number, cycle_metrics, spent, run_id, self._planned_at_ms or now_ms, now_ms)

    # --- what the driver has done ----------------------------------------------------------------------------------

    def planned(self, plan: Plan, seconds: Mapping[str, float], now_ms: int) -> None:
        """The ledger has the plan of the next cycle, or will have it before anything of the cycle is out.

        Args:
            plan: that one.
            seconds: wall time of the whole run up to now, by stage.
        """
        self._require_may("planned")
        self.plan, self._open = plan, True
        self._planned_at_ms, self._before = now_ms, dict(seconds)

    def revised(self, plan: Plan) -> None:
        """Its plan is executed like this: taken over by another configuration, or with more of it counted."""
        self._require("planned")
        self.plan = plan

    def executed(self, cycle_metrics: CycleMetrics) -> None:
        """All of it is out, and this was counted of it."""
        self._require_may("executed")
        self._metrics = cycle_metrics

    def left_open(self, summary: CycleSummary) -> None:
        """Its round has ended, and a later one is to close it with this."""
        self._require_may("left")
        self._left = summary

    def closed(self) -> Plan:
        """The ledger says that it is done.

        Returns:
            Its plan.
        """
        plan, _ = self._done()
        self._open, self._metrics, self._left = False, None, None
        return plan

    def _done(self) -> tuple[Plan, CycleMetrics]:
        """Plan and counts of a cycle that may be closed."""
        if self.plan is None or self._metrics is None:
            message = f"cycle {self.number} of {self.pipeline} has not been executed"
            raise RuntimeError(message)
        return self.plan, self._metrics

    def _require_may(self, following: State) -> None:
        if not decisions.may_become(self.state, following):
            self._require(*decisions.states_before(following))

    def _require(self, *states: State) -> None:
        if self.state not in states:
            message = f"cycle {self.number} of {self.pipeline} is {self.state}, not {' or '.join(states)}"
            raise RuntimeError(message)


__all__ = ["LastCycle", "State"]
