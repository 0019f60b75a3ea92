"""Expressions: the hostile are refused, the honest pass, and Spark gets what the text says."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakestreams.errors import ExpressionRefused, InvalidExpression, LakestreamsError, UnknownColumn
from lakestreams.expressions import functions
from lakestreams.expressions.parse import compile_expression
from lakestreams.topology.fields import Fields

HERE = Path(__file__).parent


def corpus(name: str) -> list[str]:
    """The expressions of a file, one a line; lines that begin with ## say something about the file."""
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("##")]


HONEST, HOSTILE = corpus("honest.txt"), corpus("hostile.txt")
# what one line of a file cannot hold
HOSTILE_LINES = ["", "  ", "page\n; drop table users", "page -- x\n or true", "page\0", "pa\0ge", "`a\0b`", "page\u00a0", "page\u2028",
                 "(" * 3000 + "page" + ")" * 3000, "not " * 3000 + "ok", "n" + " + n" * 4000, "'" + "x" * 20_000 + "'"]  # fmt: skip


def fields(owner: str, columns: str, faults: list[LakestreamsError]) -> Fields:
    return Fields(owner, {name: f"`{owner[0]}`.`{name}`" for name in columns.split()}, faults, "here")


def test_the_corpora_are_large_enough():
    assert len(set(HOSTILE)) >= 200
    assert len(set(HONEST)) >= 200


@pytest.mark.parametrize("text", [*HOSTILE, *HOSTILE_LINES], ids=lambda text: repr(text[:60]))
def test_hostile_is_refused(text):
    with pytest.raises(ExpressionRefused) as caught:
        compile_expression(text, "conf/x.yml:3")
    assert caught.value.where == "conf/x.yml:3"
    assert caught.value.message


@pytest.mark.parametrize("text", HONEST)
def test_honest_passes(text):
    first = compile_expression(text)
    # what was written anew says the same and passes again
    assert compile_expression(first.sql).sql == compile_expression(compile_expression(first.sql).sql).sql


def test_a_refusal_names_the_part_and_its_place():
    with pytest.raises(
        ExpressionRefused, match=r"java_method.* at character 16 is not on the allow-list, in .*coalesce"
    ):
        compile_expression("coalesce(page, java_method('a', 'b'))")


def test_expressions_are_equal_by_what_they_say():
    assert compile_expression("a+B ", "x") == compile_expression("(a + B)", "y")
    assert compile_expression("a + b") != compile_expression("a - b")


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("page", "`v`.`page`"),
        ("views.page", "`v`.`page`"),
        ("region", "`u`.`region`"),
        ("users.region", "`u`.`region`"),
        ("page.a.b", "(`v`.`page`).`a`.`b`"),
        ("views.page.a", "(`v`.`page`).`a`"),
        ("`views`.`page`", "`v`.`page`"),
        ("a + b * c = -d", None),
        ("views.page || users.user", "(`v`.`page` || `u`.`user`)"),
        ("struct(page, region)", "named_struct('page', `v`.`page`, 'region', `u`.`region`)"),
        ("1 + 2 * 3", "(1 + (2 * 3))"),
        ("'it''s \\'\\\\ \\n'", "'it\\'s \\'\\\\ \\n'"),
        ("x between 1 and 2 and y", None),
        ("5000000000L", "CAST(5000000000 AS BIGINT)"),
    ],
)
def test_columns_are_those_of_the_sides(text, sql):
    faults: list[LakestreamsError] = []
    sides = {"views": fields("views", "page user a b c d x y", faults), "users": fields("users", "region user", faults)}
    rendered = compile_expression(text).render(sides)
    assert sql is None or rendered == sql
    assert faults == []


TYPED = {"at": "timestamp", "day": "date", "page": "string", "s": "struct<at:timestamp_ntz>", "n": "bigint"}


@pytest.mark.parametrize(
    "text",
    ["at > 'now'", "'today' = day", "views.at >= ' NOW'", "at in ('2024-01-01', 'yesterday')", "day between 'epoch' and 'today'",
     "s.at < 'now'", "coalesce(at, 'now')", "case when n > 1 then at else 'now' end", "at <=> 'tomorrow'", "day - 'today'",
     "at > '12:30'", "'T9' = at", "at in ('2024-01-01', '9:30')", "coalesce(at, '12:30')", "case when n > 1 then at else '12:30' end",
     "coalesce(at, nullif('12:30', page))"],
)  # fmt: skip
def test_a_text_that_is_the_clock_beside_a_column_of_times_is_refused(text):
    """Spark makes the time of the run of it, so a cycle that is repeated would give something else."""
    views = Fields("views", {name: f"`{name}`" for name in TYPED}, [], "here", TYPED)
    expression = compile_expression(text, "conf/x.yml:3")
    with pytest.raises(ExpressionRefused, match="another one in each run") as caught:
        expression.render({"views": views})
    assert caught.value.where == "conf/x.yml:3"


@pytest.mark.parametrize(
    "text",
    [
        "page = 'now'",
        "page in ('today')",
        "string(at) = 'now'",
        "n = 'now'",
        "coalesce(page, 'now')",
        "at > '2024-01-01'",
        "page > '12:30'",
        "coalesce(page, 'T12')",
        "date_format(at, 'HH:mm') > '12:30'",
        "at > '2024-01-01 12:30'",
    ],
)
def test_the_same_text_beside_texts_and_numbers_is_a_text(text):
    views = Fields("views", {name: f"`{name}`" for name in TYPED}, [], "here", TYPED)
    assert compile_expression(text).render({"views": views})


@pytest.mark.parametrize("text", ["timestamp('12:30')", "cast('12:30' as timestamp)", "to_timestamp('T12:30')"])
def test_a_time_without_its_date_is_told_what_to_write(text):
    with pytest.raises(ExpressionRefused, match=r"12:30'\" has no date; Spark takes the current one") as caught:
        compile_expression(text, "conf/x.yml:3")
    assert caught.value.hint.startswith("write the date, too")


def test_an_unknown_column_is_noted_with_the_rest():
    faults: list[LakestreamsError] = []
    sides = {"views": fields("views", "page user", faults), "users": fields("users", "region user", faults)}
    assert compile_expression("upper(users.regoin)").render(sides) == "upper(null)"
    assert compile_expression("users.regoin.a").render(sides) == "null"
    assert [type(fault) for fault in faults] == [UnknownColumn, UnknownColumn]
    assert "did you mean 'region'" in faults[0].hint
    one: list[LakestreamsError] = []
    compile_expression("_metadata.file_path").render({"views": fields("views", "page", one)})
    assert [type(fault) for fault in one] == [UnknownColumn]


def test_a_column_of_both_sides_or_of_neither_is_a_fault():
    faults: list[LakestreamsError] = []
    sides = {"views": fields("views", "page user", faults), "users": fields("users", "region user", faults)}
    with pytest.raises(InvalidExpression, match="views and of users") as both:
        compile_expression("user", "conf/x.yml:3").render(sides)
    assert both.value.hint == "write views.user or users.user"
    assert both.value.where == "conf/x.yml:3"
    with pytest.raises(UnknownColumn, match="neither side has a column 'nothing'") as neither:
        compile_expression("nothing").render(sides)
    assert neither.value.hint == "views has: page, user; users has: region, user"
    with pytest.raises(UnknownColumn) as neither:
        compile_expression("regoin").render(sides)
    assert neither.value.hint.startswith("did you mean 'region'? views has: ")


@given(st.text(max_size=60))
@settings(max_examples=300)
def test_any_text_is_an_expression_or_refused(text):
    with contextlib.suppress(ExpressionRefused):
        compile_expression(text)


@given(st.lists(st.sampled_from([*"abc", "1", "'t'", *"+-*/%=<>()|&^~!,.[]:", "||", "and", "or", "not", "is", "null", "in", "like",
                                 "between", "case", "when", "then", "end", "cast(", "as int)", "upper(", "reflect(", "select",
                                 "interval", "day", "date"]), max_size=12))  # fmt: skip
@settings(max_examples=500)
def test_what_passes_is_stable_and_calls_only_what_is_listed(parts):
    try:
        once = compile_expression(" ".join(parts))
    except ExpressionRefused:
        return
    assert "reflect" not in once.sql
    assert "select" not in once.sql.replace("`select`", "")
    assert compile_expression(once.sql).columns == once.columns


@given(st.text(max_size=30))
@settings(max_examples=200)
def test_a_text_literal_keeps_its_content(content):
    written = "'" + content.replace("\\", "\\\\").replace("'", "\\'") + "'"
    try:
        once = compile_expression(written)
    except ExpressionRefused:
        assert "\0" in content or any(0xD800 <= ord(sign) <= 0xDFFF for sign in content)
        return
    assert compile_expression(once.sql).sql == once.sql


# --- in Spark ------------------------------------------------------------------------------------------------------

ROWS = """select * from values
 ('/home', 'alice', cast(null as string), 1709208000000L, 1, 1.5D, cast(12.34 as decimal(10,2)), true, date'2024-02-29',
  timestamp'2024-02-29 12:34:56', array('a', 'b'), map('k', 'v'),
  named_struct('city', 'Bonn', 'geo', named_struct('lat', 50.7D, 'lon', 7.1D)), '{"a":1,"b":"x"}'),
 ('/cart', 'bob', 'eu', 1709208000001L, 2, 2.25D, cast(0.10 as decimal(10,2)), false, date'2023-12-31',
  timestamp'2023-12-31 23:59:59', array('b', 'c', 'b'), map('k', 'w'),
  named_struct('city', 'Oslo', 'geo', named_struct('lat', 59.9D, 'lon', 10.7D)), '{"a":2}')
 as views(page, user, region, ms, n, price, amount, ok, day, at, tags, attrs, address, js)"""


@pytest.mark.slow
def test_spark_gets_what_the_text_says(spark):
    """Type and value of the text itself and of what was written anew, for every honest expression, in one job."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

    rows = spark.sql(ROWS)
    names = rows.columns
    frame = rows.select(F.struct(*names).alias("v"), *names).alias("views")
    faults: list[LakestreamsError] = []
    sides = {"views": Fields("views", {name: f"`v`.`{name}`" for name in names}, faults, "here")}
    anew = [compile_expression(text).render(sides) for text in HONEST]
    assert faults == []
    raw = frame.select(*(F.expr(text).alias(f"c{index}") for index, text in enumerate(HONEST)))
    ours = frame.select(*(F.expr(text).alias(f"c{index}") for index, text in enumerate(anew)))
    types = [(HONEST[i], a.dataType, b.dataType) for i, (a, b) in enumerate(zip(raw.schema, ours.schema, strict=True))]
    assert [case for case in types if case[1] != case[2]] == []
    # Spark 4.0 joins two literals there; what is written anew says which is meant
    doubled = "''" if spark.version < "4.1" else None
    for left, right in zip(raw.collect(), ours.collect(), strict=True):
        different = [
            (HONEST[i], anew[i], a, b)
            for i, (a, b) in enumerate(zip(left, right, strict=True))
            if repr(a) != repr(b) and not (doubled and doubled in HONEST[i])
        ]
        assert different == []


def test_every_listed_function_is_one_of_sparks(spark):
    known = {row[0] for row in spark.sql("show functions").collect()}
    later = {"try_to_date"} if spark.version < "4.1" else set()  # written with others
    # the other two are syntax rather than registered functions
    assert functions.FUNCTIONS - known == {"timestampadd", "timestampdiff"} | later


@pytest.mark.lts
def test_a_date_that_may_be_none_is_read_on_every_spark(spark):
    """Spark 4.0 has no try_to_date, and what only judges is written with it."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

    sides = {"views": Fields("views", {"t": "t"}, [], "here")}
    texts = [("try_to_date(t)", False), ("to_date(t)", True), ("try_to_date(t, 'dd.MM.yyyy')", False)]
    columns = [F.expr(compile_expression(text).render(sides, tolerant=tolerant)).cast("string").alias(f"c{place}")
               for place, (text, tolerant) in enumerate(texts)]  # fmt: skip
    rows = spark.sql("select * from values ('2024-02-29'), ('29.02.2024'), ('30.02.2024'), ('x'), (null) as x(t)")
    day, none = "2024-02-29", None
    found = [tuple(row) for row in rows.select(*columns).collect()]
    assert found == [(day, day, none), (none, none, day), *[(none, none, none)] * 3]


def test_texts_of_special_times_are_no_times_in_a_cast(spark):
    """Only literals such as DATE 'today' ask for the clock, so a column's text cannot."""
    row = spark.sql(
        "select try_cast(t as timestamp), try_cast(t as date) from values ('now'), ('today') as x(t)"
    ).collect()
    assert all(value is None for pair in row for value in pair)


def test_a_columns_time_without_its_date_is_on_the_day_of_the_run_unless_a_format_or_a_pattern_keeps_it_out(spark):
    """As docs/expressions.md says. A record's text is not seen when an expression is checked."""
    sides = {"views": Fields("views", {"t": "t"}, [], "here")}
    texts = ["cast(t as timestamp)", "t::timestamp", "to_timestamp(t)", "try_cast(t as timestamp)",
             "case when t like '____-%' then cast(t as timestamp) end", "to_timestamp(t, 'HH:mm')"]  # fmt: skip
    columns = ", ".join(f"string({compile_expression(text).render(sides)})" for text in texts)
    row = spark.sql(f"select {columns} from values ('12:30') as x(t)").collect()[0]
    assert [found[-8:] for found in row[:4]] == ["12:30:00"] * 4
    assert all(found > "2024" for found in row[:4])
    assert tuple(row[4:]) == (None, "1970-01-01 12:30:00")
