"""confluent-kafka's own serializers and deserializers, as independent producers and consumers of the three formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    header_schema_id_serializer,
    prefix_schema_id_serializer,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import SerializationContext
from tests.formats.protobuf import judge

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
