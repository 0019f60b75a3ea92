"""Schemas and events as Debezium's connectors and Kafka Connect's AvroConverter write them, for a table of any columns."""

from __future__ import annotations

from typing import Any

from tests.formats.avro.judge import written

NAME = "shop.public.customers"
SOURCE = {
    "type": "record", "name": "Source", "namespace": "io.debezium.connector.postgresql",
    "fields": [
        {"name": "version", "type": "string"}, {"name": "connector", "type": "string"}, {"name": "ts_ms", "type": "long"},
        {"name": "snapshot", "type": [{"type": "string", "connect.version": 1, "connect.parameters": {"allowed": "first,true,last"},
                                       "connect.default": "false", "connect.name": "io.debezium.data.Enum"}, "null"], "default": "false"},
        {"name": "lsn", "type": ["null", "long"], "default": None},
    ],
    "connect.name": "io.debezium.connector.postgresql.Source",
}  # fmt: skip
BLOCK = {
    "type": "record", "name": "block", "namespace": "event", "connect.version": 1, "connect.name": "event.block",
    "fields": [{"name": "id", "type": "string"}, {"name": "total_order", "type": "long"}, {"name": "data_collection_order", "type": "long"}],
}  # fmt: skip


def semantic(kind: str, name: str, **more: Any) -> dict[str, Any]:
    """A type with a meaning, as the converter writes it; Connect's own have the logical type as well."""
    return {"type": kind, "connect.version": 1, "connect.name": name, **more}


def decimal(scale: int, precision: int | None) -> dict[str, Any]:
    parameters = {"scale": str(scale)} | ({} if precision is None else {"connect.decimal.precision": str(precision)})
    own = {"logicalType": "decimal", "scale": scale, "precision": precision or 64, "connect.parameters": parameters}
    return semantic("bytes", "org.apache.kafka.connect.data.Decimal", **own)


def row(*columns: tuple[str, Any]) -> dict[str, Any]:
    fields = [{"name": name, "type": kind} | ({"default": None} if isinstance(kind, list) and kind[0] == "null" else {}) for name, kind in columns]  # fmt: skip
    return {"type": "record", "name": "Value", "fields": fields, "connect.name": f"{NAME}.Value"}


def envelope(*columns: tuple[str, Any]) -> dict[str, Any]:
    fields = [
        {"name": "before", "type": ["null", row(*columns)], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": SOURCE},
        {"name": "transaction", "type": ["null", BLOCK], "default": None},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ]
    named = {"connect.version": 2, "connect.name": f"{NAME}.Envelope"}
    return {"type": "record", "name": "Envelope", "namespace": NAME, "fields": fields, **named}


def event(schema: dict[str, Any], op: str, after: Any, before: Any = None) -> bytes:
    """A change event."""
    source = {"version": "3.0", "connector": "postgresql", "ts_ms": 1, "snapshot": "false", "lsn": 5}
    block = {"id": "571:5", "total_order": 1, "data_collection_order": 1} if op == "u" else None
    whole = {"before": before, "after": after, "source": source, "transaction": block, "op": op, "ts_ms": 1}
    return written(schema, whole)
