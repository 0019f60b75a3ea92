"""Declares the steps and outputs of a file with the handles that a Python topology uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, get_args

from lakestreams.api.streams import KStream
from lakestreams.config.expected import declare_expectations
from lakestreams.config.groups import declare_groups
from lakestreams.config.joins import declare_join
from lakestreams.config.load import Document
from lakestreams.config.mappers import Pair
from lakestreams.config.models import OutputSpec
from lakestreams.config.scope import ANY, STREAM, STREAM_OR_TABLE, TABLE, AnyHandle, Scope, word_of
from lakestreams.config.verbs import (
    FilterSpec,
    FlatMapValuesSpec,
    FromSpec,
    MapSpec,
    MergeSpec,
    RepartitionSpec,
    SelectSpec,
    StepSpec,
    SuppressSpec,
)
from lakestreams.config.wording import placed
from lakestreams.errors import InvalidOption, LakestreamsError
from lakestreams.topology.kinds import StreamMode, TableMode

_Declares: TypeAlias = "Callable[[Any, Scope, str], Any]"


def declare_step(name: str, spec: StepSpec, document: Document, handles: Mapping[str, AnyHandle]) -> AnyHandle | None:
    """The handle of a step; None if a fault is in the way, which is noted in the document.

    Args:
        spec: what the file says of it.
        handles: sources and steps that are declared already, by name.
    """
    scope = Scope(document, handles, ("steps", name), spec.verb)
    made: AnyHandle | None = None
    try:
        if spec.verb in _OF_ONE:
            made = _OF_ONE[spec.verb](spec.part, scope, name)
        else:
            made = declare_join(spec.part, spec.select, scope, name)
    except LakestreamsError as fault:
        document.faults.append(placed(fault, document, scope.at()))
    if made is not None:
        declare_expectations(made, spec, document, ("steps", name))
    return made


def declare_output(name: str, spec: OutputSpec, document: Document, handles: Mapping[str, AnyHandle]) -> None:
    """Declares an output; faults are noted in the document.

    Args:
        name: the name of the Delta table or topic.
        spec, document, handles: as for `declare_step`.
    """
    scope = Scope(document, handles, ("outputs", name))
    handle = scope.handle("from", spec.from_, STREAM_OR_TABLE)
    if scope.sound and spec.to == "kafka":
        _declare_topic(name, spec, scope, handle)
    elif scope.sound:
        _declare_table(name, spec, scope, handle)


def _declare_topic(name: str, spec: OutputSpec, scope: Scope, handle: Any) -> None:
    formats = {}
    for side, given in (("key", spec.key), ("value", spec.value)):
        if given is not None:
            try:
                formats[side] = given.build()
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


# --- steps of one input, and merge -----------------------------------------------------------------------------------


def _filter(spec: FilterSpec, scope: Scope, name: str) -> Any:
    handle = scope.handle("from", spec.from_, ANY)
    predicate = scope.computed(spec.where, spec.from_, scope.at("where"))
    return handle.filter(predicate, name=name) if scope.sound else None


def _map_values(spec: SelectSpec, scope: Scope, name: str) -> Any:
    handle = scope.handle("from", spec.from_, ANY)
    mapper = scope.projection(spec.select, (spec.from_,), scope.at("select"))
    return handle.map_values(mapper, name=name) if scope.sound else None


def _select_key(spec: SelectSpec, scope: Scope, name: str) -> Any:
    handle = scope.handle("from", spec.from_, STREAM)
    mapper = scope.projection(spec.select, (spec.from_,), scope.at("select"))
    return handle.select_key(mapper, name=name) if scope.sound else None


def _map(spec: MapSpec, scope: Scope, name: str) -> Any:
    handle = scope.handle("from", spec.from_, STREAM)
    key, value = (
        scope.projection(part, (spec.from_,), scope.at(side))
        for side, part in (("key", spec.key), ("value", spec.value))
    )
    return handle.map(Pair(key, value), name=name) if scope.sound else None


def _flat_map_values(spec: FlatMapValuesSpec, scope: Scope, name: str) -> Any:
    handle = scope.handle("from", spec.from_, STREAM)
    mapper = scope.computed(spec.each, spec.from_, scope.at("each"))
    return handle.flat_map_values(mapper, name=name) if scope.sound else None


def _merge(spec: MergeSpec, scope: Scope, name: str) -> Any:
    left, right = scope.handle("left", spec.left, STREAM), scope.handle("right", spec.right, STREAM)
    return left.merge(right, name=name) if scope.sound else None


def _repartition(spec: RepartitionSpec, scope: Scope, name: str) -> Any:
    handle = scope.handle("from", spec.from_, STREAM)
    return handle.repartition(spec.partitions, name=name) if scope.sound else None


def _suppress(spec: SuppressSpec, scope: Scope, name: str) -> Any:
    handle = scope.handle("from", spec.from_, TABLE)
    options = {"max_records": spec.max_records, "when_full": spec.when_full}
    given = {option: value for option, value in options.items() if value is not None}
    return handle.suppress(spec.until, name=name, **given) if scope.sound else None


def _plain(takes: tuple[type[AnyHandle], ...]) -> _Declares:
    """A step that takes nothing but its input."""

    def declare(spec: FromSpec, scope: Scope, name: str) -> Any:
        handle = scope.handle("from", spec.from_, takes)
        return getattr(handle, str(scope.inside))(name=name) if scope.sound else None

    return declare


_OF_ONE: Final[dict[str, _Declares]] = {
    "filter": _filter,
    "map_values": _map_values,
    "select_key": _select_key,
    "map": _map,
    "flat_map_values": _flat_map_values,
    "merge": _merge,
    "repartition": _repartition,
    "to_table": _plain(STREAM),
    "to_stream": _plain(TABLE),
    "drop_absent_deletes": _plain(TABLE),
    "count": declare_groups,
    "aggregate": declare_groups,
    "suppress": _suppress,
}
