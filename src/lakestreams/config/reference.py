"""Every key of a project's files as tables, from the types that read them: for `docs/pipelines.md`, and of cases."""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from lakestreams.config import cases, formats, models, parts, verbs
from lakestreams.config.steps import STEP, VERBS

_Tables: TypeAlias = tuple[tuple[str, type[BaseModel]], ...]

# What stands inside some steps, behind the step that has it.
_PARTS: Final[dict[type[BaseModel], _Tables]] = {
    verbs.AggregateSpec: (("`windows`", verbs.WindowsSpec), ("An aggregate's column", verbs.AggregatorSpec)),
}


def _of_steps() -> Iterator[tuple[str, type[BaseModel]]]:
    """The keys of each step; steps with the same keys have one table."""
    for spec in dict.fromkeys(kind.spec for kind in VERBS.values()):
        yield ", ".join(f"`{verb}`" for verb, kind in VERBS.items() if kind.spec is spec), spec
        yield from _PARTS.get(spec, ())


_TABLES: Final[_Tables] = (
    ("`sources.yml`", models.SourcesFile),
    ("`kafka`", models.KafkaSpec),
    ("`registry`", models.RegistrySpec),
    ("A topic", models.TopicSpec),
    ("A format: `key` and `value` of a topic", formats.FormatSpec),
    ("`event_time`", models.EventTimeSpec),
    ("`expectations`", models.ExpectationsSpec),
    ("A pipeline's file", models.PipelineFile),
    ("`settings`", models.SettingsSpec),
    ("A step", STEP),
    *_of_steps(),
    ("An output", models.OutputSpec),
)
_CASES: Final[_Tables] = (
    ("A file of cases", cases.CasesFile),
    ("A case", cases.CaseSpec),
    ("A record in `given`", cases.GivenSpec),
    ("A record in `expect`", cases.ExpectedSpec),
    ("A record in `refused`", cases.RefusedSpec),
    ("A row in `table`", cases.RowSpec),
)
# Types whose names say more than what they are made of.
_NAMED: Final[tuple[tuple[Any, str], ...]] = (
    (parts.Duration, "duration"),
    (parts.Size, "size, or bytes"),
    (parts.Columns, "column, columns, or names to SQL"),
    (parts.Select, "names to SQL"),
    (parts.Sql, "text"),
    (parts.Name, "text"),
)
_PLAIN: Final = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`"}


def pipelines_part() -> str:
    """A table for each part of the files: key, what it takes, what it says."""
    return _shown(_TABLES)


def cases_part() -> str:
    """The same of a file of cases."""
    return _shown(_CASES)


def _shown(tables: _Tables) -> str:
    lines: list[str] = []
    for title, model in tables:
        lines += [f"### {title}", "", f"{model.__doc__ or ''}".splitlines()[0], ""]
        lines += ["| key | takes | |", "| --- | --- | --- |", *_rows(model), ""]
    return "\n".join(lines)


def _rows(model: type[BaseModel]) -> Iterator[str]:
    for name, info in model.model_fields.items():
        more = " **Required.**" if info.is_required() else _default(info.default)
        annotation = Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
        what = info.description or next((f"{one.__doc__}".splitlines()[0] for one in _models(info.annotation)), "")
        yield f"| `{info.alias or name}` | {_takes(annotation)} | {_cell(what)}{more} |"


def _default(value: Any) -> str:
    if value is None or isinstance(value, BaseModel) or value in ((), {}) or value is PydanticUndefined:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f" Default `{text}`."


def _takes(annotation: Any) -> str:
    """The words for what a key takes."""
    for named, words in _NAMED:
        if annotation == named:
            return words
    if annotation is Any:
        return "value"
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _takes(inner[0])
    if origin is Literal:
        return ", ".join(f"`{choice}`" for choice in inner)
    if origin in (Union, UnionType):
        return ", ".join(dict.fromkeys(_takes(one) for one in inner if one is not NoneType))
    if origin is tuple:
        return "list of records" if any(_models(annotation)) else "list of names"
    if origin is dict:
        return "names to SQL" if inner[1] == parts.Sql else f"names to {_takes(inner[1])}"
    return _PLAIN.get(annotation, "keys")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
