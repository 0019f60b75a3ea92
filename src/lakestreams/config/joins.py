"""Declares the joins of a file. Which join it is, and which options it takes, is the Python DSL's to say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakestreams.api.streams import KStream
from lakestreams.api.tables import GlobalKTable
from lakestreams.config.scope import ANY, STREAM_OR_TABLE, Scope
from lakestreams.config.verbs import JoinSpec
from lakestreams.errors import ConfigInvalid, InvalidOption

_MAPPED: Final = {"left_on": "left", "right_on": "right"}
_PLAIN: Final = tuple(name for name in JoinSpec.model_fields if name not in {"left", "right", *_MAPPED})


def declare_join(spec: JoinSpec, scope: Scope, name: str, select: Mapping[str, str] | None) -> Any:
    """The handle of a join; None if the scope is not sound.

    Args:
        spec: its sides and options.
        scope: the step.
        name: of the step.
        select: the columns of its result, if any are given.
    """
    left, right = scope.handle("left", spec.left, STREAM_OR_TABLE), scope.handle("right", spec.right, ANY)
    options: dict[str, Any] = {option: getattr(spec, option) for option in _PLAIN}
    for option, side in _MAPPED.items():
        option_value = getattr(spec, option)
        if option_value is not None:
            options[option] = scope.columns(option_value, getattr(spec, side), scope.at(option))
    joiner = None
    if select is not None:
        joiner = scope.projection(select, (spec.left, spec.right), (*scope.path, "select"))
        _refuse_one_name(spec, scope)
    if isinstance(left, KStream) and isinstance(right, GlobalKTable) and spec.left_on is None:
        hint = f"left_on: a column of {spec.left}, a list of columns, or the table's key columns with SQL expressions"
        scope.fault(InvalidOption, "a stream-global join needs left_on", scope.at(), hint=hint)
    return getattr(left, str(scope.inside))(right, joiner, name=name, **options) if scope.sound else None


def _refuse_one_name(spec: JoinSpec, scope: Scope) -> None:
    if spec.left == spec.right:
        message = f"both sides are {spec.left!r}, so that select cannot tell their columns apart"
        hint = "make a step of one side, such as a map_values with other column names"
        scope.fault(ConfigInvalid, message, scope.at("right"), hint=hint)
