"""A topology's outputs over nothing, for tests of topologies that are to be sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestreams.errors import TopologyInvalid
from lakestreams.evaluate import walk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams import Topology


def outputs_of(topology: Topology, spark: SparkSession) -> dict[str, DataFrame]:
    """Output to an empty frame with its columns; raises if there is a fault."""
    outputs, faults = walk.check(topology, spark)
    if faults:
        raise TopologyInvalid(faults, topology.name)
    return outputs
