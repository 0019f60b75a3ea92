"""Makes commands of functions: their options from types, their errors in one form, their exit code."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from lakestreams.cli.ending import exit_code

_JSON = inspect.Parameter(
    "as_json",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--json", help="One JSON value on stdout instead of text.")],
)


def command(function: Callable[..., int]) -> Callable[..., None]:
    """Makes a command of a function that takes a screen, then arguments and options, and returns its exit code.

    A parameter whose type is a dataclass stands for an option per field: Typer sees the fields, the function gets the
    dataclass. `--json` is added as the last option; the screen knows it.
    """
    hints = get_type_hints(function, localns={"Screen": object}, include_extras=True)  # a screen's import is slow
    _, *names = inspect.signature(function).parameters
    groups = {name: hints[name] for name in names if is_dataclass(hints[name])}
    parameters = [one for name in names for one in _parameters(function, name, hints[name])] + [_JSON]

    @functools.wraps(function)
    def whole(*, as_json: bool, **values: Any) -> None:
        from lakestreams.cli.screen import Screen  # noqa: PLC0415 - rich and the configuration, not for --help

        for name, group in groups.items():
            values[name] = group(**{one.name: values.pop(one.name) for one in fields(group)})
        screen = Screen(as_json=as_json)
        if code := exit_code(screen, lambda: function(screen, **values)):
            raise typer.Exit(code)

    whole.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # Typer reads both
    whole.__annotations__ = {one.name: one.annotation for one in parameters}
    return whole


def _parameters(function: Callable[..., int], name: str, hint: Any) -> Iterator[inspect.Parameter]:
    """What Typer sees of one parameter: itself, or the fields of its dataclass."""
    if not is_dataclass(hint):
        yield inspect.signature(function).parameters[name].replace(kind=_JSON.kind, annotation=hint)
        return
    hints = get_type_hints(hint, include_extras=True)
    for one in fields(hint):
        default = inspect.Parameter.empty if one.default is MISSING else one.default
        yield inspect.Parameter(one.name, _JSON.kind, default=default, annotation=hints[one.name])
