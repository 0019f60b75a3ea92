"""How the Kafka of a sources' file is reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakestreams.config import models
from lakestreams.config.load import Document, KeyPath
from lakestreams.config.parts import Model
from lakestreams.config.registry import part_of
from lakestreams.config.validate import validate
from lakestreams.errors import ConfigInvalid, KafkaOptionRefused, LakestreamsError, TopologyInvalid
from lakestreams.kafka import option_faults
from lakestreams.kafka.options import KafkaOptions

if TYPE_CHECKING:
    from lakestreams.topology.topology import Topology


def load_kafka(path: Path) -> KafkaOptions:
    """How the Kafka of a sources' file is reached; whatever else the file says is not judged.

    Raises:
        ConfigUnreadable, TopologyInvalid: with the faults of this part.
        ConfigInvalid: if the file names no Kafka.
    """
    document = part_of(path, "kafka", "Kafka", "kafka: {bootstrap_servers: host:port}")
    file, _ = validate(_KafkaPart, document)
    faults = [*kafka_faults(document), *document.faults]
    if file is None or faults:
        raise TopologyInvalid(faults)
    return kafka_of(file.kafka, document)


def kafka_of(spec: models.KafkaSpec | None, sources: Document) -> KafkaOptions:
    """How Kafka is reached, by a part without faults; None: no topic is read."""
    if spec is None:
        return KafkaOptions(None)
    options = _options(sources.data)
    return KafkaOptions(spec.bootstrap_servers, options, spec.service_credential, spec.service_credential_scope)


def _options(data: Mapping[str, Any]) -> dict[str, str]:
    """The options as Kafka writes them; values that are no plain values are left to the model's faults."""
    section = data.get("kafka")
    options = section.get("options") if isinstance(section, Mapping) else None
    if not isinstance(options, Mapping):
        return {}
    plain = {str(name): value for name, value in options.items() if isinstance(value, str | int | bool)}
    return {name: models.json_text(value) for name, value in plain.items()}


def kafka_faults(sources: Document) -> Iterator[LakestreamsError]:
    """The faults of the options, one by one, each with its line."""
    section = sources.data.get("kafka")
    kafka = section if isinstance(section, Mapping) else {}
    servers = kafka.get("bootstrap_servers")
    if isinstance(servers, str) and "${" not in servers:
        yield from _placed(option_faults.server_faults(servers), sources, ("kafka", "bootstrap_servers"))
    name, scope = (kafka.get(key) for key in ("service_credential", "service_credential_scope"))
    # what is no text, or not in the environment, is a fault that is reported already
    if all(one is None or (isinstance(one, str) and "${" not in one) for one in (name, scope)):
        for key, fault in option_faults.credential_faults(name, scope):
            yield from _placed([fault], sources, ("kafka", key))
    options = _options(sources.data)
    alone = [
        (option, fault) for option, value in options.items() for fault in option_faults.option_faults(option, value)
    ]
    for option, fault in alone or option_faults.together_faults(options, name):
        yield from _placed([fault], sources, ("kafka", "options", option))


def without_kafka(topology: Topology | None, sources: Document) -> Iterator[LakestreamsError]:
    """The one fault of a pipeline that reads topics without saying where."""
    topics = [source.name for source in topology.sources if source.delta is None] if topology else []
    if topics and "kafka" not in sources.data:
        message = f"the key 'kafka' is missing: {topics[0]} is a topic"
        hint = "kafka: {bootstrap_servers: host:port}, or delta: in place of the topic"
        yield ConfigInvalid(message, hint=hint, where=sources.where())


def _placed(faults: list[LakestreamsError], document: Document, path: KeyPath) -> Iterator[LakestreamsError]:
    for fault in faults:
        # the option's name is part of the message already
        yield KafkaOptionRefused(fault.message, hint=fault.hint, where=document.where(path).line_alone)


class _KafkaPart(Model):
    """The part of a sources' file that is about Kafka."""

    kafka: models.KafkaSpec


__all__ = ["kafka_faults", "kafka_of", "load_kafka", "without_kafka"]
