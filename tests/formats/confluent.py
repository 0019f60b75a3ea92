"""confluent-kafka's own serializers and deserializers, as independent producers and consumers of the three formats."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import attrs
from confluent_kafka.schema_registry import (
    Schema,
    SchemaRegistryClient,
    header_schema_id_serializer,
    prefix_schema_id_serializer,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from tests.formats.protobuf import judge

from lakestreams.formats.protobuf.compiling import compile_texts

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
SUBJECT = {"subject.name.strategy": topic_subject_name_strategy}
Headers = list[tuple[str, bytes]]


def id_in_header(payload: bytes, ctx: Any, schema_id: Any) -> bytes:
    """As `header_schema_id_serializer`, with the id in place of the GUID."""
    ctx.headers.append((f"__{ctx.field}_schema_id", schema_id.id_to_bytes()))
    return payload


WAYS: dict[str, Callable[..., bytes]] = {
    "prefix": prefix_schema_id_serializer,
    "id in header": id_in_header,
    "GUID in header": header_schema_id_serializer,
}


class Serializing(SchemaRegistryClient):
    """The client of a registry that ignores `format=serialized`, as Apicurio does: texts of Protobuf become descriptors here.

    The deserializer of Protobuf asks for descriptors, which Confluent's registry gives.
    """

    def get_schema(self, schema_id: int, subject_name: str | None = None, fmt: str | None = None, *_: Any) -> Schema:
        return self._serialized(super().get_schema(schema_id, subject_name), fmt)

    def get_version(
        self, subject_name: str, version: Any = "latest", deleted: bool = False, fmt: str | None = None
    ) -> Any:
        found = super().get_version(subject_name, version, deleted)
        return attrs.evolve(found, schema=self._serialized(found.schema, fmt))

    def _serialized(self, schema: Schema, fmt: str | None) -> Schema:
        if fmt != "serialized" or schema.schema_type != PROTOBUF or ";" not in (schema.schema_str or ""):
            return schema
        files = FileDescriptorSet.FromString(compile_texts((*self._imports(schema), schema.schema_str or "")).raw).file
        return attrs.evolve(schema, schema_str=base64.b64encode(files[-1].SerializeToString()).decode())

    def _imports(self, schema: Schema) -> Iterator[str]:
        for one in schema.references or ():
            found = super().get_version(one.subject, one.version, True).schema
            yield from (*self._imports(found), one.name, found.schema_str)


class Producing:
    """Writes values of one schema: a dict of the columns, for Avro any value.

    Args:
        client: of the registry; schemas are registered there.
        kind: AVRO, JSON or PROTOBUF.
        schema: its text.
        message: of Protobuf the full name of the message.
    """

    def __init__(
        self, client: SchemaRegistryClient, kind: str, schema: str, message: str = "", way: str = "prefix"
    ) -> None:
        conf = {**SUBJECT, "schema.id.serializer": WAYS[way]}
        self._made: Callable[[Any], Any] = lambda value: value
        if kind == AVRO:
            self._serializer: Any = AvroSerializer(client, schema, conf=conf)
        elif kind == JSON:
            self._serializer = JSONSerializer(schema, client, conf=conf)
        else:
            own = judge.kind(schema, message)
            self._made = lambda value: own(**value)
            self._serializer = ProtobufSerializer(own, client, conf)

    def __call__(self, topic: str, side: str, value: Any) -> tuple[bytes, Headers]:
        """The bytes and the headers of a key or value."""
        headers: Headers = []
        raw = self._serializer(self._made(value), SerializationContext(topic, side, headers))
        return raw, headers


def consumed(
    client: SchemaRegistryClient,
    kind: str,
    topic: str,
    side: str,
    raw: bytes,
    cls: Any = None,
) -> Any:
    """What the deserializer makes of a key or value; of Protobuf as columns have it, by the class of the message."""
    context = SerializationContext(topic, side, [])
    if kind == AVRO:
        return AvroDeserializer(client, conf=SUBJECT)(raw, context)
    if kind == JSON:
        return JSONDeserializer(None, schema_registry_client=client, conf=SUBJECT)(raw, context)
    return judge.row(ProtobufDeserializer(cls, SUBJECT, client)(raw, context))
