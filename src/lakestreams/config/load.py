"""Reads a configuration file: safely, with line numbers, and with every fault in plain words.

Safely: no YAML tags beyond plain data, a size limit, no aliases that multiply, no doubled keys. Of YAML's many
spellings only those of its version 1.2 count, so `off` and `no` are texts, as they read.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lakestreams.errors import ConfigInvalid, ConfigUnreadable, LakestreamsError, SecretUnresolved, UnknownKey
from lakestreams.expressions.environment import REFERENCE, References, name_of, references_in, value_of

MAX_BYTES: Final = 1024 * 1024
MAX_VALUES: Final = 100_000
MAX_DEPTH: Final = 40

KeyPath: TypeAlias = tuple[str | int, ...]
M = TypeVar("M", bound=BaseModel)


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with fewer implicit types."""


# YAML 1.1 would make False of `off`, 62 of `1:02` and a date of 2024-02-29
_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"^(?:null|~|)$", ["n", "~", ""]),
    ("bool", r"^(?:true|false)$", ["t", "f"]),
    ("int", r"^[-+]?[0-9]+$", list("-+0123456789")),
    ("float", r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]+)?$", list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _first)

_TAGS: Final = {f"tag:yaml.org,2002:{kind}": kind for kind in ("null", "bool", "int", "float", "str", "seq", "map")}


@dataclass
class Document:
    """A file's content, and where each of its values stands.

    Attributes:
        path: the file.
        written: the plain content, references such as `${NAME}` as they are written.
        data: the content with references to the environment resolved, except below `unresolved` keys.
        references: what the references in SQL stand for, which `data` has as they are written.
        lines: path of keys to line, from 1.
        faults: what is wrong with it so far.
    """

    path: Path
    written: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    references: References = field(default_factory=References, repr=False)
    lines: dict[KeyPath, int] = field(default_factory=dict)
    faults: list[LakestreamsError] = field(default_factory=list)

    def where(self, path: KeyPath = ()) -> str:
        """The place of a value: `conf/enrichment.yml:4  step "enriched"`."""
        line = next((self.lines[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self.lines), 1)
        shown = f"{_shown(self.path)}:{line}"
        word = _THINGS.get(str(path[0])) if len(path) > 1 else None
        name = self._name_of(path[:2]) if word else None
        return f'{shown}  {word} "{name}"' if name is not None else shown

    def _name_of(self, path: KeyPath) -> str | None:
        """The name of a step, output or source, which is its key; or of a case, which says it."""
        if isinstance(path[1], str):
            return path[1]
        things = self.written.get(str(path[0]))
        thing = things[path[1]] if isinstance(things, list) and path[1] < len(things) else None
        name = thing.get("name") if isinstance(thing, Mapping) else None
        return None if name is None else str(name)


_THINGS: Final = {"steps": "step", "outputs": "output", "topics": "source", "cases": "case"}


def read(
    path: Path, keep: frozenset[KeyPath] = frozenset(), is_sql: Callable[[KeyPath], bool] = lambda _: False
) -> Document:
    """Reads a file without judging its content.

    Args:
        path: the YAML file.
        keep: key paths below which references are kept as written, to be resolved when they are needed.
        is_sql: of a key path, whether SQL stands there, whose references are kept as written, too, with their values.

    Raises:
        ConfigUnreadable: if it is missing, too large or not YAML. Other faults are collected in the document.
    """
    document = Document(path)
    root = _compose(path)
    if root is None:
        msg = "the file is empty"
        raise ConfigUnreadable(msg, where=_shown(path))
    content = _Reader(document).value(root, ())
    if not isinstance(content, dict):
        msg = "the file is not a mapping of keys to values"
        raise ConfigUnreadable(msg, where=document.where())
    document.written = content
    noted: dict[str, str] = {}
    document.data = _Resolver(document, keep, is_sql, noted).value(document.written, ())
    document.references = References(noted)
    return document


def _compose(path: Path) -> yaml.Node | None:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        msg = f"the file cannot be read: {error.strerror or type(error).__name__}"
        raise ConfigUnreadable(msg, where=_shown(path)) from None
    if len(raw) > MAX_BYTES:
        msg = f"the file is larger than {MAX_BYTES // 1024} KiB"
        raise ConfigUnreadable(msg, hint="a configuration is smaller than that", where=_shown(path))
    try:
        loader = _Loader(raw.decode("utf-8-sig"))
        try:
            node: yaml.Node | None = loader.get_single_node()
        finally:
            loader.dispose()
    except UnicodeDecodeError:
        msg = "the file is not UTF-8 text"
        raise ConfigUnreadable(msg, where=_shown(path)) from None
    except RecursionError:
        msg = "the file is nested too deeply"
        raise ConfigUnreadable(msg, where=_shown(path)) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "syntax error"
        msg = f"this is not YAML: {problem}"
        raise ConfigUnreadable(msg, where=f"{_shown(path)}{line}") from None
    return node


class _Reader:
    """Turns the composed nodes into plain values, counting what aliases multiply."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._values = 0

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        """The plain value of a node; notes its line."""
        document = self._document
        document.lines.setdefault(path, node.start_mark.line + 1)
        self._values += 1
        if self._values > MAX_VALUES or len(path) > MAX_DEPTH:
            msg = "aliases (or nesting) make the file too large"
            raise ConfigUnreadable(msg, hint="write the values out", where=document.where(path))
        kind = _TAGS.get(node.tag)
        if isinstance(node, yaml.MappingNode) and kind == "map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            return [self.value(child, (*path, index)) for index, child in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and kind is not None:
            return _scalar(kind, node.value)
        document.faults.append(ConfigInvalid(f"the YAML tag {node.tag!r} is not read", where=document.where(path)))
        return None

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        document = self._document
        for key_node, value_node in node.value:
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else None
            here = (*path, key or "")
            line = key_node.start_mark.line + 1
            if key is None or key == "<<":
                what = "a key that is not plain text" if key is None else "merge keys (<<) are not read"
                where = f"{document.where(path).split(':')[0]}:{line}"
                document.faults.append(ConfigInvalid(what, hint="write the keys out", where=where))
                continue
            if key in found:
                first = document.lines[here]
                document.lines[here] = line
                msg = f"the key {key!r} is there twice, first in line {first}"
                document.faults.append(
                    ConfigInvalid(msg, hint="remove or rename one of them", where=document.where(here))
                )
                continue
            document.lines[here] = line
            found[key] = self.value(value_node, here)
        return found


def _scalar(kind: str, text: str) -> Any:
    if kind == "null":
        return None
    if kind == "bool":
        return text == "true"
    if kind == "int":
        # int() refuses very long numbers with an error of its own
        return int(text) if len(text) <= 20 else text
    if kind == "float":
        return float(text)
    return text


@dataclass
class _Resolver:
    """Puts the environment's values in the place of references."""

    document: Document
    keep: frozenset[KeyPath]
    is_sql: Callable[[KeyPath], bool]
    noted: dict[str, str]

    def value(self, value: Any, path: KeyPath) -> Any:
        """The value with `${NAME}` and `${NAME:-default}` replaced from the environment; SQL as it is written."""
        if path in self.keep:
            return value
        if isinstance(value, dict):
            return {key: self.value(inner, (*path, key)) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.value(inner, (*path, index)) for index, inner in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        if self.is_sql(path):
            found = {reference: self._look_up(reference, path) for reference in references_in(value)}
            self.noted |= {reference: one for reference, one in found.items() if one is not None}
            return value
        return REFERENCE.sub(lambda match: self._look_up(match[0], path) or match[0], value)

    def _look_up(self, reference: str, path: KeyPath) -> str | None:
        found = value_of(reference)
        if found is None:
            name = name_of(reference)
            hint = f"set it, or give it a default: ${{{name}:-...}}"
            msg = f"the environment variable {name} is not set"
            self.document.faults.append(SecretUnresolved(msg, hint=hint, where=self.document.where(path)))
        return found


# --- from plain values to a model ----------------------------------------------------------------------------------


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
                _faults(model, document, [detail for detail in together if _path(detail["loc"]) not in thinned])
            )
        else:
            document.faults.extend(_faults(model, document, details))
        for detail in details:
            path = _path(detail["loc"])
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


def _path(loc: tuple[str | int, ...]) -> KeyPath:
    """The keys as the user wrote them: pydantic adds the names of validators and of a union's members."""
    return tuple(part for part in loc if not (isinstance(part, str) and (part == "[key]" or _MEMBER.search(part))))


_MEMBER = re.compile(r"^(?:function-|constrained-|lax-or-strict|str$|int$|bool$|float$)|\[.*\]$")


def _faults(model: type[BaseModel], document: Document, details: list[ErrorDetails]) -> list[LakestreamsError]:
    faults: list[LakestreamsError] = []
    guessed: set[KeyPath] = set()
    seen: set[KeyPath] = set()
    for detail in details:
        if detail["type"] == "extra_forbidden":
            path = _path(detail["loc"])
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
        path = _path(detail["loc"])
        # a misspelt key is missing under its right name, too; one fault is enough
        if detail["type"] == "extra_forbidden" or (detail["type"] == "missing" and path in guessed) or path in seen:
            continue
        seen.add(path)
        faults.append(ConfigInvalid(_sentence(path, detail), where=document.where(path)))
    return faults


def _dotted(path: KeyPath) -> str:
    """The keys below the thing that `where` already names."""
    below = path[2:] if len(path) > 2 and path[0] in _THINGS else path
    return ".".join(str(part + 1) if isinstance(part, int) else part for part in below)


def _sentence(path: KeyPath, detail: ErrorDetails) -> str:
    key = _dotted(path) or "the file"
    kind, context, given = detail["type"], detail.get("ctx", {}), detail.get("input")
    if kind == "missing":
        return f"the key {key!r} is missing"
    if kind == "literal_error":
        choices = str(context.get("expected", "")).replace("'", "").replace(" or ", ", ")
        return f"{key} is {_described(given)}; it is one of {choices}"
    if kind == "value_error":
        return f"{key}: {context.get('error')}" if len(path) > 1 else str(context.get("error"))
    if kind == "string_pattern_mismatch":
        return f"{key} is {_described(given)}; it is written module:function"
    bounds = {"greater_than_equal": ("ge", "at least"), "less_than_equal": ("le", "at most")}
    if kind in bounds:
        name, words = bounds[kind]
        return f"{key} is {_described(given)}; it is {words} {context.get(name)}"
    if kind in ("string_too_short", "too_short", "string_too_long", "too_long"):
        return f"{key} is empty" if kind.endswith("short") else f"{key} is too long"
    wanted = next((words for start, words in _WANTED.items() if kind.startswith(start)), None)
    if wanted is not None:
        return f"{key} is {_described(given)}; it should be {wanted}"
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


def _described(given: object) -> str:
    if given is None:
        return "empty"
    if isinstance(given, Mapping):
        return "a mapping of keys to values"
    if isinstance(given, list):
        return "a list"
    text = str(given).lower() if isinstance(given, bool) else repr(given)
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


def _shown(path: Path) -> str:
    """The path as the user knows it: relative to the working directory where it is below it."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()
