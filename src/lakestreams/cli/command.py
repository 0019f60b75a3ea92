"""Makes commands of functions: their options from types, their errors in one form, their exit code."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, Final, get_type_hints

import typer
from typer.core import TyperGroup

from lakestreams.cli.ending import exit_code

_JSON = inspect.Parameter(
    "as_json",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--json", help="One JSON value on stdout instead of text.")],
)


_CHECK: Final = "lakestreams check FILE for pipelines, lakestreams check --target dev for a bundle"
ELSEWHERE: Final = {
    "bundle": "databricks bundle deploys it, lakestreams check --target dev checks it, lakestreams init writes one",
    **dict.fromkeys(("build", "compile", "lint", "plan", "validate"), _CHECK),
    **dict.fromkeys(("deploy", "destroy"), "databricks bundle deploy -t dev, databricks bundle destroy -t dev"),
    **dict.fromkeys(("create", "new"), "lakestreams init FOLDER, or lakestreams init pipeline NAME in a project"),
    **dict.fromkeys(
        ("describe", "explore", "topology"), "lakestreams check FILE --explain prints the plan and a drawing"
    ),
    **dict.fromkeys(("dashboard", "ui"), "lakestreams report FILE"),
    **dict.fromkeys(("lag", "logs"), "lakestreams status FILE, or lakestreams status --target dev"),
    **dict.fromkeys(("query", "select", "table"), "lakestreams show TABLE"),
    **dict.fromkeys(("down", "up"), "lakestreams local up, lakestreams local down"),
    **dict.fromkeys(("consume", "produce", "topic"), "lakestreams local topic | produce | consume"),
    **dict.fromkeys(("discard", "replay"), "lakestreams quarantine replay | discard FILE"),
    **dict.fromkeys(
        ("list", "ls", "tables"), "lakestreams show lists tables, lakestreams status --root FOLDER pipelines"
    ),
    "help": "lakestreams --help, or of one command: lakestreams show --help",
}
"""Commands of other tools, and what they are here."""


class Commands(TyperGroup):
    """Commands; of another tool's it says what it is here."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As Typer does it, but an option in front of its command is answered with where it stands."""
        try:
            return super().parse_args(ctx, list(args))
        except Exception as error:  # Typer's own class of it has another place in each version
            named = next((one for one in args if self.get_command(ctx, one) is not None), None)
            option = getattr(error, "option_name", None)
            if type(error).__name__ != "NoSuchOption" or named is None:
                raise
            msg = f"{option} is no option of lakestreams itself. Options of a command follow it: lakestreams {named} {option}"
            return list(ctx.fail(msg))  # it raises

    def resolve_command(
        self, ctx: Any, args: list[str]
    ) -> Any:  # the library of its types is part of Typer or a package of its own
        """As Typer does it, but an unknown one is answered with what to type."""
        if args and self.get_command(ctx, args[0]) is None:
            known = {name: f"Did you mean {name!r}?" for name in self.list_commands(ctx)}
            known |= {name: f"Use: {instead}" for name, instead in ELSEWHERE.items()}
            near = difflib.get_close_matches(args[0], known, n=1)
            ctx.fail(f"No such command {args[0]!r}. {known[near[0]] if near else ''}".rstrip())
        return super().resolve_command(ctx, args)


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
