"""Declares the topics of `conf/sources.yml` on a builder."""

from __future__ import annotations

from lakestreams.api.builder import StreamsBuilder
from lakestreams.api.streams import KStream
from lakestreams.api.tables import GlobalKTable, KTable
from lakestreams.config.expected import declare_expectations
from lakestreams.config.load import Document, KeyPath
from lakestreams.config.models import TopicSpec
from lakestreams.config.wording import placed
from lakestreams.errors import LakestreamsError
from lakestreams.formats.time import EventTime
from lakestreams.topology.durations import to_ms
from lakestreams.topology.endpoints import Source


def declare_topic(
    builder: StreamsBuilder, name: str, spec: TopicSpec, document: Document
) -> KStream | KTable | GlobalKTable | None:
    """The handle of a topic; None if a fault is in the way, which is noted in the document.

    Args:
        builder: collects it.
        spec: what the file says of it.
    """
    handle = _declare(builder, name, spec, document)
    if handle is not None:
        declare_expectations(handle, spec, document, ("topics", name))
    return handle


def _declare(
    builder: StreamsBuilder, name: str, spec: TopicSpec, document: Document
) -> KStream | KTable | GlobalKTable | None:
    path: KeyPath = ("topics", name)
    formats = {}
    for side, format_spec in (("key", spec.key), ("value", spec.value)):
        try:
            formats[side] = format_spec.build()
        except LakestreamsError as fault:
            document.faults.append(placed(fault, document, (*path, side)))
    try:
        to_ms(spec.max_future, "max_future")
        if len(formats) < 2:
            return None
        key, value, topic = formats["key"], formats["value"], spec.topic or name
        changes = spec.changes or Source.changes
        time = EventTime(spec.event_time.field, spec.event_time.fallback) if spec.event_time else None
        if spec.kind == "global_table":
            return builder.global_table(
                topic, key=key, value=value, name=name, event_time=time, max_future=spec.max_future,
                delta=spec.delta, changes=changes, bronze=spec.bronze,
            )  # fmt: skip
        if spec.kind == "table":
            return builder.table(
                topic, key=key, value=value, name=name, event_time=time, max_future=spec.max_future,
                as_of=spec.history is not None, history=spec.history, delta=spec.delta, changes=changes,
                bronze=spec.bronze,
            )  # fmt: skip
        return builder.stream(
            topic, key=key, value=value, name=name, event_time=time, max_future=spec.max_future,
            null_values=spec.null_values or Source.null_values,
            keys_not_null=spec.expectations.keys_not_null if spec.expectations else Source.keys_not_null,
            delta=spec.delta, ignore_changes=bool(spec.ignore_changes), bronze=spec.bronze,
        )  # fmt: skip
    except LakestreamsError as fault:
        document.faults.append(placed(fault, document, path))
        return None
