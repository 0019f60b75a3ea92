"""lakestreams: Kafka Streams' joins for the lakehouse, in Python on Spark."""

from lakestreams.errors import LakestreamsError
from lakestreams.formats import EventTime, Json, Long, RegistryJson, Text
from lakestreams.topology.builder import StreamsBuilder, Topology
from lakestreams.topology.streams import KStream, KTable

__version__ = "0.1.0"

__all__ = [
    "EventTime",
    "Json",
    "KStream",
    "KTable",
    "LakestreamsError",
    "Long",
    "RegistryJson",
    "StreamsBuilder",
    "Text",
    "Topology",
    "__version__",
]
