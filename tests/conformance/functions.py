"""The joiners, key mappers and foreign-key extractors that cases name, in plain Python (`meta.conventions`)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.conformance.params import CaseFault

SUM = "left+right as integers"
_FIELD = re.compile(r"\{([^{}]*)\}")
_FIELDS = {"key", "left", "right", "mapped_key", SUM}


def joiner(template: str) -> Callable[..., Any]:
    """Fills `{key}`, `{left}`, `{right}`, `{mapped_key}` in; a template that is one sum alone gives the number.

    Raises:
        CaseFault: the template has a field of another name.
    """
    unknown = set(_FIELD.findall(template)) - _FIELDS
    if unknown:
        raise CaseFault(f"unknown field {min(unknown)!r} in the joiner {template!r}")

    def join(key: Any, left: Any, right: Any, mapped_key: Any = None) -> Any:
        if template == f"{{{SUM}}}":
            return _sum(left, right)
        values = {"key": key, "left": left, "right": right, "mapped_key": mapped_key}
        return _FIELD.sub(
            lambda found: as_text(_sum(left, right) if found[1] == SUM else values[found[1]]),
            template,
        )

    return join


def _sum(left: Any, right: Any) -> int:
    return sum(int(side) for side in (left, right) if side is not None)


def as_text(value: Any) -> str:
    """Text as it is, everything else as JSON: a missing side prints as null."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _after(value: Any, mark: str) -> Any:
    found = value.partition(mark) if isinstance(value, str) else ("", "", "")
    return found[2] if found[1] else None


def _single_pipe(_: Any, value: Any) -> Any:
    return _after(value, "|") if isinstance(value, str) and value.count("|") == 1 else None


def _single_pipe_or_return_null(key: Any, value: Any) -> Any:
    found = _single_pipe(key, value)
    return None if found == "returnNull" else found


FOREIGN_KEYS: Mapping[str, Callable[[Any, Any], Any]] = {
    "pipe1": _single_pipe,
    "pipe1-returnNull": _single_pipe_or_return_null,
    "pipe0": lambda _, value: None if value is None else as_text(value).partition("|")[0],
    "const-null": lambda _, __: None,
    "key-colon0": lambda key, _: None if key is None else as_text(key).partition(":")[0],
}
KEY_MAPPERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "comma1": lambda _, value: _after(value, ","),
    "value": lambda _, value: value,
    "key": lambda key, _: key,
}
