"""A source as it could be declared: the lines for the sources' file, and why they are so."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from lakestreams.formats.writers import HEADERS
from lakestreams.infer.registered import Schemas
from lakestreams.infer.side import Column, Side
from lakestreams.infer.sides import side
from lakestreams.kafka.sample import Record
from lakestreams.visible import visible

_TIMES: Final = ("timestamp", "timestamp_ms", "timestamp_us", "timestamp_s")
_DELETED: Final = "__deleted"  # of Debezium's ExtractNewRecordState
_SMALL_RECORDS_PER_KEY: Final = 1.5
_WIDE: Final = 100
_MOST_OF_A_NAME: Final = 100
_LIKE_A_NUMBER: Final = re.compile(r"[-+.]*[0-9][-+.0-9eE]*\Z")


class _Dumper(yaml.SafeDumper):
    """Puts texts in quotes that YAML 1.2 takes for numbers and 1.1, which PyYAML writes, does not: `08` and `1e5`."""


_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _LIKE_A_NUMBER, list("-+.0123456789"))


@dataclass(frozen=True)
class Proposal:
    """How a source could be declared.

    Attributes:
        topic: what it reads.
        name: of the source.
        kind: `stream` or `table`.
        key, value: their formats.
        event_time: a column that may be the time of the event; None: none is.
        notes: what there is to say of it.
    """

    topic: str
    name: str
    kind: str
    key: Side
    value: Side
    event_time: str | None
    notes: tuple[str, ...]

    @property
    def declared(self) -> Mapping[str, Any]:
        """As a file says it, below `topics:`."""
        whole: dict[str, Any] = {"kind": self.kind}
        if self.name != self.topic:
            whole["topic"] = self.topic
        return {self.name: {**whole, "key": self.key.declared, "value": self.value.declared}}

    @property
    def is_whole(self) -> bool:
        """Whether both formats are known."""
        return bool(self.key.format and self.value.format)

    @property
    def lines(self) -> list[str]:
        """The same as lines of YAML, two blanks deep; what is unknown is a comment."""
        ((name, parts),) = self.declared.items()
        found = [f"{name}:"]
        for part, value in parts.items():
            if part in ("key", "value") and "" in value:
                found.append(f"  # {part}: which format?")
            elif part in ("key", "value"):
                found += _format(part, getattr(self, part))
            else:
                found.append(f"  {part}: {_inline(value)}")
        if self.event_time is not None:
            found.append(f"  # event_time: {self.event_time}   the record's own timestamp is used without this line")
        return [f"  {line}" for line in found]


def propose(topic: str, records: Sequence[Record], schemas: Schemas | None = None) -> Proposal:
    """What fits a sample of a topic.

    Args:
        topic: its name.
        records: some of its records.
        schemas: the registry; None: there is none.
    """
    name = re.sub(r"\W+", "_", topic, flags=re.ASCII).strip("_") or "source"
    name = name if name[0].isalpha() else f"topic_{name}"
    heads = {own: [dict(one.headers).get(header) for one in records] for own, header in HEADERS.items()}
    key_name = f"{name.rstrip('s')[:_MOST_OF_A_NAME]}_id".lower()
    key = side([one.key for one in records], key_name, schemas, f"{topic}-key", heads["key"])
    value = side([one.value for one in records], "value", schemas, f"{topic}-value", heads["value"])
    notes = [*(f"key: {one}" for one in key.notes), *(f"value: {one}" for one in value.notes)]
    deleted = sum(one.value is None for one in records)
    keys = [one.key for one in records if one.key is not None]
    marked = next((one.name for one in value.columns if _DELETED in (one.name, one.field)), "")
    kind = "table" if deleted or value.is_change or marked else "stream"
    if marked:
        notes.append(f"rows that {marked} marks are deleted: let a filter of the table take them out (docs/cdc.md)")
    if deleted:
        notes.append(f"{deleted} of {len(records)} values are null, which deletes a row: a table")
    elif kind == "stream" and keys and len(keys) >= _SMALL_RECORDS_PER_KEY * len(set(keys)):
        notes.append(
            f"a key comes {len(keys) / len(set(keys)):.1f} times on average: kind: table, if a record replaces the one before"
        )
    if len(keys) < len(records):
        notes.append(f"{len(records) - len(keys)} of {len(records)} keys are null")
    return Proposal(topic, name, kind, key, value, _event_time(value.columns), tuple(notes))


def _event_time(columns: Sequence[Column]) -> str | None:
    """The column that most likely is the time of the event: the first time that is never null."""
    return next((one.name for one in columns if one.type in _TIMES and one.share == 1), None)


def _format(part: str, own: Side) -> list[str]:
    """A format as lines; what is long has a line for each column, or for each line of a schema's text."""
    if not own.said and own.columns:
        return _columns(part, own, own.columns)
    schema = _schema(own)
    if not schema:
        return [f"  {part}: {_inline(own.declared)}"]
    return [f"  {part}:", *schema, *(f"    {_inline(key)}: {_inline(value)}" for key, value in own.options.items())]


def _schema(own: Side) -> list[str]:
    """A schema of several lines; none if it is none, or has one."""
    fields = own.said.get("fields") if isinstance(own.said, Mapping) else None
    if isinstance(fields, list):
        columns = {one.name: one for one in own.columns}
        said = [f"      {_inline(key)}: {_inline(value)}" for key, value in own.said.items() if key != "fields"]
        each = [f"        - {_inline(one)}{_remark(one, columns)}" for one in fields]
        return [f"    {own.format}:", *said, "      fields:", *each]
    lines = own.said.split("\n") if isinstance(own.said, str) else []
    if len(lines) < 2 or not all(map(_is_literal, lines)):
        return []
    return [f"    {own.format}: |", *(f"      {line}" if line else "" for line in lines[:-1])]


def _remark(field: Any, columns: Mapping[str, Column]) -> str:
    """The column that a field of a schema becomes, as a comment."""
    own = columns.get(str(field.get("name"))) if isinstance(field, Mapping) else None
    if own is None:
        return ""
    return f"  # {own.type}" + (f", such as {visible(own.example)}" if own.example else "")


def _is_literal(line: str) -> bool:
    """Whether a line of text may stand in YAML as it is."""
    return all(sign.isprintable() or sign == "\t" for sign in line)


def _columns(part: str, own: Side, columns: Sequence[Column]) -> list[str]:
    """A format with one column a line, or on one line if that is short."""
    declared = own.declared
    fields = declared.get("fields")
    short = f"  {part}: {_inline({own.format: declared[own.format]})}"
    if len(short) <= _WIDE and fields is None:
        return [short]
    lines = [f"  {part}:", f"    {own.format}: >-"]
    lines += [f"      {one.declared}{',' if one is not columns[-1] else ''}" for one in columns]
    if fields is not None:
        lines.append("    fields:")
        lines += [f"      {_inline(column)}: {_inline(field)}" for column, field in fields.items()]
    return lines


def _inline(value: Any) -> str:
    """A value on one line of YAML."""
    text = yaml.dump(value, Dumper=_Dumper, default_flow_style=True, allow_unicode=True, width=10**6, sort_keys=False)
    return text.removesuffix("\n...\n").rstrip("\n")


__all__ = ["Proposal", "propose"]
