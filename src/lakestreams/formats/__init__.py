"""Turns raw key and value bytes into typed columns: a small protocol and its formats."""

from lakestreams.formats.avro.debezium import DebeziumAvro
from lakestreams.formats.avro.formats import Avro, RegistryAvro
from lakestreams.formats.avro.glue import GlueAvro
from lakestreams.formats.base import Field, Format, WritableFormat
from lakestreams.formats.binary import Long, Text
from lakestreams.formats.connect import ConnectJson, DebeziumJson
from lakestreams.formats.json import Json, RegistryJson
from lakestreams.formats.json_schema.formats import JsonSchema
from lakestreams.formats.maxwell import MaxwellJson
from lakestreams.formats.protobuf.formats import Protobuf, RegistryProtobuf
from lakestreams.formats.scalars import Int, JsonScalar, Short, Uuid
from lakestreams.formats.table import TableColumns
from lakestreams.formats.time import EventTime

__all__ = [
    "Avro",
    "ConnectJson",
    "DebeziumAvro",
    "DebeziumJson",
    "EventTime",
    "Field",
    "Format",
    "GlueAvro",
    "Int",
    "Json",
    "JsonScalar",
    "JsonSchema",
    "Long",
    "MaxwellJson",
    "Protobuf",
    "RegistryAvro",
    "RegistryJson",
    "RegistryProtobuf",
    "Short",
    "TableColumns",
    "Text",
    "Uuid",
    "WritableFormat",
]
