"""How raw key and value bytes become typed columns: a small protocol and the formats that come with it."""

from lakestreams.formats.base import Field, Format, Parsed, WritableFormat
from lakestreams.formats.binary import Long, Text
from lakestreams.formats.connect import ConnectJson, DebeziumJson
from lakestreams.formats.json import Json, RegistryJson
from lakestreams.formats.scalars import Int, JsonScalar, Short, Uuid
from lakestreams.formats.table import TableColumns
from lakestreams.formats.time import EventTime

__all__ = [
    "ConnectJson",
    "DebeziumJson",
    "EventTime",
    "Field",
    "Format",
    "Int",
    "Json",
    "JsonScalar",
    "Long",
    "Parsed",
    "RegistryJson",
    "Short",
    "TableColumns",
    "Text",
    "Uuid",
    "WritableFormat",
]
