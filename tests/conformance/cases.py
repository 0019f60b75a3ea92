"""Cases as they lie in files: recorded ones (`kafka_streams.json`) and histories, one JSON object a line.

A case that cannot be read is not lost: it has a `fault` and fails. Whatever is not understood counts as a fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from tests.conformance.params import DERIVED, CaseFault, Params, read_params

Rules = Literal["kafka", "strict"]
SECTIONS = ("cases", "extra_cases")
FILE_KEYS = {"meta", *SECTIONS, "partitioner_vectors", "copartition_cases", "record_choice_cases"}
INPUT_KEYS = {"topic", "key", "value", "ts", "offset_order"}
ROW_KEYS = {"key", "value", "ts", "after_input"}


class UnreadableFile(Exception):
    """A file without cases: not there, not JSON, or JSON of another kind."""


@dataclass(frozen=True)
class Input:
    """One record, in the order of arrival over both topics. `partition` is 0 in every recorded case."""

    topic: Literal["left", "right"]
    key: Any
    value: Any
    ts: int
    offset_order: int
    partition: int = 0


@dataclass(frozen=True)
class Row:
    """One result. `old_value` is compared only in cases whose expected rows have one."""

    key: Any
    value: Any
    ts: int
    after_input: int
    old_value: Any = None


@dataclass(frozen=True)
class Case:
    """One topology with one join, its inputs and its results under each rule set."""

    id: str  # unique within a run
    join: str
    how: str
    params: Params = field(default_factory=Params)
    joiner: str = "{left}-{right}"  # a template: see functions.py
    inputs: tuple[Input, ...] = ()
    expected: tuple[Row, ...] = ()  # under the rules `kafka`
    expected_strict: tuple[Row, ...] | None = None
    late_strict: tuple[int, ...] | None = None  # offset_order of the late records
    compares_old: bool = False
    fails: bool = False  # whether Kafka Streams stops with an error, and so must we
    fault: str | None = None  # why it cannot be run
    not_claimed: str | None = None  # why nobody says that it can

    def expected_under(self, rules: Rules) -> tuple[Row, ...]:
        return self.expected if rules == "kafka" else self.expected_strict or ()


def load(paths: Iterable[str | Path]) -> tuple[list[Case], list[UnreadableFile]]:
    """The cases of all files, in their order, and the files that have none that can be read."""
    cases: list[Case] = []
    faults: list[UnreadableFile] = []
    seen: dict[str, int] = {}
    for path in paths:
        try:
            found = load_file(Path(path))
        except UnreadableFile as fault:
            faults.append(fault)
            continue
        for case in found:
            seen[case.id] = seen.get(case.id, 0) + 1
            again = seen[case.id] > 1
            cases.append(replace(case, id=f"{case.id} ({seen[case.id]})") if again else case)
    return cases, faults


def load_file(path: Path) -> list[Case]:
    """The cases of one file.

    Raises:
        UnreadableFile: naming the file and the reason.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableFile(f"{path}: {error}") from error
    try:
        document = json.loads(text)
    except ValueError as error:
        return _load_lines(path, text, error)
    if isinstance(document, dict) and not FILE_KEYS & set(document):
        document = [document]  # one line of JSON lines
    if isinstance(document, list):
        document = {"cases": document}
    if not isinstance(document, dict):
        raise UnreadableFile(f"{path}: holds {type(document).__name__}, not cases")
    found = []
    for section in SECTIONS:
        entries = document.get(section, [])
        if not isinstance(entries, list):
            raise UnreadableFile(f"{path}: {section!r} is no list")
        found += [read_case(raw, f"{path.name}:{section}[{n}]", section) for n, raw in enumerate(entries)]
    if not found:
        raise UnreadableFile(f"{path}: holds no cases")
    return found


def _load_lines(path: Path, text: str, whole: ValueError) -> list[Case]:
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            raw = json.loads(line)
        except ValueError as error:
            reason = f"neither JSON ({whole}) nor JSON lines (line {number}: {error})"
            raise UnreadableFile(f"{path}: {reason}") from error
        found.append(read_case(raw, f"{path.name}:{number}", "cases"))
    if not found:
        raise UnreadableFile(f"{path}: holds no cases")
    return found


def read_case(raw: Any, place: str, section: str = "cases") -> Case:
    """One case; `place` names it where it has no id."""
    if not isinstance(raw, dict):
        return Case(place, "?", "?", fault=f"a case is an object, not {type(raw).__name__}")
    id_, join, how = str(raw.get("id", place)), str(raw.get("join")), str(raw.get("how"))
    if section == "extra_cases" and join not in DERIVED:
        return Case(id_, join, how, not_claimed=f"extra case ({join}): no plain join")
    try:
        return _read_join_case(raw, id_, join, how)
    except CaseFault as fault:
        return Case(id_, join, how, fault=str(fault))


def _read_join_case(raw: Mapping[str, Any], id_: str, join: str, how: str) -> Case:
    params = raw.get("params", {})
    if not isinstance(params, dict):
        raise CaseFault("'params' is no object")
    name = "expected_close" if "expected_close" in raw else "expected"
    expected = _rows(raw, name)
    strict = _rows(raw, "expected_strict") if "expected_strict" in raw else None
    late = raw.get("late_strict", [] if strict is not None else None)
    if late is not None and not (isinstance(late, list) and all(isinstance(one, int) for one in late)):
        raise CaseFault("'late_strict' is no list of numbers")
    return Case(
        id=id_,
        join=join,
        how=how,
        params=read_params(join, how, params),
        joiner=_text(raw, "joiner"),
        inputs=_inputs(raw),
        expected=expected,
        expected_strict=strict,
        late_strict=None if late is None else tuple(late),
        fails="expected_error" in raw,
        compares_old=any("old_value" in row for row in raw[name]),
    )


def _text(raw: Mapping[str, Any], name: str) -> str:
    if not isinstance(raw.get(name), str):
        raise CaseFault(f"{name!r} is no text")
    return str(raw[name])


def _objects(raw: Mapping[str, Any], name: str, needed: set[str], optional: set[str]) -> Sequence[dict[str, Any]]:
    entries = raw.get(name)
    if not isinstance(entries, list):
        raise CaseFault(f"{name!r} is no list")
    for number, entry in enumerate(entries, start=1):
        if not isinstance(entry, dict) or not needed <= set(entry) <= needed | optional:
            raise CaseFault(f"{name!r}, entry {number}: {entry!r} must have {sorted(needed)}")
        for whole in needed & {"ts", "offset_order", "after_input"}:
            if not isinstance(entry[whole], int) or isinstance(entry[whole], bool):
                raise CaseFault(f"{name!r}, entry {number}: {whole!r} is no whole number")
    return entries


def _rows(raw: Mapping[str, Any], name: str) -> tuple[Row, ...]:
    return tuple(Row(**entry) for entry in _objects(raw, name, ROW_KEYS, {"old_value"}))


def _inputs(raw: Mapping[str, Any]) -> tuple[Input, ...]:
    inputs = sorted(
        (Input(**entry) for entry in _objects(raw, "inputs", INPUT_KEYS, {"partition"})),
        key=lambda one: one.offset_order,
    )
    if len({one.offset_order for one in inputs}) < len(inputs):
        raise CaseFault("two inputs have the same 'offset_order'")
    for one in inputs:
        if one.topic not in ("left", "right"):
            raise CaseFault(f"input {one.offset_order} has the unknown topic {one.topic!r}")
        if one.ts < 0:
            raise CaseFault(f"input {one.offset_order} has a negative time, which Kafka Streams refuses")
    return tuple(inputs)
