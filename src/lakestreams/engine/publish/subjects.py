"""Subjects of the topics that are written: their schemas registered, or required to be, before a run starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakestreams.errors import RegistryRefused, SchemaMissing
from lakestreams.errors.places import NodePlace
from lakestreams.formats.protobuf.compiling import files_of
from lakestreams.formats.writers import PROTOBUF, RegistryFormat, prefix_of
from lakestreams.registry.client import Reference, Registry, Schema
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
    result: dict[str, dict[str, bytes]] = {}
    client = None if registry is None else Registry(registry)
    for sink in topology.kafka_sinks:
        for side in SIDES:
            how = getattr(sink, side)
            if isinstance(how, RegistryFormat):
                number = _id_of(sink, side, how, client)
                result.setdefault(sink.name, {})[side] = prefix_of(number)
    return result


def _id_of(sink: KafkaSink, side: str, how: RegistryFormat, client: Registry | None) -> int:
    where = NodePlace("to_kafka", sink.name)
    subject = how.subject or f"{sink.name}-{side}"
    if client is None:
        msg = f"{side}: subject {subject} has the schema's id, and no registry is declared"
        raise SchemaMissing(msg, hint="registry: {url: ...} in conf/sources.yml", where=where)
    own, at = how.registered, _Subjects(client, side, where, register=how.register)
    if own.kind != PROTOBUF or len(own.texts) == 1:
        return at.id_of(subject, Schema(own.texts[-1], own.kind))
    *imported, whole = files_of(own.texts)
    known: dict[str, Reference] = {}
    for file in imported:
        schema = Schema(file.text, own.kind, refers_to=tuple(known[name] for name in file.imports))
        known[file.name] = Reference(file.name, file.name, at.version_of(file.name, schema))
    return at.id_of(subject, Schema(whole.text, own.kind, refers_to=tuple(known[name] for name in whole.imports)))


@dataclass(frozen=True)
class _Subjects:
    """Where the schemas of an output are found, or registered.

    Attributes:
        client: asks the registry.
        side, where: of which output, for messages.
        register: whether a schema is registered that its subject lacks.
    """

    client: Registry
    side: str
    where: NodePlace
    register: bool = field(kw_only=True)

    def id_of(self, subject: str, schema: Schema) -> int:
        """The id of a schema."""
        known = self.client.id_of(subject, schema)
        return self._registered(subject, schema) if known is None else known

    def version_of(self, subject: str, schema: Schema) -> int:
        """The version of a subject that has the schema."""
        known = self.client.version_of(subject, schema)
        if known is None:
            self._registered(subject, schema)
            known = self.client.version_of(subject, schema)
        if known is None:
            msg = f"{self.side}: subject {subject} has taken a schema, and does not find it"
            raise RegistryRefused(msg, where=self.where)
        return known

    def _registered(self, subject: str, schema: Schema) -> int:
        if not self.register:
            msg = f"{self.side}: subject {subject} does not have the declared schema"
            raise SchemaMissing(msg, hint="register it there, or say register: true", where=self.where)
        unfit = self.client.incompatibilities(subject, schema)
        if unfit:
            msg = f"{self.side}: the declared schema is not compatible with subject {subject}\n" + "\n".join(unfit[:5])
            raise RegistryRefused(msg, where=self.where)
        return self.client.register(subject, schema)


__all__ = ["prefixes"]
