"""Recorded and random cases of Kafka Streams as frames of the kernels: all cases of a kind in one Spark job.

The case's number is the first column of every key. A record's cycle is its place in the order of arrival, so one batch
has as many cycles as records, and a history can be cut anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance.cases import Case, Input, load
from tests.conformance.functions import FOREIGN_KEYS, KEY_MAPPERS, joiner
from tests.reference.records import TABLE, Record
from tests.reference.tables import make_table

from lakestreams.operators.records import CONTRIBUTOR_TYPE, ORDER_TYPE
from lakestreams.operators.versions import TableSide, live

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CASES = Path(__file__).parents[1] / "conformance" / "cases"
KEY_TYPE = "struct<{0}_case: int, {0}: string>"
STATE, NEW, END = 5, 10, 1_000_000  # places in the order of arrival

Cases = Mapping[int, Case]
Cell = tuple[int, str] | None


def cases_of(join: str, how: str, *, chains: bool = False) -> Cases:
    """The cases of a join that can be run, by number."""
    found, faults = load(sorted(CASES.iterdir()))
    assert not faults
    wanted = [
        case for case in found
        if (case.join, case.how) == (join, how) and not case.fault and not case.params.suppress_side
        and bool(case.params.chain) == chains
    ]  # fmt: skip
    assert wanted, f"there are cases of {how} {join}"
    return dict(enumerate(wanted))


def streams(spark: SparkSession, cases: Cases, *, mapped: bool = False) -> DataFrame:
    """The left side as points; null values never reach a kernel."""
    rows = []
    for number, case in cases.items():
        mapper = KEY_MAPPERS.get(case.params.key_mapper)
        for record in _of(case, "left"):
            if record.value is not None:
                extra = [_cell(number, mapper(record.key, record.value))] if mapped and mapper else []
                rows.append(_row(number, record, 1, extra))
    return frame(spark, rows, "left", {"mapped": KEY_TYPE.format("looked_up")} if mapped else {})


def tables(spark: SparkSession, cases: Cases, topic: str, *, foreign_key: bool = False) -> DataFrame:
    """A side as versions: what the table tells its readers (a versioned or cached table keeps some things back)."""
    rows = []
    for number, case in cases.items():
        versioned = getattr(case.params, f"{topic}_versioned")
        told = make_table(versioned=versioned, retention_ms=case.params.history_retention_ms, cached=case.params.cached)
        for record in _of(case, topic):
            version = Record(topic, 0, record.offset_order, record.ts, record.key, record.value, TABLE)
            if told.put(version) is not None:
                extra = []
                if foreign_key:
                    named = FOREIGN_KEYS[case.params.fk_extractor](record.key, record.value)
                    extra = [_cell(number, None if record.value is None else named)]
                rows.append(_row(number, record, 0, extra))
    return frame(spark, rows, topic, {"fk": KEY_TYPE.format("named")} if foreign_key else {})


def frame(spark: SparkSession, rows: Iterable[Any], topic: str, extra: Mapping[str, str]) -> DataFrame:
    types = {
        "k": KEY_TYPE.format(topic),
        "v": "struct<case: int, json: string>",
        "ts": "bigint",
        "o": ORDER_TYPE,
        "n": "int",
        "kind": "string",
        "contributors": f"array<{CONTRIBUTOR_TYPE}>",
        **extra,
    }
    return spark.createDataFrame(list(rows), ", ".join(f"{name} {type_}" for name, type_ in types.items()))


def _of(case: Case, topic: str) -> list[Input]:
    return [record for record in case.inputs if record.topic == topic]


def _cell(number: int, key: Any) -> Cell:
    return None if key is None else (number, str(key))


def _row(number: int, record: Input, side: int, extra: Sequence[Cell]) -> tuple[Any, ...]:
    at = (record.topic, record.partition, record.offset_order, 0)
    value = None if record.value is None else (number, json.dumps(record.value))
    order = (record.offset_order, record.ts, side, *at)
    return (_cell(number, record.key), value, record.ts, order, 0, "record", [at], *extra)


def between(frame: DataFrame, start: int, end: int) -> DataFrame:
    """The records of these cycles."""
    return frame.where(f"o.cycle >= {start} and o.cycle < {end}")


def in_pieces(
    left: DataFrame, right: DataFrame, run: Callable[[TableSide, TableSide, int], DataFrame]
) -> list[DataFrame]:
    """Two tables' history cut in two: the second piece has a state, changes since, and new ones among them."""
    before = run(*(TableSide(None, between(side, 0, NEW)) for side in (left, right)), 0)
    after = run(*(cut(side) for side in (left, right)), NEW)
    return [before, after]


def cut(rows: DataFrame) -> TableSide:
    """A table as the cycles from `NEW` on find it: the rows that live at `STATE`, and all changes since."""
    return TableSide(live(TableSide(None, between(rows, 0, STATE))), between(rows, STATE, END))


def text(value: Any) -> Any:
    """A value of a frame as the case has it."""
    return None if value is None else json.loads(value.json)


def produced(frames: Iterable[DataFrame], cases: Cases, *, with_old: bool = False) -> dict[int, list[tuple[Any, ...]]]:
    """What came out, by case, in order: (after_input, key, value, ts[, old value])."""
    found: dict[int, list[tuple[Any, ...]]] = {number: [] for number in cases}
    for one in frames:
        rows = one.collect()
        places = [(_case(row), row.o, row.n) for row in rows]
        assert len(set(places)) == len(places), "(o, n) is unique"
        for row in sorted(rows, key=lambda row: (row.o, row.n)):
            case = cases[_case(row)]
            joined = joiner(case.joiner)
            mapped = row.asDict().get("mapped")
            key = row.k and _original(case, row.k[1])
            value = None
            if row.kind != "tombstone":
                value = joined(key, text(row.v), text(row.rv), mapped and mapped[1])
                assert (row.kind == "matched") == (row.v is not None and row.rv is not None)
            result: tuple[Any, ...] = (row.o.cycle, key, value, row.ts)
            if with_old:
                old = None if row.old_kind is None else joined(key, text(row.old_v), text(row.old_rv))
                result += (old,)
            found[_case(row)].append(result)
    return found


def compare(found: Mapping[int, list[tuple[Any, ...]]], cases: Cases) -> None:
    """Fails with the first case that differs."""
    wrong = [number for number, case in cases.items() if [row[:4] for row in found[number]] != wanted(case)]
    if wrong:
        case = cases[wrong[0]]
        lines = [f"{len(wrong)} of {len(cases)} cases differ; {case.id}:", *map(str, case.inputs)]
        lines += ["found:", *map(str, found[wrong[0]]), "wanted:", *map(str, wanted(case))]
        pytest.fail("\n".join(lines))


def wanted(case: Case) -> list[tuple[Any, ...]]:
    return [(row.after_input, row.key, row.value, row.ts) for row in case.expected]


def _case(row: Any) -> int:
    number: int = row.k[0] if row.k is not None else row.v.case
    return number


def _original(case: Case, key: str) -> Any:
    return next(record.key for record in case.inputs if str(record.key) == key)
