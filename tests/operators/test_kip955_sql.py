"""KIP-955 against SQL: a foreign-key stream-table join is, at each event, SQL's join with the table as it then is.

DuckDB is the judge. It holds the table as a table, table records insert, replace and delete its rows, and each stream
record asks it one query. Random histories over one to four partitions, whole and cut, re-keyed streams too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb
import pytest
from tests.operators.settings import Settings
from tests.operators.wild import Setting, Wild, expected, require_no_faults, run, sides
from tests.reference.records import Record, Result

from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SEED = 20261121
QUERY = """
    select named.id, named.place
    from (select $key as key, $text as text) as event {how} join named on named.refers_to = event.key
    order by encode(named.id)
"""


class SqlJoin:
    """The join of `tests.reference`, answered by DuckDB."""

    def __init__(self, how: str) -> None:
        self._query = QUERY.format(how=how)
        self._rows: dict[int, Record] = {}
        self._sql = duckdb.connect()
        self._sql.execute("create table named (id varchar primary key, refers_to varchar, place bigint)")

    def right(self, record: Record) -> list[Result]:
        if record.value is None:
            self._sql.execute("delete from named where id = $1", [record.key])
        else:
            self._rows[record.offset] = record
            row = [record.key, record.value["to"], record.offset]
            self._sql.execute("insert or replace into named values ($1, $2, $3)", row)
        return []

    def left(self, record: Record) -> list[Result]:
        if record.value is None:
            return []
        event = {"key": record.key, "text": record.value["a"]}
        found = []
        for _, place in self._sql.execute(self._query, event).fetchall():
            row = None if place is None else self._rows[place]
            value = sides(record.key, record.value, None if row is None else row.value)
            found.append(Result(record.key, value, record.ts, record, (record, row)))
        return found


def judged(setting: Setting, how: str) -> Setting:
    return replace(setting, page=lambda: SqlJoin(how))


@pytest.fixture(scope="module", autouse=True)
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("count", "steps"), [(20, 2), pytest.param(40, 3, marks=pytest.mark.soak)])
def test_each_event_gets_what_sql_says(spark: SparkSession, count: int, steps: int) -> None:
    settings, kept, moved = Settings(SEED), Wild(), Wild(counts={"left": 3, "right": 3})
    own = judged(settings.foreign_key_stream("inner"), "inner")
    rekeyed = judged(settings.foreign_key_stream("left", left=settings.rekeyed, rekeyed={"left": 3}), "left")
    lots = [(one, wild.histories(count, f"{SEED}/{one.name}")) for one, wild in ((own, kept), (rekeyed, moved))]
    for setting, histories in lots:
        kinds = [row[5] for one in histories for row in expected(setting, one).rows]
        assert kinds.count("matched") > count, "the histories have something to show"
    require_no_faults(spark, run(spark, lots, steps=steps, seed=SEED), steps=steps, seed=SEED)
