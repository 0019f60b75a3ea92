"""Declares the groups of a file: counts and aggregates of a stream's records or of a table's rows."""

from __future__ import annotations

from typing import Any, Final

from lakestreams.api.streams import KStream
from lakestreams.api.tables import KTable
from lakestreams.config.mappers import Aggregation, Pair
from lakestreams.config.scope import STREAM_OR_TABLE, Scope
from lakestreams.config.verbs import AggregateSpec, CountSpec
from lakestreams.errors import InvalidOption

REKEYED: Final = "_group_by"
"""Behind a step's name, that of the node that makes its groups' key."""
# The keys that groups of the one kind have and those of the other do not, each with what to do instead.
_OF_TABLES: Final = {
    "empty": "leave it out: records only enter a group, so no group becomes empty",
    "value": "write the expressions into columns, such as {sum: amount * 2}",
}
_OF_STREAMS: Final = {
    "windows": "only a stream's records have a time to group by; to_stream turns a table into a stream"
}


def declare_groups(spec: CountSpec, scope: Scope, name: str) -> Any:
    """The handle of a count or an aggregate; None if the scope is not sound.

    Args:
        spec: the input, how it is grouped, and what is made of each group.
        scope: the step.
        name: the step's name. Records of a stream that are grouped by something else than their key are re-keyed
            first, by a node `<name>_group_by`.
    """
    handle = scope.handle("from", spec.from_, STREAM_OR_TABLE)
    if isinstance(handle, KStream):
        _refuse(spec, scope, _OF_TABLES, f"{spec.from_}, a stream")
    elif isinstance(handle, KTable):
        _refuse(spec, scope, _OF_STREAMS, f"{spec.from_}, a table")
    aggregators: list[Any] = []
    if isinstance(spec, AggregateSpec):
        aggregators = [_aggregation(spec, scope)]
    by = _grouping(spec, scope)
    if isinstance(handle, KTable) and by is None:
        hint = "group_by: a column, a list of columns, or names with their SQL expressions"
        scope.fault(InvalidOption, f"{spec.from_} is a table, whose rows need a group_by", scope.at(), hint=hint)
    if not scope.sound:
        return None
    return getattr(_grouped(handle, by, spec, name), str(scope.inside))(*aggregators, name=name, **_options(spec))


def _refuse(spec: CountSpec, scope: Scope, keys: dict[str, str], what: str) -> None:
    for key, hint in keys.items():
        if getattr(spec, key, None) is not None:
            scope.fault(InvalidOption, f"{key} does not fit {what}", scope.at(key), hint=hint)


def _grouping(spec: CountSpec, scope: Scope) -> Any:
    """The function that makes the group's key, of a table perhaps with the value that is aggregated; None: the key."""
    by = None if spec.group_by is None else scope.columns(spec.group_by, spec.from_, scope.at("group_by"))
    value = spec.value if isinstance(spec, AggregateSpec) else None
    if value is None:
        return by
    projected = scope.projection(value, (spec.from_,), scope.at("value"))
    return None if by is None else Pair(by, projected)


def _aggregation(spec: AggregateSpec, scope: Scope) -> Aggregation:
    columns = []
    scope.require_names(spec.columns, scope.at("columns"))
    for name, one in spec.columns.items():
        of = None if one.of is None else scope.expression(one.of, scope.at("columns", name))
        columns.append((name, one.kind, of))
    return Aggregation(tuple(columns), spec.from_)


def _grouped(handle: Any, by: Any, spec: CountSpec, name: str) -> Any:
    if isinstance(handle, KTable):
        return handle.group_by(by)
    grouped = handle.group_by_key() if by is None else handle.group_by(by, name=f"{name}{REKEYED}")
    windows = spec.windows
    if windows is None:
        return grouped
    return grouped.windowed_by(windows.size, advance=windows.advance, **_set_options(grace=windows.grace))


def _options(spec: CountSpec) -> dict[str, Any]:
    return _set_options(emit=spec.emit, empty=spec.empty)


def _set_options(**options: Any) -> dict[str, Any]:
    """The options that are given; the others are the DSL's own defaults."""
    return {name: value for name, value in options.items() if value is not None}
