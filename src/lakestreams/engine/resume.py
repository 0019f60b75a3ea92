"""How a driver goes on from what is in the tables: closes what a crash left behind, and finds where bronze and cycles stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestreams.engine.cycles import Cycles
from lakestreams.engine.ingest.ingesting import Ingesting
from lakestreams.engine.ingest.position import BronzePosition
from lakestreams.engine.ledger import stopped
from lakestreams.engine.ledger.last_cycle import LastCycle
from lakestreams.engine.publish.event_log import EventLog
from lakestreams.engine.publish.expectations import ExpectationChecker
from lakestreams.engine.round import Round
from lakestreams.engine.state import retained
from lakestreams.engine.takeover import tables
from lakestreams.expectations.rules import RecordRules
from lakestreams.topology.expectations import MatchRate

if TYPE_CHECKING:
    from lakestreams.engine.ledger.plans import Plan
    from lakestreams.engine.run import Run
    from lakestreams.kafka.cluster_view import ClusterView

_RATES = 1_000  # finished cycles that match rates look back at, at most


def resume(run: Run, view: ClusterView) -> Round:
    """Goes on from what is in the tables; a cycle that is open is still to be executed (`Cycles.repeat`).

    Args:
        view: the cluster as it was checked.

    Raises:
        TopicRecreated: if topics are others than those that bronze holds records of.
        OffsetsExpired: if records expired before they were read, and nobody has accepted that.
        PlanUnderOtherConfig: if the open cycle is partly written under another configuration.
    """
    spark, ledger, topology, history = run.spark, run.ledger, run.topology, run.history
    checker = _checker(run, view)
    last = LastCycle.of(topology.name, history, run.reporter.summary.seconds)
    ingesting = Ingesting(run, BronzePosition(last, ledger.noted), checker)
    ingesting.resume(ingesting.recover(view))
    remembered = retained.of(spark, ledger, topology, run.configured.semantics, run.settings.snapshot_every)
    remembered.resume(history)
    cycles = Cycles(
        run,
        ingesting,
        last,
        remembered,
        checker,
        stopped.Topics(spark, ledger, topology, history.stopped),
        EventLog(spark, ledger, topology, history.done_cycle),
        list(topology.sources) if run.is_changed else [],
    )
    if last.open_plan is not None:
        last.revised(_taken_over(run, last.open_plan))
    positions = ingesting.bronze.positions
    if any(position > view.ends.get(at, position) for at, position in positions.items()):
        # bronze has more than was there: an older driver has read on until the claim
        view = run.endpoints.view(run.endpoints.tables()[0])
    ingesting.require_same_topics(view)  # bronze may have had more than the ledger knew
    ingesting.accept_losses(view)
    return Round(run, ingesting, cycles)


def _taken_over(run: Run, plan: Plan) -> Plan:
    """The open plan, as it is executed under this configuration."""
    accept = run.settings.accept_change
    return tables.taken_over(run.spark, run.ledger, run.topology, plan, run.history, run.configured, accept=accept)


def _checker(run: Run, view: ClusterView) -> ExpectationChecker:
    """What judges: by the partitions of now, and by the rates of the cycles before."""
    topology = run.topology
    rules = RecordRules(topology.expectations, run.endpoints.own(view).partitions)
    checker = ExpectationChecker(run.spark, run.ledger, topology, rules)
    if any(isinstance(what, MatchRate) for _, what in topology.expectations.invariants):
        summaries = {one.cycle: one for one in run.ledger.summaries(run.spark, 0, _RATES)}
        topics = [source.topic for source in topology.sources]
        for plan in run.ledger.plans(run.spark, min(summaries, default=1), topics):
            if plan.cycle in summaries:
                checker.closed(plan, summaries[plan.cycle].cycle_metrics)
    return checker


__all__ = ["resume"]
