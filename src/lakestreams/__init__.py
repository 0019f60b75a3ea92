"""lakestreams: Kafka Streams' joins for the lakehouse, in Python on Spark."""

from lakestreams.errors import LakestreamsError
from lakestreams.formats import ConnectJson, DebeziumJson, EventTime, Json, Long, RegistryJson, Text
from lakestreams.topology import aggregators as agg
from lakestreams.topology.builder import StreamsBuilder, Topology
from lakestreams.topology.fields import Fields, MaybeFields, is_missing
from lakestreams.topology.grouped import KGroupedStream, KGroupedTable, TimeWindowedKStream
from lakestreams.topology.streams import KStream
from lakestreams.topology.tables import GlobalKTable, KTable

__version__ = "0.1.0"

__all__ = [
    "ConnectJson",
    "DebeziumJson",
    "EventTime",
    "Fields",
    "GlobalKTable",
    "Json",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "LakestreamsError",
    "Long",
    "MaybeFields",
    "RegistryJson",
    "StreamsBuilder",
    "Text",
    "TimeWindowedKStream",
    "Topology",
    "__version__",
    "agg",
    "is_missing",
]
