"""`lakestreams infer`: reads a sample of a topic, and prints how its source could be declared; then reads the sample by that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from rich.text import Text

from lakestreams.cli.screen import Screen, table
from lakestreams.config.formats import FormatSpec
from lakestreams.config.kafka import load_kafka
from lakestreams.config.load import read
from lakestreams.config.registry import AS_WRITTEN, load_registry
from lakestreams.errors import InvalidOption, LakestreamsError, SchemaMissing
from lakestreams.formats.writers import HEADERS, KEYS, RegistryFormat, SchemaName, with_known_schemas
from lakestreams.infer.proposal import Proposal, propose
from lakestreams.infer.registered import DEBEZIUM, Schemas, heads_of
from lakestreams.infer.side import Side
from lakestreams.kafka.options import KafkaOptions
from lakestreams.kafka.sample import Record, newest
from lakestreams.registry.client import Registered, Registry, Schema
from lakestreams.run import failure

_MISFITS: Final = 5  # reasons that are shown of each side


@dataclass(frozen=True)
class Misfit:
    """Why records of the sample are not read by what is proposed."""

    side: str
    records: int
    reason: str


def run(screen: Screen, topic: str, sources: Path, servers: str | None, count: int) -> int:
    """Reads a sample and shows what is proposed; returns the exit code.

    Raises:
        InvalidOption: if the topic has no record.
    """
    kafka = KafkaOptions(servers) if servers is not None and not sources.is_file() else load_kafka(sources)
    screen.secrets.add(kafka)
    options = kafka.spark_options() | ({"kafka.bootstrap.servers": servers} if servers is not None else {})
    with screen.working(f"reading the newest records of {topic}"):
        records, partitions = newest(options, topic, count)
    if not records:
        raise InvalidOption(f"topic {topic} has no record", hint="produce some: lakestreams local produce")
    with screen.working("looking at them"):
        proposal = propose(topic, records, _schemas(screen, sources))
        misfits = [*_misfits("key", proposal.key, [one.key for one in records], records)]
        misfits += _misfits("value", proposal.value, [one.value for one in records], records)
    _show(screen, proposal, len(records), partitions, misfits)
    screen.result(_as_dict(proposal, len(records), misfits))
    return failure.OK if proposal.is_whole else failure.FAILED


def _schemas(screen: Screen, sources: Path) -> Schemas | None:
    """The registry that the sources' file names; None: it names none."""
    if not sources.is_file() or "registry" not in read(sources, keep=AS_WRITTEN).data:
        return None
    options = load_registry(sources)
    screen.secrets.add(options)
    return _Schemas(Registry(options))


@dataclass(frozen=True)
class _Schemas:
    """A registry, of which each is asked once."""

    registry: Registry

    def by_name(self, name: SchemaName) -> Schema | None:
        return self.registry.by_guid(name) if isinstance(name, str) else self.registry.by_id(name)

    def newest(self, subject: str) -> Registered | None:
        try:
            return self.registry.version(subject)
        except SchemaMissing:
            return None


def _misfits(name: str, side: Side, raw: Sequence[bytes | None], records: Sequence[Record]) -> Iterator[Misfit]:
    """What the proposed format says of the sample; one whose schema is still to be pulled says nothing."""
    if not side.format or (side.format in (*KEYS.values(), DEBEZIUM) and not side.columns):
        return
    try:
        how: Any = FormatSpec.model_validate(side.declared).build()
    except (LakestreamsError, ValueError) as error:
        yield Misfit(name, len(raw), f"it cannot be declared: {error}")
        return
    some = pa.array(raw, pa.binary())
    if isinstance(how, RegistryFormat):
        heads = heads_of([dict(one.headers).get(HEADERS[name]) for one in records])
        errors = with_known_schemas(how, side.written, strict=False).decode(some, heads).errors.to_pylist()
    else:
        errors = how.decode(some).errors.to_pylist()
    for reason, count in Counter(one for one in errors if one is not None).most_common(_MISFITS):
        yield Misfit(name, count, reason)


def _show(screen: Screen, proposal: Proposal, count: int, partitions: int, misfits: Sequence[Misfit]) -> None:
    screen.say(f"{proposal.topic}: the newest {count:,} records of {partitions} partitions")
    for name, side in (("key", proposal.key), ("value", proposal.value)):
        if side.columns:
            rows = [(one.name, one.type, f"{one.share:.0%}", one.example) for one in side.columns]
            screen.show(table(name, "type", "not null", "example", rows=rows, right=("not null",)))
    for note in proposal.notes:
        screen.say(Text.assemble(("note", "dim"), f"  {note}"))
    for one in misfits:
        text = f"  {one.records} of {count} {one.side}s are not read: {one.reason}"
        screen.say(Text.assemble(("warning", "yellow"), text))
    screen.say("\nin the sources' file, under topics:\n")
    for line in proposal.lines:
        screen.say(line)


def _as_dict(proposal: Proposal, count: int, misfits: Sequence[Misfit]) -> dict[str, Any]:
    columns: Callable[[Side], list[dict[str, Any]]] = lambda side: [asdict(one) for one in side.columns]  # noqa: E731
    return {
        "topic": proposal.topic,
        "records": count,
        "source": proposal.declared if proposal.is_whole else None,
        "lines": proposal.lines,
        "key": columns(proposal.key),
        "value": columns(proposal.value),
        "notes": list(proposal.notes),
        "not_read": [asdict(one) for one in misfits],
    }


__all__ = ["run"]
