"""All finished cycles evaluated again, in one batch a configuration, each with what bronze still holds for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import Plan
from lakestreams.engine.state.reach import everything, reach
from lakestreams.errors import LakestreamsError
from lakestreams.evaluate import walk
from lakestreams.verify.configurations import Configurations, Group

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.ledger.plans import History
    from lakestreams.evaluate.inputs import Inputs, Results


@dataclass(frozen=True)
class Evaluated:
    """A configuration's cycles, evaluated again behind a cycle up to which bronze is trimmed (0: it is not)."""

    group: Group
    behind: int
    inputs: Inputs
    results: Results


def evaluations(
    spark: SparkSession, ledger: Ledger, history: History, every: Sequence[Plan], ran: Configurations
) -> list[Evaluated]:
    """Each configuration's evaluation, in their order; of cycles that have none it is noted why."""
    evaluated = []
    for group in ran.groups:
        try:
            behind = reach(spark, ledger, group.topology, history, group.semantics)
            ran.why_not |= dict.fromkeys(
                (cycle for cycle in group.cycles if cycle <= behind), "bronze is trimmed there"
            )
            if group.plans[-1].cycle > behind:
                evaluated.append(_evaluation(spark, ledger, history, every, group, behind))
        except (LakestreamsError, AnalysisException) as error:
            if group.is_current:
                raise
            ran.why_not |= dict.fromkeys(group.cycles, _first_line(error))
    return evaluated


def _evaluation(
    spark: SparkSession, ledger: Ledger, history: History, every: Sequence[Plan], group: Group, behind: int
) -> Evaluated:
    """All that was taken up to the last cycle of a configuration, evaluated with it."""
    topology = group.topology
    plans = [plan for plan in every if behind < plan.cycle <= group.plans[-1].cycle]
    own = [plan for plan in plans if any(plan.touches(source.topic) for source in topology.sources)]
    # a cycle that another configuration took over may be of other topics, and gave nothing
    inputs = everything(spark, ledger, topology, history, own or plans[-1:])
    results = walk.run(topology, inputs)
    for rows in results.outputs.values():
        _ = rows.schema  # behind Spark Connect a fault shows only when something of the frame is asked for
    return Evaluated(group, behind, inputs, results)


def _first_line(error: Exception) -> str:
    return error.message if isinstance(error, LakestreamsError) else str(error).splitlines()[0]
