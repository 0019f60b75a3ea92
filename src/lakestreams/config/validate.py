"""From a file's plain values to a model: what does not fit becomes faults in plain words, each with its line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lakestreams.config.cases import CasesFile
from lakestreams.config.load import THINGS, Document, KeyPath
from lakestreams.errors import ConfigInvalid, LakestreamsError, UnknownKey

M = TypeVar("M", bound=BaseModel)


def validate(model: type[M], document: Document) -> tuple[M | None, frozenset[KeyPath]]:
    """The document as a model, with every fault noted in the document.

    A source, step or output with a fault is left out of the model, so that the rest can be checked further.

    Returns:
        The model, or None if too little is left of it; and the paths of what was left out.
    """
    data = document.data
    broken: set[KeyPath] = set()
    thinned: set[KeyPath] = set()
    for attempt in range(4):
        try:
            return model.model_validate(data), frozenset(broken)
        except ValidationError as error:
            details = error.errors(include_url=False, include_context=True, include_input=True)
        if attempt > 0:
            # What a thing's keys mean together is judged once each of them is right; not where some were taken out.
            together = [detail for detail in details if detail["type"] == "value_error"]
            document.faults.extend(
                _faults(
                    model, document, [detail for detail in together if _path(detail["loc"], data) not in thinned], data
                )
            )
        else:
            document.faults.extend(_faults(model, document, details, data))
        for path, detail in [(_path(detail["loc"], data), detail) for detail in details]:
            part = path if detail["type"] == "extra_forbidden" else path[:2]
            data = _without(data, part)
            thinned.add(part[:-1])
            if detail["type"] != "extra_forbidden":
                broken.add(part)
    return None, frozenset(broken)


def _without(data: Any, path: KeyPath) -> Any:
    if not path or not isinstance(data, dict) or path[0] not in data:
        return data
    head, rest = path[0], path[1:]
    if not rest:
        return {key: value for key, value in data.items() if key != head}
    return {key: _without(value, rest) if key == head else value for key, value in data.items()}


def _path(loc: tuple[str | int, ...], data: Any) -> KeyPath:
    """The keys as the user wrote them: pydantic adds the names of validators and of a union's members.

    A step may be called `int` as well, and a format that there is not is often spelled `str`: what the data has is a key.
    """
    path: list[str | int] = []
    here = data
    for part in loc:
        is_there = isinstance(here, Mapping) and part in here
        if not is_there and isinstance(part, str) and (part == "[key]" or _MEMBER.search(part)):
            continue
        path.append(part)
        is_item = isinstance(here, list) and isinstance(part, int) and part < len(here)
        here = here[part] if is_there or is_item else None
    return tuple(path)


_MEMBER: Final = re.compile(r"^(?:function-|constrained-|lax-or-strict|str$|int$|bool$|float$)|\[.*\]$")


def _faults(
    model: type[BaseModel], document: Document, details: list[ErrorDetails], data: Any
) -> list[LakestreamsError]:
    faults: list[LakestreamsError] = []
    guessed: set[KeyPath] = set()
    seen: set[KeyPath] = set()
    for detail in details:
        if detail["type"] == "extra_forbidden":
            path = _path(detail["loc"], data)
            known = keys_at(model, path[:-1])
            near = difflib.get_close_matches(str(path[-1]), known, n=1, cutoff=0.5)
            if near:
                guessed.add((*path[:-1], near[0]))
            hint = f"did you mean {near[0]!r}? " if near else ""
            faults.append(
                UnknownKey(
                    f"there is no key {_dotted(path)!r}",
                    hint=f"{hint}known here: {', '.join(known)}",
                    where=document.where(path),
                )
            )
    for detail in details:
        path = _path(detail["loc"], data)
        # a misspelt key is missing under its right name, too; one fault is enough
        if detail["type"] == "extra_forbidden" or (detail["type"] == "missing" and path in guessed) or path in seen:
            continue
        seen.add(path)
        faults.append(ConfigInvalid(_sentence(path, detail), _advice(model, path, detail), document.where(path)))
    return faults


def _advice(model: type[BaseModel], path: KeyPath, detail: ErrorDetails) -> str | None:
    """What to write instead, where that is known."""
    kind, value = detail["type"], detail.get("input")
    if kind == "literal_error":
        choices = re.findall(r"'([^']*)'", str(detail.get("ctx", {}).get("expected", "")))
        near = difflib.get_close_matches(str(value), choices, n=1, cutoff=0.5)
        return f"did you mean {near[0]!r}?" if near else None
    if kind == "string_type" and isinstance(value, int | float):
        return "put quotes around it"
    if kind.startswith(("model", "dict")) and (known := keys_at(model, path)):
        return f"write it as {{key: value}}; its keys: {', '.join(known)}"
    return "see what the key takes: lakestreams explain cases" if model is CasesFile else None


def _dotted(path: KeyPath) -> str:
    """The keys below the thing that `where` already names."""
    below = path[2:] if len(path) > 2 and path[0] in THINGS else path
    return ".".join(str(part + 1) if isinstance(part, int) else part for part in below)


def _sentence(path: KeyPath, detail: ErrorDetails) -> str:
    key = _dotted(path) or "the file"
    kind, context, value = detail["type"], detail.get("ctx", {}), detail.get("input")
    if kind == "missing":
        return f"the key {key!r} is missing"
    if kind == "literal_error":
        choices = str(context.get("expected", "")).replace("'", "").replace(" or ", ", ")
        return f"{key} is {_described(value)}; it is one of {choices}"
    if kind == "value_error":
        return f"{key}: {context.get('error')}" if len(path) > 1 else str(context.get("error"))
    if kind == "string_pattern_mismatch":
        return f"{key} is {_described(value)}; it is written module:function"
    bounds = {"greater_than_equal": ("ge", "at least"), "less_than_equal": ("le", "at most")}
    if kind in bounds:
        name, words = bounds[kind]
        return f"{key} is {_described(value)}; it is {words} {context.get(name)}"
    if kind in ("string_too_short", "too_short", "string_too_long", "too_long"):
        return f"{key} is empty" if kind.endswith("short") else f"{key} is too long"
    wanted = next((words for start, words in _WANTED.items() if kind.startswith(start)), None)
    if wanted is not None:
        return f"{key} is {_described(value)}; it should be {wanted}"
    return f"{key}: {detail['msg']}"


_WANTED: Final = {
    "string": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "model": "a mapping of keys to values",
    "dict": "a mapping of keys to values",
    "tuple": "a list",
    "list": "a list",
}


def _described(value: object) -> str:
    if value is None:
        return "empty"
    if isinstance(value, Mapping):
        return "a mapping of keys to values"
    if isinstance(value, list):
        return "a list"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def keys_at(model: type[BaseModel], path: KeyPath) -> list[str]:
    """The keys that a model knows at a path, as they are written in the file."""
    here: Any = model
    for part in path:
        if isinstance(here, type) and issubclass(here, BaseModel):
            by_key = {info.alias or name: info.annotation for name, info in here.model_fields.items()}
            here = _plain(by_key.get(str(part)))
        elif get_origin(here) is dict:
            here = _plain(get_args(here)[1])
        elif get_origin(here) in (list, tuple):
            here = _plain(get_args(here)[0])
        else:
            return []
    if isinstance(here, type) and issubclass(here, BaseModel):
        return [info.alias or name for name, info in here.model_fields.items()]
    return []


def _plain(annotation: Any) -> Any:
    """The type without Annotated and None."""
    while True:
        if hasattr(annotation, "__metadata__"):
            annotation = get_args(annotation)[0]
            continue
        members = [member for member in get_args(annotation) if member is not type(None)]
        if type(None) in get_args(annotation) and len(members) == 1:
            annotation = members[0]
            continue
        return annotation
