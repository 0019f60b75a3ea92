"""Cycles that fail before their first topic: the ledger says so, and another configuration can take them over.

Tables can be looked at for what they hold of a cycle, topics cannot (decision 0032).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestreams.engine.publish import cycle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.ledger.ledger import Ledger
    from lakestreams.engine.ledger.plans import Plan
    from lakestreams.topology.topology import Topology


@dataclass
class Topics:
    """What of a pipeline's topics is known while cycles are executed.

    Attributes:
        ledger: of the running epoch.
        stopped: the cycle that the ledger knows to have written no topic; 0: none.
    """

    spark: SparkSession
    ledger: Ledger
    topology: Topology
    stopped: int = 0
    _begun: bool = False

    def begin(self, plan: Plan) -> None:
        """From here on topics may have records of a cycle; said where the ledger says the opposite."""
        if plan.cycle == self.stopped:
            self.ledger.record_said(self.spark, "publishing", plan.cycle)
            self.ledger.failpoint("publishing.after")
            self.stopped = 0
        self._begun = True

    @contextlib.contextmanager
    def watched(self, plan: Plan, *, repeated: bool) -> Iterator[None]:
        """Executes a cycle in the block; notes it if it fails before its first topic.

        Of one that is repeated only the ledger can know: a driver before may have written topics.
        """
        self._begun = False
        try:
            yield
        except Exception:
            written = any(cycle.causes(plan, topic) for topic in self.topology.kafka_sinks)
            if written and not (repeated or self._begun):
                with contextlib.suppress(
                    Exception
                ):  # the failure is what is reported; the cycle then counts as in doubt
                    self.ledger.record_said(self.spark, "stopped", plan.cycle)
                    self.stopped = plan.cycle
            raise


__all__ = ["Topics"]
