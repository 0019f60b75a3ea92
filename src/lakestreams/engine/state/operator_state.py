"""The past where nodes remember something: what they keep, stored as of some finished cycle, and the cycles since.

The cycles since are evaluated again (decision 0012).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import History, Plan, StoredState
from lakestreams.engine.protocol import commands, decisions, keeping
from lakestreams.engine.state import policy
from lakestreams.engine.state import store as state
from lakestreams.engine.state.cached_frames import CachedFrames
from lakestreams.engine.state.inputs import over, records_of, reopens
from lakestreams.errors import BronzeTrimmed
from lakestreams.evaluate.inputs import Inputs, Results

if TYPE_CHECKING:
    from concurrent.futures import Future

    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.engine.runtime.parallel import Begin
    from lakestreams.topology.topology import Topology

# Stored rows that are held in memory while a cycle reads them; of more, filters leave most where they lie.
_WORTH_HOLDING = 1_000_000


class Outgrown(Exception):
    """A topic has grown, so what is stored lacks windows that are open again. Nothing is wrong: a driver that begins goes on.

    A window is kept until the clocks of all tasks have passed it. A new partition is a new task, which may bring a record
    of any window.
    """


@dataclass
class OperatorState:
    """What the nodes keep, stored as of some cycle, and the plans since."""

    spark: SparkSession
    ledger: Ledger
    topology: Topology
    fingerprint: str
    every: int
    stored: StoredState | None = None
    since_stored: list[Plan] = field(default_factory=list)
    _as_of: Plan | None = None  # the stored cycle's; None: it is not there, or nothing can replace what is stored
    _again: int = 0  # records that were evaluated once more because they lie behind what is stored
    _cached: CachedFrames = field(default_factory=CachedFrames)
    _retained: state.Frames | None = None  # what is stored, as frames
    _of_past: dict[str, DataFrame] = field(default_factory=dict)  # small frames that are made of it
    _cached_past: CachedFrames = field(default_factory=CachedFrames)  # both, from one cycle to the next
    _kept: tuple[int, state.Frames] | None = None  # a cycle, and what the nodes keep after it
    _begun: Future[StoredState] | None = None  # of that cycle: it is being stored while results are published

    def resume(self, history: History) -> None:
        """Finds the stored state and the finished plans since; without one all plans are since."""
        newest = history.state.cycle if history.state else 0
        plans = [] if history.plan is None else self._plans(newest)
        self.stored = self._usable(history, plans)
        at = self.stored.cycle if self.stored else 0
        if at < newest:
            plans = self._plans(at)
        as_of = _of_cycle(plans, at)
        stays = self.stored is not None and self._outgrown(self.stored, as_of, plans)
        self._as_of = None if stays else as_of
        self.since_stored = [plan for plan in plans if at < plan.cycle <= history.done_cycle]

    def _plans(self, since: int) -> list[Plan]:
        return self.ledger.plans(self.spark, since, [source.topic for source in self.topology.sources])

    def _usable(self, history: History, plans: Sequence[Plan]) -> StoredState | None:
        """What can be built on (`keeping.stand`).

        Args:
            plans: from that on as of which something was stored last, an open one with them.

        Raises:
            BronzeTrimmed: if the base is needed, and missing or of another topology or configuration.
        """
        newest = history

        def hands(command: commands.Command) -> Any:
            nonlocal newest
            match command:
                case commands.Read("holds", stored):
                    outgrown = self._outgrown(stored, _of_cycle(plans, stored.cycle), plans)
                    return self._holds(stored) and not (outgrown and self._has_other(history))
                case commands.Append():
                    return self.ledger.append_stored(self.spark, command)
                case _:
                    newest = self.ledger.history(self.spark)
                    return newest

        try:
            return commands.carry_out(keeping.stand(self.ledger.turn, history, self.fingerprint), hands)
        except commands.Stop as stop:
            raise self._missing(newest) from stop

    def _holds(self, stored: StoredState | None) -> bool:
        return state.is_usable(self.spark, self.ledger, stored, self.fingerprint)

    def _has_other(self, history: History) -> bool:
        """Whether bronze, or the base where it is trimmed, can take the place of what is stored."""
        return history.trim is None or (decisions.reaches(history.trim, history.base) and self._holds(history.base))

    def _missing(self, history: History) -> BronzeTrimmed:
        base = history.base
        what = "is missing" if base is None or base.fingerprint == self.fingerprint else "is of another configuration"
        message = (
            f"the state of {self.topology.name} up to cycle {decisions.cycle_of(history.trim)} {what}, and cannot be "
            "computed again: bronze is trimmed up to that cycle"
        )
        hint = (
            "run the earlier configuration, or give the changed pipeline a new name, to read Kafka again from the start"
        )
        return BronzeTrimmed(message, hint)

    def _outgrown(self, stored: StoredState, as_of: Plan | None, plans: Sequence[Plan]) -> bool:
        """Whether a plan knows more partitions than those by whose clocks stored windows have closed.

        A base is never outgrown: where bronze is trimmed there is nothing else.
        """
        if as_of is None or stored.slot in decisions.SLOTS["base"]:
            return False
        return reopens(self.topology, as_of, plans[-1])

    def inputs(self, plan: Plan) -> Inputs:
        """All records since the stored state; only the cycle's own results are wanted, and what to store if that is due.

        Raises:
            Outgrown: if the plan knows partitions that the stored state does not.
        """
        if self.stored is not None and self._outgrown(self.stored, self._as_of, [plan]):
            message = f"cycle {plan.cycle} knows more partitions than the state as of cycle {self.stored.cycle}"
            raise Outgrown(message)
        self._again += sum(records_of(one) for one in self.since_stored)
        return self._since([*self.since_stored, plan], results_from=plan.cycle, keeps=self._due(plan))

    def rows_in_memory(self, plan: Plan) -> int:
        """All that the cycle looks at; what is stored is read once and kept."""
        kept = self.stored.rows if self._retained and self.stored else 0
        return self.rows - kept + records_of(plan)

    def begin(self, begin: Begin, plan: Plan, results: Results) -> Callable[[], None]:
        """Begins to store what the nodes keep, where nothing valid lies; `refresh` says so when the cycle is finished."""
        place = keeping.free_place("state", plan.cycle, self.fingerprint, self.stored)
        stored = self._begun = begin(partial(self._write, results.kept, place))

        def waits() -> None:
            stored.result()

        return waits

    def executed(self, plan: Plan, results: Results) -> None:
        """Notes what the nodes keep now, if it is to be stored when the cycle is finished."""
        if results.kept:
            self._kept = plan.cycle, results.kept
        else:
            self._cached.release()

    def released(self) -> None:
        """Holds nothing any more: every plan that the session makes later would be compared with what is held."""
        self._kept = self._begun = None
        self._cached.release()
        self._release_past()

    def _release_past(self) -> None:
        self._retained = None
        self._of_past.clear()
        self._cached_past.release()

    def finished(self, plan: Plan) -> None:
        """Keeps the plan."""
        self.since_stored.append(plan)

    @property
    def is_due(self) -> bool:
        """Whether the last finished cycle has found that what the nodes keep after it is to be stored."""
        return self._kept is not None and bool(self.since_stored) and self._kept[0] == self.since_stored[-1].cycle

    def refresh(self) -> list[tuple[str, int]]:
        """Stores what the nodes keep after the last finished cycle, if that was found to be due when it began."""
        if self._kept is None or not self.is_due:
            return []
        cycle, kept = self._kept

        def hands(command: commands.Command) -> Any:
            match command:
                case commands.Overwrite(stored):
                    return self._write(kept, stored) if self._begun is None else self._begun.result()
                case commands.Append():
                    self.ledger.append_stored(self.spark, command)
                    self.ledger.failpoint("state.after")
            return None

        steps = keeping.keep(self.ledger.turn, "state", cycle, self.fingerprint, self.stored)
        self.stored = commands.carry_out(steps, hands)
        self._as_of = self.since_stored[-1]
        self.since_stored, self._again, self._kept, self._begun = [], 0, None, None
        self._cached.release()
        self._release_past()
        return [("state", self.stored.rows)]

    def _write(self, kept: state.Frames, stored: StoredState) -> StoredState:
        self.ledger.failpoint("state.before")
        written = state.write(self.spark, self.ledger, kept, stored)
        self.ledger.failpoint("state.written")
        return written

    @property
    def rows(self) -> int:
        """Those that are stored, and what came since."""
        return (self.stored.rows if self.stored else 0) + sum(map(records_of, self.since_stored))

    def _due(self, plan: Plan) -> bool:
        """Whether evaluating the cycles since has cost about as much as storing does."""
        rows = self.stored.rows if self.stored else 0
        return policy.nodes_due(len(self.since_stored) + 1, self._again, records_of(plan), rows, self.every)

    def _since(self, plans: Sequence[Plan], *, results_from: int, keeps: bool) -> Inputs:
        known = self.stored.rows if self.stored else 0
        self._cached.release()
        if self._retained is None:
            self._retained = self._load(known)
        inputs = over(
            self.spark,
            self.ledger,
            self.topology,
            plans,
            self._retained,
            known,
            results_from,
            keeps=keeps,
            hold=self._cached,
        )
        return replace(inputs, keep_past=self._keep_past, extract=self._cached.extract)

    def _load(self, rows: int) -> state.Frames:
        if self.stored is None:
            return {}
        retained = state.load(self.spark, self.ledger, self.stored)
        if rows > _WORTH_HOLDING:
            return retained
        return {node: {name: self._cached_past(one) for name, one in own.items()} for node, own in retained.items()}

    def _keep_past(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        if name not in self._of_past:
            self._of_past[name] = self._cached_past(make())
        return self._of_past[name]


def _of_cycle(plans: Sequence[Plan], cycle: int) -> Plan | None:
    return next((plan for plan in plans if plan.cycle == cycle), None)
