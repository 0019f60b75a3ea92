"""Everything that can be wrong with a pipeline before anything starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lakestreams.engine.ingest import topic_identity
from lakestreams.engine.takeover import tables
from lakestreams.errors import LakestreamsError, TopologyInvalid
from lakestreams.evaluate import walk
from lakestreams.topology.partitions import co_partitioning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakestreams.engine.run import Setup
    from lakestreams.kafka.cluster_view import ClusterView


class Checked(NamedTuple):
    """What a check has found.

    Attributes:
        outputs: output to an empty frame of its columns.
        view: the cluster as it is.
        warnings: what the user should know.
    """

    outputs: dict[str, DataFrame]
    view: ClusterView
    warnings: list[str]


def check(setup: Setup) -> Checked:
    """Checks columns and expressions over empty frames, then topics, Delta tables and partition counts.

    Raises:
        TopologyInvalid: with every fault of the topology and of its partitions at once.
    """
    topology = setup.topology
    with setup.tuning.utc():
        outputs, faults = walk.check(topology, setup.spark)
    delta_tables, unfit = setup.endpoints.tables()
    faults = [*faults, *unfit]
    try:
        view = setup.endpoints.view(delta_tables)
    except LakestreamsError as error:
        if faults:
            raise TopologyInvalid([*faults, error], topology.name) from error
        raise
    unequal, warnings = co_partitioning(topology.nodes, view.partitions)
    if faults or unequal:
        raise TopologyInvalid([*faults, *unequal], topology.name)
    tables.require_distinct_tables(setup.spark, setup.lake, topology)
    setup.reporter.tell("checked", partitions=view.partitions)
    return Checked(outputs, view, warnings + topic_identity.warnings(view))


__all__ = ["Checked", "check"]
