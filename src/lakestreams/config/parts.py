"""What the types of all configuration files are made of: names, expressions, durations, and models that refuse the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Final, TypeAlias, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticKnownError

Name: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=249)]
Sql: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]  # also schemas: any longer text
Select: TypeAlias = Annotated[dict[Name, Sql], Field(min_length=1)]


def _duration(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        msg = f"{value} has no unit; a duration is written like 5 minutes or 250 ms"
        raise ValueError(msg)  # noqa: TRY004 - what pydantic collects
    return value


_UNITS: Final = {"": 1, "b": 1, **{f"{unit}{b}": 1 << 10 * n for n, unit in enumerate("kmg", 1) for b in ("b", "ib")}}
_MOST_BYTES: Final = 1 << 50
_SIZE: Final = re.compile(r"\s*(\d+)\s*([a-zA-Z]*)\s*")


def _bytes(value: object) -> object:
    """A size such as `256 MB` in bytes; its units are those of Spark, powers of 1024."""
    match = _SIZE.fullmatch(str(value))
    size = int(match[1]) * _UNITS.get(match[2].lower(), 0) if match is not None else 0
    if not size:
        msg = f"{value!r} is no size; a size is written like 256 MB or 1 GB, or is a number of bytes"
        raise ValueError(msg)
    if size > _MOST_BYTES:
        msg = f"{value!r} is too large; a size is at most {_MOST_BYTES >> 30} GB"
        raise ValueError(msg)
    return size


def _columns(value: object) -> object:
    """One name is a list of one; whatever is none of the three forms is refused in one sentence."""
    parts: list[Any] = [value] if isinstance(value, str) else []
    if isinstance(value, Mapping):
        parts = [part for pair in value.items() for part in pair]
    elif isinstance(value, list):
        parts = value
    if not parts or not all(isinstance(part, str) and part for part in parts):
        msg = "it is a column's name, a list of names, or a mapping of names to SQL expressions"
        raise ValueError(msg)
    return value if isinstance(value, Mapping) else tuple(parts)


# Judged where it is used, by the rules of the Python DSL; only a number, which YAML invites to, is refused here.
Duration: TypeAlias = Annotated[
    str, BeforeValidator(_duration, json_schema_input_type=str), StringConstraints(min_length=1, max_length=100)
]
# In bytes inside.
Size: TypeAlias = Annotated[int, BeforeValidator(_bytes, json_schema_input_type=int | str)]
# Columns that make a key: by their names, or each computed.
Columns: TypeAlias = Annotated[
    tuple[Name, ...] | Select, BeforeValidator(_columns, json_schema_input_type=Name | tuple[Name, ...] | Select)
]


class Model(BaseModel):
    """What all parts share: they do not change, and unknown keys are faults."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        """Pydantic takes true for 1: a share of unreadable records of 1 would stop no run at all."""
        if isinstance(value, bool):
            kinds = set(_kinds(cls.model_fields[str(info.field_name)].annotation))
            if bool not in kinds and kinds & {int, float}:
                raise PydanticKnownError("int_type" if int in kinds else "float_type")
        return value


def _kinds(annotation: Any) -> Iterator[Any]:
    """What a key takes, each of several."""
    if get_origin(annotation) is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, UnionType):
        for one in get_args(annotation):
            yield from _kinds(one)
    else:
        yield annotation


def exactly_one(spec: Model, names: tuple[str, ...], what: str) -> None:
    """Refuses a part that has none, or several, of keys that exclude each other.

    Raises:
        ValueError: in the words of the file.
    """
    keys = {name: info.alias or name for name, info in type(spec).model_fields.items()}
    present = [keys[name] for name in names if getattr(spec, name) is not None]
    if len(present) != 1:
        together = f", not {' and '.join(present)} together" if present else ""
        msg = f"{what} has exactly one of {', '.join(keys[name] for name in names)}{together}"
        raise ValueError(msg)
