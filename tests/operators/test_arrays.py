"""Arrow columns as numbers, beside Spark's own answers: which keys are equal, how they are ordered, what values become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators import arrays
from lakestreams.operators.records import CONTRIBUTOR_TYPE, ORDER_TYPE
from lakestreams.operators.stream_stream import frames as stream_stream
from lakestreams.operators.windows import Windowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark type to values in SQL; null is one of each.
VALUES = {
    "string": ["'a'", "'A'", "''", "'a '", "'é'", "'e\u0301'", "'\u0000'", "'a'"],
    "binary": ["x''", "x'00'", "x'0000'", "x'ff'", "x'7f'", "x'00'"],
    "boolean": ["true", "false", "true"],
    "tinyint": ["-128", "127", "0", "-1", "0"],
    "smallint": ["-32768", "32767", "0"],
    "int": ["-2147483648", "2147483647", "0", "-1", "-1"],
    "bigint": ["-9223372036854775808", "9223372036854775807", "0", "-1", "1", "1"],
    "float": ["'NaN'", "0", "-0.0", "'Infinity'", "'-Infinity'", "1.5", "0"],
    "double": ["'NaN'", "0", "-0.0", "'Infinity'", "'-Infinity'", "1.5", "'NaN'"],
    "decimal(10,2)": ["0", "1.10", "1.1", "-1.10", "99999999.99"],
    "decimal(38,18)": ["0", "1.1", "-1.1", "99999999999999999999.999999999999999999", "-0.000000000000000001"],
    "decimal(2,2)": ["0.5", "-0.5", "0"],
    "date": ["'0001-01-01'", "'1582-10-04'", "'1970-01-01'", "'9999-12-31'", "'1970-01-01'"],
    "timestamp": ["'0001-01-02 00:00:00'", "'1900-01-01 00:00:00'", "'2026-10-25 02:30:00.123456'", "'1970-01-01'"],
    "timestamp_ntz": ["'0001-01-01 00:00:00'", "'2026-10-25 02:30:00.123456'", "'1970-01-01'", "'1970-01-01'"],
    "interval day to second": ["interval 1 day", "interval 24 hours", "interval '-1' second"],
    "struct<a: string, b: double>": [
        "named_struct('a', 'x', 'b', -0.0D)", "named_struct('a', 'x', 'b', 0.0D)", "named_struct('a', null, 'b', null)",
        "named_struct('a', null, 'b', double('NaN'))", "named_struct('a', null, 'b', double('NaN'))",
    ],
    "array<double>": ["array()", "array(null)", "array(0.0D)", "array(-0.0D)", "array(double('NaN'))", "array(1D, 2D)", "array(1D)"],
    "array<array<string>>": ["array(array('a', 'b'))", "array(array('a'), array('b'))", "array(array('ab'))", "array(null)"],
    "array<struct<a: date, b: binary>>": ["array(named_struct('a', date'0001-01-01', 'b', x'00'))", "array(null)"],
}  # fmt: skip
# Types that only values can have; variants have a test of their own. Intervals of years and months cannot: PySpark does
# not carry them.
ONLY_VALUES = {
    "map<string, int>": ["map()", "map('a', 1)", "map('a', null)", "map('b', 1, 'a', 2)"],
    "map<string, map<string, array<decimal(5,2)>>>": ["map('a', map('b', array(1.25, null)))", "map('a', null)"],
    "void": ["null"],
}


def column(of: str, values: list[str]) -> str:
    """The values of a type as an array of SQL, null among them, each at a place of its own."""
    cast = "" if of == "void" else f" as {of}"
    return f"array({', '.join(f'cast({one}{cast})' if cast else one for one in [*values, 'null'])})"


@pytest.mark.parametrize("of", VALUES)
def test_keys_are_equal_and_ordered_as_spark_says(spark: SparkSession, of: str) -> None:
    rows = spark.range(0, 1, 1, 1).selectExpr(f"posexplode({column(of, VALUES[of])}) as (place, x)")
    rows = rows.selectExpr("place", "named_struct('x', x) as k")
    matrix = rows.alias("l").crossJoin(rows.alias("r"))
    less = F.expr("l.k < r.k")
    told = matrix.select(
        F.col("l.place").alias("l"), F.col("r.place").alias("r"), F.expr("l.k = r.k").alias("same"), less.alias("less")
    )
    found = told.orderBy("l", "r").collect()
    keys = rows.orderBy("place").toArrow().column("k").combine_chunks()
    size = len(keys)
    numbers, ranks = arrays.key_numbers(keys), arrays._numbered(keys, arrays._ranked)
    assert numbers.min() >= 0
    assert (numbers[:, None] == numbers).tolist() == np.reshape([row["same"] for row in found], (size, size)).tolist()
    assert (ranks[:, None] < ranks).tolist() == np.reshape([row["less"] for row in found], (size, size)).tolist()


def test_keys_of_several_columns() -> None:
    """Numbers of many columns with many values do not fit into one, and are made dense on the way."""
    rng = np.random.default_rng(1)
    table = {f"c{place}": rng.integers(-(1 << 62), 1 << 62, 50).repeat(2) for place in range(9)}
    fields = [pa.array(one) for one in table.values()]
    keys = pa.StructArray.from_arrays(fields, list(table), mask=pa.array(np.arange(100) == 7))
    numbers = arrays.key_numbers(keys)
    assert numbers[7] == -1
    assert len(set(numbers.tolist())) == 51
    assert (numbers[0::2] == numbers[1::2]).sum() == 49
    assert len(arrays.key_numbers(keys.slice(3, 0))) == 0


def test_numbers_of_keys_of_many_fields_stay_small() -> None:
    """Kernels reckon with them: a key of five fields with thousands of values each has not a number in 2^60."""
    field = pa.array(np.arange(20_000) % 4_099)
    names = list("abcde")
    for keys in (
        pa.StructArray.from_arrays([field] * 5, names),
        nested(pa.StructArray.from_arrays([field] * 5, names)),
    ):
        numbers = arrays.key_numbers(keys)
        assert 0 <= numbers.min() <= numbers.max() <= len(keys)
        assert len(set(numbers.tolist())) == 4_099


def test_equal_numbers_take_the_memory_of_one() -> None:
    found = arrays.as_one(np.full(5, 3))
    assert found.tolist() == [3] * 5
    assert (found.strides, found.base.nbytes) == ((0,), 8)
    assert arrays.as_one(np.array([3, 4])).tolist() == [3, 4]
    assert arrays.as_one(np.array([], np.int64)).tolist() == []


def nested(keys: Any) -> Any:
    return pa.StructArray.from_arrays([keys], ["x"])


def test_the_order_of_key_bytes_puts_negative_numbers_last() -> None:
    keys = pa.StructArray.from_arrays([pa.array([-1, 3, -7, 0, None]), pa.array(["b", "a", "é", "", "z"])], ["n", "t"])
    assert np.argsort(arrays.key_ranks(keys)).tolist() == [4, 3, 1, 2, 0]


def test_contributors_are_those_of_the_left_record_then_of_the_right_one() -> None:
    at = pa.struct({"source": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "attempt": pa.int32()})
    orders = pa.array([{"source": "s", "partition": 0, "offset": place, "attempt": 0} for place in range(4)], at)
    both = [{"source": "t", "partition": 1, "offset": place, "attempt": 2} for place in (7, 8)]
    lists = pa.array([None, both, [], None, both], pa.list_(at)).slice(0, 4)
    left, right = np.array([0, 1, -1, 2, 3]), np.array([1, -1, 3, 2, 3])
    found = arrays.contributors(lists, orders, left, right).to_pylist()
    assert [[one["offset"] for one in made] for made in found] == [[0, 7, 8], [7, 8], [3], [], [3, 3]]
    assert {one["source"] for one in found[1]} == {"t"}
    alone = arrays.contributors(pa.nulls(4, lists.type), orders, left, right).to_pylist()
    assert [[one["offset"] for one in made] for made in alone] == [[0, 1], [1], [3], [2, 2], [3, 3]]
    assert len(arrays.contributors(lists.slice(0, 0), orders.slice(0, 0), left[:0], right[:0])) == 0


def test_results_are_handed_over_in_batches_of_bounded_size() -> None:
    values = pa.array(
        [{"a": "x" * (30 << 20), "b": [1]}, {"a": "", "b": None}],
        pa.struct({"a": pa.string(), "b": pa.list_(pa.int8())}),
    )
    sizes = arrays.sizes(values)
    assert sizes.tolist() == [8 + 8 + (30 << 20) + 8 + 8, 8 + 8 + 8]
    slices = list(arrays.batches(sizes[np.array([0, 0, 0, 1, 0])]))
    assert [(one.start, one.stop) for one in slices] == [(0, 2), (2, 5)]
    assert [one.stop - one.start for one in arrays.batches(np.ones(arrays.BATCH_ROWS + 1, np.int64))] == [
        arrays.BATCH_ROWS,
        1,
    ]


def test_values_of_every_type_pass_through_a_worker_unchanged(spark: SparkSession) -> None:
    types = VALUES | ONLY_VALUES
    columns = [
        f"get({column(of, values)}, cast(id as int)) as c{place}" for place, (of, values) in enumerate(types.items())
    ]
    made = spark.range(0, 9, 1, 1).selectExpr("id", *columns)
    values = made.select("id", F.struct(*(f"c{place}" for place in range(len(types)))).alias("v"))
    sides = [side(values, topic) for topic in ("l", "r")]
    found = stream_stream.execute(*sides, Windowed("outer", 0, 0), 1)
    assert found.schema["v"].dataType == values.schema["v"].dataType
    wanted = str(values.orderBy("id").toArrow().column("v").to_pylist())  # NaN equals nothing
    rows = found.orderBy("ts").toArrow()
    assert [str(rows.column(name).to_pylist()) == wanted for name in ("v", "rv")] == [True, True]


VARIANTS = {
    "itself": "parse_json(concat('[', id, ']'))",
    "null at times": "parse_json(nullif(concat('[', id, ']'), '[2]'))",
    "in a list of structs": "array(named_struct('y', parse_json('{\"a\": 1}')))",
    "in a map": "map('y', parse_json('{\"a\": 1}'))",
}


@pytest.mark.connect
@pytest.mark.parametrize("ways", [{}, {"shares": 2}], ids=str)
def test_variants_pass_through_a_worker_beside_a_missing_side(spark: SparkSession, ways: Any) -> None:
    """Spark's own reading of them into Arrow refuses such rows, so they are compared as texts."""
    columns = [f"{sql} as c{place}" for place, sql in enumerate(VARIANTS.values())]
    names = [f"c{place}" for place in range(len(VARIANTS))]
    values = spark.range(0, 9, 1, 1).selectExpr("id", *columns).select("id", F.struct(*names).alias("v"))
    sides = [side(values.where(f"id % {every} = 0"), topic) for topic, every in (("l", 2), ("r", 3))]
    found = stream_stream.execute(*sides, Windowed("outer", 0, 0, **ways), 1)
    texts = dict(values.select("id", F.to_json("v")).collect())
    rows = found.select("ts", F.to_json("v"), F.to_json("rv")).collect()
    of_l, of_r = ({number: texts[number] for number in range(0, 9, every)} for every in (2, 3))
    wanted = [(number, of_l.get(number), of_r.get(number)) for number in sorted(of_l | of_r)]
    assert sorted(map(tuple, rows)) == wanted[:-1]  # the last one waits


def side(values: DataFrame, topic: str) -> DataFrame:
    """Records of these values (`id, v`), each with its number as key, time and offset."""
    at = f"'{topic}' as source, 0 as partition, id as offset, 0 as attempt"
    order = f"struct(1L as cycle, id as stream_time_ms, 1 as side, {at})"
    rows = values.selectExpr(
        "named_struct('k', id) as k", "v", "id as ts", f"{order} as o", "0 as n", "'record' as kind",
        f"array(struct({at})) as contributors", "0 as task",
    )  # fmt: skip
    contributors = F.col("contributors").cast(f"array<{CONTRIBUTOR_TYPE}>")
    return rows.withColumns({"o": F.col("o").cast(ORDER_TYPE), "contributors": contributors})
