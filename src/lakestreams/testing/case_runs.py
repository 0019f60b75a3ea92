"""Runs the cases of `lakestreams test`: all that share a topology in the same Spark jobs, and compares what comes out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampNTZType, TimestampType

from lakestreams.errors import LakestreamsError
from lakestreams.formats.json_text import exact_json
from lakestreams.operators.records import KEY, KIND, PLACE, TIME, VALUE
from lakestreams.operators.workers import coded
from lakestreams.testing.cases import Case, Suite
from lakestreams.testing.difference import difference, text_of
from lakestreams.testing.driver import require_sound
from lakestreams.testing.histories import Histories
from lakestreams.testing.results import Refused, outputs, plain_key, refused

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

_MICROSECONDS: Final = re.compile(r"(\.\d{3})000(Z?)")  # of a time, if it has none


@dataclass(frozen=True)
class Record:
    """What came out, as a file of cases says it; `after` is a place in `given`."""

    key: Any
    value: dict[str, Any] | None
    timestamp: int
    kind: str
    after: int


@dataclass
class Outcome:
    """What became of a case.

    Attributes:
        suite: its file.
        case: the case.
        differences: what was compared (an output, `refused`) to a text that shows how it differs.
        refused: the records that were refused: (place in `given`, step, code).
        error: why it could not be run.
    """

    suite: Suite
    case: Case
    differences: dict[str, str] = field(default_factory=dict)
    refused: tuple[Refused, ...] = ()
    error: Exception | None = None

    @property
    def passed(self) -> bool:
        """Whether everything came out as it should."""
        return self.error is None and not self.differences


def run(suites: Sequence[Suite], spark: SparkSession) -> list[Outcome]:
    """Runs all cases.

    Args:
        suites: the files of cases.

    Returns:
        What became of each case, in order.

    Raises:
        TopologyInvalid: if a topology has faults, with those of the first one that has.
    """
    outcomes = [Outcome(suite, case) for suite in suites for case in suite.cases]
    groups: dict[object, list[Outcome]] = {}
    for one in outcomes:
        same = id(one.suite.topology), tuple(sorted(one.suite.partitions.items()))
        groups.setdefault(same, []).append(one)
    for group in groups.values():
        require_sound(group[0].suite.topology, spark, group[0].suite.partitions)
    for group in groups.values():
        _run_together(group, spark)
    return outcomes


def _run_together(group: Sequence[Outcome], spark: SparkSession) -> None:
    try:
        _compare(group, spark)
    except LakestreamsError:
        raise  # of the topology, not of a case
    except Exception as error:  # noqa: BLE001 - the user's own expressions may fail on a case's records
        if len(group) == 1:
            group[0].error = coded(error)
            return
        for one in group:  # one of them stops the job (a division by zero, say): each alone tells which
            _run_together([one], spark)


def _compare(group: Sequence[Outcome], spark: SparkSession) -> None:
    suite = group[0].suite
    histories = Histories(suite.topology, spark, partitions=suite.partitions, many=True)
    pieces = [replace(piece, history=number) for number, one in enumerate(group) for piece in one.case.given]
    if not pieces:
        found: dict[str, list[list[Record]]] = {sink.name: [[] for _ in group] for sink in suite.topology.outputs}
        gone: list[list[Refused]] = [[] for _ in group]
    else:
        results, unreadable = histories.step(pieces, keeps=False)
        firsts = _firsts(group)
        frames = outputs(results, suite.topology.outputs)
        rows = _rows(frames)
        types = {name: {one: frame.schema[one].dataType for one in (KEY, VALUE)} for name, frame in frames.items()}
        found = {sink.name: [[] for _ in group] for sink in suite.topology.outputs}
        for row in rows:
            number = histories.piped[row["cycle"] - 1].history
            found[row["output"]][number].append(_record(row, types[row["output"]], firsts[number]))
        gone = [[] for _ in group]
        for one in refused(histories, [*results.rejected, *unreadable]):
            number = histories.piped[one.cause].history
            gone[number].append(replace(one, cause=one.cause - firsts[number]))
    for number, outcome in enumerate(group):
        outcome.refused = tuple(gone[number])
        _judge(outcome, {name: records[number] for name, records in found.items()})


def _firsts(group: Sequence[Outcome]) -> list[int]:
    """Where each case's records begin among all."""
    firsts, count = [], 0
    for one in group:
        firsts.append(count)
        count += len(one.case.given)
    return firsts


def _rows(frames: Mapping[str, DataFrame]) -> Sequence[Row]:
    """All outputs' records in one job; keys and values as JSON, so that they are reported as a file tells them."""
    parts = [
        frame.select(
            F.lit(name).alias("output"),
            *(exact_json(F.col(one), nulls=True).alias(one) for one in (KEY, VALUE)),
            *(TIME, KIND, PLACE, "cycle"),
        )
        for name, frame in frames.items()
    ]
    found = reduce(DataFrame.unionByName, parts).collect()
    return sorted(found, key=lambda row: (row["cycle"], row[PLACE]))


def _record(row: Row, types: Mapping[str, DataType], first: int) -> Record:
    key, value = (
        None if row[one] is None else _as_in_files(json.loads(row[one], parse_float=Decimal), types[one])
        for one in (KEY, VALUE)
    )
    return Record(plain_key(key), value, row[TIME], row[KIND], row["cycle"] - 1 - first)


def _as_in_files(value: Any, kind: DataType) -> Any:
    """A value with its times as files tell them: milliseconds, and microseconds where it has any."""
    if value is None:
        return None
    if isinstance(kind, TimestampType | TimestampNTZType):
        return _MICROSECONDS.sub(r"\1\2", value)
    if isinstance(kind, StructType):
        return {one.name: _as_in_files(value.get(one.name), one.dataType) for one in kind}
    if isinstance(kind, ArrayType):
        return [_as_in_files(one, kind.elementType) for one in value]
    if isinstance(kind, MapType):
        return {name: _as_in_files(one, kind.valueType) for name, one in value.items()}
    return value


# --- comparing -----------------------------------------------------------------------------------------------------


def _judge(outcome: Outcome, outputs: Mapping[str, Sequence[Record]]) -> None:
    case = outcome.case
    for output, expected in case.expect.items():
        told = [name for name in ("kind", "after") if any(getattr(one, name) is not None for one in expected)]
        head = ("key", "value", "at", *told)
        got = outputs[output]
        wanted = [_cells(one, told, got[place] if place < len(got) else None) for place, one in enumerate(expected)]
        _note(outcome, output, difference(head, wanted, [_cells(one, told, None) for one in got]))
    if case.refused is not None:
        refused_ = sorted({(one.cause + 1, one.code) for one in outcome.refused})
        _note(outcome, "refused", difference(("record", "code"), _counted(case.refused), refused_))
    for output, rows in case.table.items():
        live: dict[str, tuple[Any, Any]] = {}
        for one in outputs[output]:
            live.pop(text_of(one.key), None)
            if one.value is not None:
                live[text_of(one.key)] = one.key, one.value
        wanted_rows, live_rows = (sorted(given, key=_by_key) for given in (rows, live.values()))
        _note(outcome, f"table {output}", difference(("key", "value"), wanted_rows, live_rows))


def _cells(one: Any, compared: Sequence[str], other: Record | None) -> list[Any]:
    """A record's cells; where the file does not say a further one, it is as it came out."""
    cells = [one.key, one.value, one.timestamp]
    for name in compared:
        given = getattr(one, name)
        if given is None and other is not None:
            given = getattr(other, name)
        cells.append(given + 1 if name == "after" and given is not None else given)
    return cells


def _counted(refused_: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    return sorted((place + 1, code) for place, code in refused_)


def _by_key(row: tuple[Any, Any]) -> str:
    return text_of(row[0])


def _note(outcome: Outcome, what: str, fault: str | None) -> None:
    if fault is not None:
        outcome.differences[what] = fault
