"""What a cycle needs of the cycles before it, in one of two ways, whichever the topology needs.

`TableState`: where streams only look tables up, the past is the tables' rows. `OperatorState`: where windows, aggregations or
tables made of tables remember something, it is what the nodes keep. Both are caches. Where bronze is trimmed, they are made
again from what it keeps of tables, and from the base (decision 0015).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import History, Plan
from lakestreams.engine.state.operator_state import OperatorState
from lakestreams.engine.state.table_state import TableState
from lakestreams.evaluate.inputs import Inputs, Results
from lakestreams.topology.graph import only_looks_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakestreams.engine.runtime.parallel import Begin
    from lakestreams.topology.topology import Topology


class RetainedState(Protocol):
    """What earlier cycles left behind."""

    def resume(self, history: History) -> None:
        """Finds what is stored, and the finished plans behind it."""

    def inputs(self, plan: Plan) -> Inputs:
        """What a cycle is evaluated over."""

    def rows_in_memory(self, plan: Plan) -> int:
        """About how many rows `inputs` keeps in memory; how they are read is decided when it is called."""

    def begin(self, begin: Begin, plan: Plan, results: Results) -> Callable[[], None]:
        """Begins to store what is kept behind a cycle, while its results are published: what waits until it is."""

    def executed(self, plan: Plan, results: Results) -> None:
        """Takes note of what a cycle has given; its inputs are needed no more."""

    def released(self) -> None:
        """Takes note that no cycle follows, or that one has failed; nothing is kept in memory any more."""

    def finished(self, plan: Plan) -> None:
        """Takes note of a plan that is finished."""

    @property
    def is_due(self) -> bool:
        """Whether `refresh` stores something, of finished cycles alone."""

    def refresh(self) -> list[tuple[str, int]]:
        """Stores what is due: what was stored, and how many rows it has."""

    @property
    def rows(self) -> int:
        """About how many rows `refresh` would work on."""


def of(spark: SparkSession, ledger: Ledger, topology: Topology, fingerprint: str, every: int) -> RetainedState:
    """The past as this topology needs it.

    Args:
        ledger: of the running epoch.
        fingerprint: of what decides what the nodes keep (`fingerprint.of_state`).
        every: the most cycles that may lie behind what is stored.
    """
    if only_looks_up(topology.nodes):
        return TableState(spark, ledger, topology, every)
    return OperatorState(spark, ledger, topology, fingerprint, every)


__all__ = ["OperatorState", "RetainedState", "TableState", "of"]
