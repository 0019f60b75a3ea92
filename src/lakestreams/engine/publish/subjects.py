"""Subjects of the topics that are written: their schemas registered, or required to be, before a run starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestreams.errors import RegistryRefused, SchemaMissing
from lakestreams.errors.places import NodePlace
from lakestreams.formats.writers import RegistryFormat
from lakestreams.registry.client import Registry, Schema
from lakestreams.registry.options import RegistryOptions

if TYPE_CHECKING:
    from lakestreams.topology.endpoints import KafkaSink
    from lakestreams.topology.topology import Topology

SIDES = ("key", "value")


def prefixes(topology: Topology, registry: RegistryOptions | None) -> dict[str, dict[str, bytes]]:
    """Topic and side (`key`, `value`) to what stands before each record: a zero byte and the schema's id.

    Raises:
        SchemaMissing: if a subject lacks the declared schema and is not to be given it, or no registry is declared.
        RegistryRefused: if the schema is not compatible with the subject's versions.
        RegistryUnreachable: if the registry does not answer.
    """
    found: dict[str, dict[str, bytes]] = {}
    client = None if registry is None else Registry(registry)
    for sink in topology.kafka_sinks:
        for side in SIDES:
            how = getattr(sink, side)
            if isinstance(how, RegistryFormat):
                number = _id_of(sink, side, how, client)
                found.setdefault(sink.name, {})[side] = b"\0" + number.to_bytes(4, "big")
    return found


def _id_of(sink: KafkaSink, side: str, how: RegistryFormat, client: Registry | None) -> int:
    where = NodePlace("to_kafka", sink.name)
    subject = how.subject or f"{sink.name}-{side}"
    if client is None:
        msg = f"{side}: subject {subject} has the schema's id, and no registry is declared"
        raise SchemaMissing(msg, hint="registry: {url: ...} in conf/sources.yml", where=where)
    own = how.registered
    schema = Schema(own.texts[-1], own.kind)
    known = client.id_of(subject, schema)
    if known is not None:
        return known
    if not how.register:
        msg = f"{side}: subject {subject} does not have the declared schema"
        raise SchemaMissing(msg, hint="register it there, or say register: true", where=where)
    unfit = client.incompatibilities(subject, schema)
    if unfit:
        msg = f"{side}: the declared schema is not compatible with subject {subject}\n" + "\n".join(unfit[:5])
        raise RegistryRefused(msg, where=where)
    return client.register(subject, schema)


__all__ = ["prefixes"]
