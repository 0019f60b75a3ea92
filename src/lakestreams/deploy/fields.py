"""Names and types of a job's fields, as databricks-sdk declares them: its dataclasses, walked by their annotations.

Lenient where the Databricks CLI is: a text that reads as a number or as true or false is one, any scalar is a text, and
what is empty is not given. What stands for something that only a deployment knows is not judged.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib.util
import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, Final

_NAMED_BY: Final = ("task_key", "job_cluster_key", "environment_key", "name")
"""What tells the items of a list apart, for messages."""
_OF_BUNDLES: Final = frozenset({"lifecycle", "permissions"})  # not sent: see `bodies`
_OF_THE_CLI: Final = frozenset({"deployment", "edit_mode", "format"})  # the CLI writes them itself
_READS_AS: Final[Mapping[type, tuple[str, str]]] = {
    int: (r"[+-]?\d+", "a whole number, such as 2"),
    float: (r"[+-]?\d+(\.\d*)?", "a number, such as 0.5"),
    bool: (r"(?i)true|false|y|n|yes|no|on|off", "true or false"),
}
_LATER: Final = re.compile(
    r"\$\{.*\}|<\w+\.[\w-]+>"
)  # a reference, and what `read` puts where a deployment makes an id


@dataclass(frozen=True)
class Wrong:
    """A fault of one field.

    Attributes:
        message, hint: for a `BundleInvalid`.
        shape: whether a list, a mapping or a single value stands where another of these belongs.
    """

    message: str
    hint: str
    shape: bool = False


def known() -> bool:
    """Whether databricks-sdk is installed, which knows the fields."""
    return importlib.util.find_spec("databricks") is not None and importlib.util.find_spec("databricks.sdk") is not None


def mistakes(job: Any) -> Iterator[Wrong]:
    """Names that the Jobs API does not know, and values that are of another type; nothing where `known` is not."""
    if not known():
        return
    from databricks.sdk.service.jobs import JobSettings  # noqa: PLC0415 - an optional part

    if isinstance(job, Mapping):
        yield from _fields({key: one for key, one in job.items() if key not in _OF_BUNDLES}, JobSettings, "")
    else:
        yield _misshapen("", job, "a mapping")


def _fields(section: Mapping[Any, Any], kind: type, place: str) -> Iterator[Wrong]:
    hints = _hints(kind)
    names = hints.keys() - (_OF_THE_CLI if not place else ())
    for key, value in section.items():
        if key not in names:
            near = difflib.get_close_matches(str(key), names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(sorted(names))}"
            yield Wrong(f"{place}unknown key {key}", f"{hint} A key that the Jobs API does not know is dropped")
        else:
            yield from _value(value, hints[key], place, str(key))


def _value(value: Any, kind: Any, place: str, name: str) -> Iterator[Wrong]:
    if value is None or kind is Any or (isinstance(value, str) and _LATER.search(value)):
        return
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        (kind,) = (one for one in inner if one is not type(None))
        yield from _value(value, kind, place, name)
    elif origin is list:
        if not isinstance(value, list):
            yield _misshapen(f"{place}{name} ", value, "a list")
            return
        for index, one in enumerate(value):
            yield from _value(one, inner[0], place, _item(name, index, one))
    elif origin is dict or dataclasses.is_dataclass(kind):
        if not isinstance(value, Mapping):
            yield _misshapen(f"{place}{name} ", value, "a mapping")
        elif origin is dict:
            for key, one in value.items():
                yield from _value(one, inner[1], place, f"{name}.{key}")
        else:
            yield from _fields(value, kind, f"{place}{name}: ")
    elif isinstance(value, list | Mapping):
        yield _misshapen(f"{place}{name} ", value, "a single value")
    else:
        yield from _scalar(value, kind, f"{place}{name}")


def _scalar(value: Any, kind: Any, place: str) -> Iterator[Wrong]:
    if isinstance(kind, type) and issubclass(kind, Enum):
        values = [str(one.value) for one in kind]
        if str(value) not in values:
            yield Wrong(f"{place} is {value!r}", f"one of {', '.join(values)}")
    elif kind in _READS_AS:
        pattern, hint = _READS_AS[kind]
        if not re.fullmatch(pattern, str(value)):
            yield Wrong(f"{place} is {value!r}", hint)


def _misshapen(place: str, value: Any, wanted: str) -> Wrong:
    found = "a list" if isinstance(value, list) else "a mapping" if isinstance(value, Mapping) else repr(value)
    return Wrong(f"{place}is {found}", f"{wanted}, as the Jobs API has it", shape=True)


def _item(name: str, index: int, item: Any) -> str:
    """`task enrich`, `job_cluster stream`; of what has no name of its own its place: `libraries[0]`."""
    by = next((key for key in _NAMED_BY if isinstance(item, Mapping) and key in item), None)
    return f"{name}[{index}]" if by is None else f"{name.removesuffix('s')} {item[by]}"


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)
