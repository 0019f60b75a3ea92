"""The topics and Delta tables of a pipeline, as they are at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from lakestreams.engine.ingest import delta_source
from lakestreams.engine.publish import subjects
from lakestreams.engine.publish.kafka_sink import Target
from lakestreams.errors import LakestreamsError
from lakestreams.kafka import cluster
from lakestreams.kafka.cluster_view import ClusterView

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.registry.options import RegistryOptions
    from lakestreams.topology.topology import Topology


@dataclass
class Endpoints:
    """Looks at what a pipeline reads and writes outside of its lake.

    Attributes:
        lake: where the pipeline's tables live.
        kafka: options of Spark's Kafka source.
        registry: where the schemas of topics that are written have their ids; None: there is none.
        target: where topics are written, as of the last look.
    """

    spark: SparkSession
    lake: Lake
    topology: Topology
    kafka: Mapping[str, str]
    registry: RegistryOptions | None = None
    target: Target = field(init=False)

    def __post_init__(self) -> None:
        """Before the first look nothing is known of the topics."""
        self.target = Target(self.kafka)

    @property
    def topics(self) -> list[str]:
        """What is read from Kafka."""
        return [source.topic for source in self.topology.sources if source.delta is None]

    @cached_property
    def cluster(self) -> cluster.Cluster:
        """The brokers."""
        return cluster.connect(self.spark, self.kafka, self.lake.checkpoints(self.topology.name))

    @cached_property
    def _prefixes(self) -> dict[str, dict[str, bytes]]:
        return subjects.prefixes(self.topology, self.registry)

    def tables(self) -> tuple[tuple[delta_source.TableVersion, ...], list[LakestreamsError]]:
        """The Delta tables that are read, and what keeps them from being read as they are declared."""
        return delta_source.examine(self.spark, self.lake, self.topology.sources)

    def view(self, tables: Sequence[delta_source.TableVersion]) -> ClusterView:
        """Kafka's topics, those that are read and those that are written, and the Delta tables."""
        read, written = self.topics, [sink.name for sink in self.topology.kafka_sinks]
        view = self.cluster.view(read, written) if read or written else ClusterView({})
        self.target = replace(
            self.target, partitions=view.partitions, most_bytes=view.most_bytes, prefixes=self._prefixes
        )
        return delta_source.with_tables(view, tables)

    def own(self, view: ClusterView) -> ClusterView:
        """What a view shows of what is read."""
        return view.only(source.topic for source in self.topology.sources)


__all__ = ["Endpoints"]
