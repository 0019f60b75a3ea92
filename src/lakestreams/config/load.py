"""Reads a configuration file: safely, and with the line of every value.

Safely: no YAML tags beyond plain data, a size limit, no aliases that multiply, no doubled keys. Of YAML's many
spellings only those of its version 1.2 count, so `off` and `no` are texts, as they read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml
from yaml.composer import ComposerError

from lakestreams.config.yaml_faults import explained, in_quotes, uncut
from lakestreams.errors import ConfigInvalid, ConfigUnreadable, LakestreamsError, SecretUnresolved
from lakestreams.errors.places import FilePlace
from lakestreams.expressions.environment import REFERENCE, References, name_of, references_in, value_of

MAX_BYTES: Final = 1024 * 1024
MAX_VALUES: Final = 100_000
MAX_DEPTH: Final = 40

# The parts of a file whose entries have names: what one entry is called.
THINGS: Final = {"steps": "step", "outputs": "output", "topics": "source", "cases": "case"}

KeyPath: TypeAlias = tuple[str | int, ...]


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with fewer implicit types, and a bound on nesting that does not depend on the stack."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            msg = f"nested more than {MAX_DEPTH} levels deep"
            raise ComposerError(None, None, msg, self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if not isinstance(event, yaml.AliasEvent):  # YAML 1.2 lets an anchor be set once more; PyYAML refuses it
            self.anchors.pop(getattr(event, "anchor", None), None)
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


# YAML 1.1 would make False of `off`, 62 of `1:02` and a date of 2024-02-29
_Loader.yaml_implicit_resolvers = {}
_WORDS: Final = {
    "null": (re.compile(r"^(?:null|~|)$"), ["n", "~", ""]),
    "bool": (re.compile(r"^(?:true|false)$"), ["t", "f"]),
    "int": (re.compile(r"^[-+]?[0-9]+$"), list("-+0123456789")),
    "float": (
        re.compile(r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]+)?$"),
        list("-+.0123456789"),
    ),
}
for _tag, (_pattern, _first) in _WORDS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, _first)

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

    def where(self, path: KeyPath = ()) -> FilePlace:
        """The place of a value: `conf/enrichment.yml:4  step "enriched"`."""
        line = next((self.lines[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self.lines), 1)
        word = THINGS.get(str(path[0])) if len(path) > 1 else None
        name = self._name_of(path[:2]) if word else None
        return FilePlace(shown(self.path), line, "" if name is None else f'{word} "{name}"')

    def _name_of(self, path: KeyPath) -> str | None:
        """The name of a step, output or source, which is its key; or of a case, which says it."""
        if isinstance(path[1], str):
            return path[1]
        things = self.written.get(str(path[0]))
        thing = things[path[1]] if isinstance(things, list) and path[1] < len(things) else None
        name = thing.get("name") if isinstance(thing, Mapping) else None
        return None if name is None else str(name)


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
        raise ConfigUnreadable(msg, where=shown(path))
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
        raise ConfigUnreadable(msg, where=shown(path)) from None
    if len(raw) > MAX_BYTES:
        msg = f"the file is larger than {MAX_BYTES // 1024} KiB"
        raise ConfigUnreadable(msg, hint="a configuration is smaller than that", where=shown(path))
    try:
        text = raw.decode("utf-8-sig")
        loader = _Loader(text)
        try:
            node: yaml.Node | None = loader.get_single_node()
        finally:
            loader.dispose()
    except UnicodeDecodeError:
        msg = "the file is not UTF-8 text"
        raise ConfigUnreadable(msg, where=shown(path)) from None
    except yaml.YAMLError as error:
        fault = explained(error, text)
        place = shown(path) if fault.line is None else FilePlace(shown(path), fault.line)
        raise ConfigUnreadable(fault.message, hint=fault.hint, where=place) from None
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
            msg = "aliases make the file too large"
            raise ConfigUnreadable(msg, hint="write the values out", where=document.where(path))
        kind = _TAGS.get(node.tag)
        if isinstance(node, yaml.MappingNode) and kind == "map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            return [self.value(child, (*path, index)) for index, child in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and kind not in (None, "map", "seq"):
            if kind in _WORDS and not _WORDS[kind][0].match(node.value):  # its tag says what its text does not
                msg, hint = f"{node.value!r} is no {kind} of YAML", "leave the tag out, or correct the value"
                document.faults.append(ConfigInvalid(msg, hint=hint, where=document.where(path)))
                return None
            return _scalar(str(kind), node.value)
        document.faults.append(ConfigInvalid(f"the YAML tag {node.tag!r} is not read", where=document.where(path)))
        return None

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        document = self._document
        pairs, cut = uncut(node)
        for key_node, meant in cut:
            here = (*path, str(key_node.value))
            document.lines.setdefault(here, key_node.start_mark.line + 1)
            hint = f"put the value in quotes: {key_node.value}: {in_quotes(meant)}"
            msg = f"between braces a comma ends a value, and {key_node.value} has one in it"
            document.faults.append(ConfigInvalid(msg, hint=hint, where=document.where(here)))
        for key_node, value_node in pairs:
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else None
            here = (*path, key or "")
            line = key_node.start_mark.line + 1
            is_plain = isinstance(key_node, yaml.ScalarNode) and key_node.style is None
            if key is None or (key == "<<" and is_plain):  # in quotes it is a key like any other
                what = "a key that is not plain text" if key is None else "merge keys (<<) are not read"
                where = FilePlace(shown(document.path), line)
                document.faults.append(ConfigInvalid(what, hint="write the keys out", where=where))
                continue
            if key in mapping:
                first = document.lines[here]
                document.lines[here] = line
                msg = f"the key {key!r} appears twice, first in line {first}"
                document.faults.append(
                    ConfigInvalid(msg, hint="remove or rename one of them", where=document.where(here))
                )
                continue
            document.lines[here] = line
            mapping[key] = self.value(value_node, here)
        return mapping


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
            values = {reference: self._look_up(reference, path) for reference in references_in(value)}
            self.noted |= {reference: one for reference, one in values.items() if one is not None}
            return value
        return REFERENCE.sub(lambda match: self._look_up(match[0], path) or match[0], value)

    def _look_up(self, reference: str, path: KeyPath) -> str | None:
        value = value_of(reference)
        if value is None:
            name = name_of(reference)
            hint = f"set it, or give it a default: ${{{name}:-...}}"
            msg = f"the environment variable {name} is not set"
            self.document.faults.append(SecretUnresolved(msg, hint=hint, where=self.document.where(path)))
        return value


def shown(path: Path) -> str:
    """The path as the user knows it: relative to the working directory where it is below it."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()
