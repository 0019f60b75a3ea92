"""Declares the outputs of a file: tables and topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from lakestreams.api.streams import KStream
from lakestreams.config.expected import declare_expectations
from lakestreams.config.load import Document
from lakestreams.config.models import OutputSpec
from lakestreams.config.scope import STREAM_OR_TABLE, AnyHandle, Scope, word_of
from lakestreams.errors import InvalidOption, LakestreamsError
from lakestreams.topology.kinds import StreamMode, TableMode


def declare_output(name: str, spec: OutputSpec, document: Document, handles: Mapping[str, AnyHandle]) -> None:
    """Declares an output; faults are noted in the document.

    Args:
        name: the name of the Delta table or topic.
        spec: what the file says of it.
        document: the file, in which faults are noted.
        handles: sources and steps, by name.
    """
    scope = Scope(document, handles, ("outputs", name))
    handle = scope.handle("from", spec.from_, STREAM_OR_TABLE)
    if scope.sound and spec.to == "kafka":
        _declare_topic(name, spec, scope, handle)
    elif scope.sound:
        _declare_table(name, spec, scope, handle)


def _declare_topic(name: str, spec: OutputSpec, scope: Scope, handle: Any) -> None:
    formats = {}
    for side, format_spec in (("key", spec.key), ("value", spec.value)):
        if format_spec is not None:
            try:
                formats[side] = format_spec.build()
            except LakestreamsError as fault:
                scope.fault(type(fault), fault.message, scope.at(side), hint=fault.hint)
    if scope.sound:
        declare_expectations(handle.to_kafka(name, **formats), spec, scope.document, ("outputs", name))


def _declare_table(name: str, spec: OutputSpec, scope: Scope, handle: Any) -> None:
    modes = get_args(StreamMode if isinstance(handle, KStream) else TableMode)
    mode = spec.mode or modes[0]
    what = f"{spec.from_}, a {word_of(handle)}"
    if mode not in modes:
        hint = f"it takes {', '.join(modes)}"
        scope.fault(InvalidOption, f"mode {mode} does not fit {what}", scope.at("mode"), hint=hint)
    if spec.change_feed and isinstance(handle, KStream):
        hint = "it is an option of tables: leave it out"
        scope.fault(InvalidOption, f"change_feed does not fit {what}", scope.at("change_feed"), hint=hint)
    if scope.sound:
        feed = {"change_feed": True} if spec.change_feed else {}
        output = handle.to_delta(name, mode=mode, cluster_by=spec.cluster_by, partition_by=spec.partition_by, **feed)
        declare_expectations(output, spec, scope.document, ("outputs", name))
