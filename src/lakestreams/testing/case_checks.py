"""Checks a file of cases against its topology: names, numbers of records, times, and values as bytes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lakestreams.config.cases import At, CasesFile, CaseSpec, GivenSpec
from lakestreams.config.compile import Pipeline
from lakestreams.config.load import Document, KeyPath
from lakestreams.errors import (
    ConfigInvalid,
    DuplicateName,
    InvalidOption,
    LakestreamsError,
    UnknownReference,
    WrongKind,
)
from lakestreams.testing.cases import Case, Expected, Suite
from lakestreams.testing.driver import unknown
from lakestreams.testing.encode import encode
from lakestreams.testing.histories import Piped
from lakestreams.times import moment
from lakestreams.topology.durations import to_ms

if TYPE_CHECKING:
    from lakestreams.formats.base import Format
    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.topology import Topology


class Checker:
    """Checks a file's cases against their topology; notes faults in the document."""

    def __init__(self, file: CasesFile, document: Document, topology: Topology, pipeline: Pipeline | None) -> None:
        self._file = file
        self._document = document
        self._topology = topology
        self._pipeline = pipeline
        self._sources = {source.name: source for source in topology.sources}
        self._sinks = {sink.name: sink for sink in topology.outputs}

    def suite(self) -> Suite:
        """The file's cases; of use if no fault was noted."""
        counts: dict[str, int] = {}
        for name, count in self._file.partitions.items():
            if self._known("source", name, self._sources, ("partitions", name)):
                counts[self._sources[name].topic] = count
        self._partitions = counts
        if not self._file.cases:
            self._fault(ConfigInvalid, "cases is empty", ("cases",), "a case has at least a name and given")
        cases = []
        names: set[str] = set()
        for number, spec in enumerate(self._file.cases):
            if spec.name in names:
                self._fault(DuplicateName, "another case has this name, too", ("cases", number), "rename one of them")
            names.add(spec.name)
            cases.append(self._case(spec, ("cases", number)))
        shown = self._document.where().file
        return Suite(shown, self._topology, self._pipeline, counts, tuple(cases))

    def _case(self, spec: CaseSpec, path: KeyPath) -> Case:
        if not spec.expect and not spec.table and spec.refused is None:
            hint = "give it expect, refused or table; refused: [] says that no record is refused"
            self._fault(ConfigInvalid, "the case compares nothing, so it would always pass", path, hint)
        for output in (*spec.expect, *spec.table):
            self._known("output", output, self._sinks, (*path, "expect" if output in spec.expect else "table", output))
        for output in spec.table:
            if output in self._sinks and not self._sinks[output].is_table:
                message = f"the output {output} is a stream: it has no rows at the end"
                self._fault(WrongKind, message, (*path, "table", output), "compare its records with expect")
        given = [self._piped(one, (*path, "given", place)) for place, one in enumerate(spec.given)]
        expect = {
            output: tuple(
                Expected(
                    one.key,
                    one.value,
                    self._ms(one.at, (*path, "expect", output, place, "at")),
                    one.kind,
                    self._place(one.after, spec, (*path, "expect", output, place, "after")),
                )
                for place, one in enumerate(rows)
            )
            for output, rows in spec.expect.items()
        }
        refused = None
        if spec.refused is not None:
            places = [
                self._place(one.record, spec, (*path, "refused", place, "record"))
                for place, one in enumerate(spec.refused)
            ]
            refused = tuple((place or 0, one.code) for place, one in zip(places, spec.refused, strict=True))
        table = {output: tuple((row.key, row.value) for row in rows) for output, rows in spec.table.items()}
        where = self._document.where(path).line_alone
        return Case(spec.name, where, tuple(one for one in given if one is not None), expect, refused, table)

    def _piped(self, spec: GivenSpec, path: KeyPath) -> Piped | None:
        at = self._ms(spec.at, (*path, "at"))
        if not self._known("source", spec.to, self._sources, (*path, "to")):
            return None
        source: Source = self._sources[spec.to]
        if spec.partition >= self._partitions.get(source.topic, 1):
            message = f"{spec.to} has no partition {spec.partition}"
            hint = f"partitions: {{{spec.to}: ...}} at the head of the file says how many it has; 1 if not said"
            self._fault(ConfigInvalid, message, (*path, "partition"), hint)
        key = self._bytes(lambda: raw(_delta_key(spec.key, source), source.key), (*path, "key"))
        value = self._bytes(lambda: raw(spec.value, source.value), (*path, "value"))
        return Piped(spec.to, key, value, at, spec.partition)

    def _bytes(self, make: Callable[[], bytes | None], path: KeyPath) -> bytes | None:
        try:
            return make()
        except InvalidOption as error:
            self._fault(ConfigInvalid, f"{path[-1]}: {error.message}", path, error.hint)
            return None

    def _ms(self, at: At, path: KeyPath) -> int:
        if isinstance(at, int):
            return at
        known = moment(at)
        if known is not None:
            return known
        try:
            return to_ms(at, "at", signed=True)
        except LakestreamsError as error:
            error.where = self._document.where(path)
            self._document.faults.append(error)
            return 0

    def _place(self, number: int | None, spec: CaseSpec, path: KeyPath) -> int | None:
        """The place of a record of `given` by its number from 1."""
        if number is not None and number > len(spec.given):
            message = f"{path[-1]} is {number}; the case gives {len(spec.given)} records"
            self._fault(ConfigInvalid, message, path, "the first given record has the number 1")
        return None if number is None else number - 1

    def _known(self, what: str, name: str, known: Mapping[str, object], path: KeyPath) -> bool:
        if name not in known:
            self._fault(UnknownReference, *_with_path(unknown(what, name, known), path))
        return name in known

    def _fault(self, kind: type[LakestreamsError], message: str, path: KeyPath, hint: str) -> None:
        self._document.faults.append(kind(message, hint=hint, where=self._document.where(path)))


def _with_path(text: tuple[str, str], path: KeyPath) -> tuple[str, KeyPath, str]:
    return text[0], path, text[1]


def _delta_key(value: Any, source: Source) -> Any:
    """A key as its columns, where a Delta table's only key column is given alone."""
    columns = [one.name for one in source.key.fields]
    alone = source.delta is not None and len(columns) == 1 and value is not None and not isinstance(value, dict)
    return {columns[0]: value} if alone else value


def raw(value: Any, how: Format) -> bytes | None:
    """The bytes of a key or value as a file says it.

    Args:
        value: what the format holds; or `{base64: ...}` or `{text: ...}` for bytes, unless it has a column of that name.
        how: the source's format.

    Raises:
        InvalidOption: if it is neither.
    """
    if isinstance(value, dict) and len(value) == 1:
        word, given = next(iter(value.items()))
        if word in ("base64", "text") and word not in {one.name for one in how.fields}:
            return _plain_bytes(word, given)
    try:
        return encode(value, how)
    except InvalidOption as error:
        hint = "write what the format holds (numbers of a text in quotes), or bytes as {base64: ...} or {text: ...}"
        raise InvalidOption(error.message, hint=hint) from None


def _plain_bytes(word: str, value: object) -> bytes:
    if not isinstance(value, str):
        msg = f"{word} is {value!r}, not text"
        raise InvalidOption(msg, hint="put it in quotes")
    if word == "text":
        return value.encode()
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        msg = f"{value!r} is not base64"
        raise InvalidOption(msg, hint="such as {base64: /w==}") from None
