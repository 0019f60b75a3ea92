"""What a driver is asked to do, and what it knows for good once it has the pipeline: values that do not change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestreams.engine.ingest.endpoints import Endpoints
from lakestreams.engine.ledger.fingerprint import Configuration
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import History
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.runtime.progress import Reporter
from lakestreams.engine.runtime.settings import RunSettings
from lakestreams.engine.runtime.tuning import Tuning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.topology.topology import Topology


@dataclass(frozen=True)
class Setup:
    """What a driver is asked to do.

    Attributes:
        spark: the session, classic or Connect.
        lake: where its tables live.
        settings: how the run is to go.
        configured: what the run is configured by, as the ledger knows it.
        ledger: of the pipeline; under no epoch before the claim.
        endpoints: the topics and Delta tables that are read and written.
        tuning: the session's settings.
        reporter: hears of everything that happens.
        now_ms: the time, by which inputs are found silent.
    """

    spark: SparkSession
    topology: Topology
    lake: Lake
    settings: RunSettings
    configured: Configuration
    ledger: Ledger
    endpoints: Endpoints
    tuning: Tuning
    reporter: Reporter
    now_ms: Callable[[], int]


@dataclass(frozen=True)
class Run(Setup):
    """A pipeline that is taken over: no older driver writes to it any more.

    Attributes:
        history: what the ledger says, to which no older driver adds.
        may_recover: whether bronze may hold more than the ledger says.
        is_changed: whether nothing was computed by this configuration yet.
    """

    history: History
    may_recover: bool
    is_changed: bool


__all__ = ["Run", "Setup"]
