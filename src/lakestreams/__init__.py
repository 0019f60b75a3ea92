"""lakestreams: Kafka Streams' joins for the lakehouse, in Python on Spark."""

from pathlib import Path
from typing import TYPE_CHECKING

from lakestreams.api.builder import StreamsBuilder
from lakestreams.api.grouped import KGroupedStream, KGroupedTable, TimeWindowedKStream
from lakestreams.api.streams import KStream
from lakestreams.api.tables import GlobalKTable, KTable
from lakestreams.errors import LakestreamsError
from lakestreams.formats import (
    Avro,
    ConnectJson,
    DebeziumAvro,
    DebeziumJson,
    EventTime,
    GlueAvro,
    Int,
    Json,
    JsonScalar,
    JsonSchema,
    Long,
    MaxwellJson,
    Protobuf,
    RegistryAvro,
    RegistryJson,
    RegistryProtobuf,
    Short,
    Text,
    Uuid,
)
from lakestreams.topology import aggregators as agg
from lakestreams.topology import expectations as invariants
from lakestreams.topology.fields import Fields, MaybeFields, is_missing
from lakestreams.topology.topology import Topology

if TYPE_CHECKING:
    from lakestreams.run.pipeline_tables import PipelineTables

__version__ = "0.1.0"


def open(  # noqa: A001 - read as lakestreams.open
    pipeline: str | Path | Topology,
    *,
    root: str | None = None,
    catalog: str | None = None,
    schemas: str | None = None,
    sources: str | Path | None = None,
) -> "PipelineTables":
    """A pipeline's tables as DataFrames, and what became of its records: for notebooks.

    Args:
        pipeline: its file, such as `conf/enrichment.yml`; its name, if a file `conf/*.yml` of the working directory has it;
            or its topology.
        root: the folder of all tables (`lake`); with a catalog that of the checkpoints.
        catalog: the Unity Catalog catalog.
        schemas: names of its schemas that are not the default ones, such as `bronze=raw,control=_streams`.
        sources: the sources' file; by default `sources.yml` in the pipeline's folder.
    """
    from lakestreams.run.pipeline_tables import open_pipeline  # noqa: PLC0415 - what only runs pipelines need not pay for

    return open_pipeline(pipeline, root=root, catalog=catalog, schemas=schemas, sources=sources)


__all__ = [
    "Avro",
    "ConnectJson",
    "DebeziumAvro",
    "DebeziumJson",
    "EventTime",
    "Fields",
    "GlobalKTable",
    "GlueAvro",
    "Int",
    "Json",
    "JsonScalar",
    "JsonSchema",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "LakestreamsError",
    "Long",
    "MaxwellJson",
    "MaybeFields",
    "Protobuf",
    "RegistryAvro",
    "RegistryJson",
    "RegistryProtobuf",
    "Short",
    "StreamsBuilder",
    "Text",
    "TimeWindowedKStream",
    "Topology",
    "Uuid",
    "__version__",
    "agg",
    "invariants",
    "is_missing",
    "open",
]
