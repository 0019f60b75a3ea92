"""walk.check: what a session can say of a topology before anything runs; several faults at once, no Spark job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812

from lakestreams import Json, Long, StreamsBuilder, Text, agg
from lakestreams.errors import InvalidExpression, InvalidName, KeyTypeMismatch, TopologyInvalid, UnknownColumn
from lakestreams.evaluate import walk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEW = Json("ms bigint, page string")


def declared(name: str = "p"):
    builder = StreamsBuilder(name)
    return (
        builder,
        builder.stream("PageViews", key=Text("user"), value=VIEW),
        builder.table("UserProfiles", key=Text("user"), value=Text("region")),
    )


def columns(frame) -> list[str]:
    return [
        f"{field.name} {field.dataType.simpleString()}" for field in frame.schema.fields if field.name != "_lineage"
    ]


def test_a_sound_topology_gives_its_outputs_columns(spark: SparkSession) -> None:
    builder, views, users = declared()
    views.left_join(users, lambda view, user: {"page": view.page, "region": user.region}).to_delta("joined")
    views.to_delta("plain")
    outputs, faults = walk.check(builder.build(), spark)
    assert faults == []
    assert columns(outputs["joined"]) == ["user string", "page string", "region string", "event_time_ms bigint"]
    assert columns(outputs["plain"]) == ["user string", "ms bigint", "page string", "event_time_ms bigint"]
    lineage = outputs["joined"].schema["_lineage"].dataType.simpleString()
    assert lineage == outputs["plain"].schema["_lineage"].dataType.simpleString()
    assert lineage.startswith("struct<cycle:bigint,trigger:struct<stream_time_ms:bigint,side:int,source:string,")


def test_several_faults_at_once_each_at_its_step(spark: SparkSession) -> None:
    builder, views, users = declared()
    by_number = builder.table("Numbers", key=Long("id"), value=Text("region"))
    views.map_values(lambda view: {"p": view.pag, "q": view["usr"]}, name="misspelt")
    views.join(by_number, name="mistyped")
    views.filter(lambda view: view.page, name="no_boolean")
    views.map_values(lambda view: {"x": view.page["nested"]}, name="unfitting")
    views.map_values(lambda view: view.page, name="no_dict")
    views.map_values(lambda _: {}, name="nothing")
    views.join(users, lambda view, user: [view.page, user.region], name="joined_to_a_list")
    views.map_values(lambda view: {"page": view.page, "Page": view.ms}, name="capitals")
    views.select_key(lambda view: {"key": view.key}, name="keyless")
    views.map_values(lambda view: {"event_time_ms": view.ms, "_Lineage": view.page}, name="reserving").to_delta("taken")
    views.to_delta("laid_out", cluster_by=["usr"])
    views.to_delta("sound")
    outputs, faults = walk.check(builder.build(), spark)
    found = [(type(fault), fault.where) for fault in faults]
    assert found == [
        (UnknownColumn, 'map_values "misspelt"'),
        (UnknownColumn, 'map_values "misspelt"'),
        (KeyTypeMismatch, 'join "mistyped"'),
        (InvalidExpression, 'filter "no_boolean"'),
        (InvalidExpression, 'map_values "unfitting"'),
        (InvalidExpression, 'map_values "no_dict"'),
        (InvalidExpression, 'map_values "nothing"'),
        (InvalidExpression, 'join "joined_to_a_list"'),
        (InvalidName, 'map_values "capitals"'),
        (UnknownColumn, 'select_key "keyless"'),
        (InvalidName, 'to_delta "taken"'),
        (InvalidName, 'to_delta "laid_out"'),
    ]
    messages = [fault.message for fault in faults]
    assert messages[0] == "PageViews has no column 'pag'"
    assert faults[0].hint == "did you mean 'page'? PageViews has: user, ms, page"
    assert faults[1].hint == "did you mean 'user'? PageViews has: user, ms, page"
    assert messages[2] == (
        'KeyTypeMismatch { left = "PageViews", right = "Numbers" }: left key (string) against right key (bigint)'
    )
    assert all("not a dict of name to Column" in message for message in messages[5:8])
    assert messages[8] == "two columns differ only in capitals: page, Page"
    assert "event_time_ms, _Lineage" in messages[10]
    assert "usr" in messages[11]
    assert "user, ms, page, event_time_ms, _lineage" in faults[11].hint
    assert "sound" in outputs
    assert "taken" not in outputs
    assert "pipeline 'p': 12 faults" in str(TopologyInvalid(faults, "p"))


def test_nothing_is_evaluated_downstream_of_a_fault(spark: SparkSession) -> None:
    builder, views, users = declared()
    seen: list[str] = []

    def watched(name: str):
        def mapper(*sides):
            seen.append(name)
            return {"page": sides[0].page}

        return mapper

    broken = views.map_values(lambda view: {"page": view.pgae}, name="broken")
    after = broken.map_values(watched("after"), name="after")
    after.join(users, watched("join"), name="join").to_delta("lost")
    table = users.filter(lambda user: user.regio == "eu", name="broken_table")
    views.join(table, watched("right"), name="right").to_delta("lost_too")
    views.map_values(watched("sound"), name="sound").to_delta("kept")
    outputs, faults = walk.check(builder.build(), spark)
    assert [fault.where for fault in faults] == ['map_values "broken"', 'filter "broken_table"']
    assert seen == ["sound"]
    assert list(outputs) == ["kept"]


def test_without_a_joiner_all_columns_come_out_prefixed_where_they_clash(spark: SparkSession) -> None:
    builder = StreamsBuilder("p")
    views = builder.stream("PageViews", key=Text("user"), value=Json("ms bigint, name string, page string"))
    users = builder.table("Users", key=Text("id"), value=Json("Name string, region string"))
    views.left_join(users).to_delta("out")
    outputs, faults = walk.check(builder.build(), spark)
    assert faults == []
    assert columns(outputs["out"]) == [
        "user string", "ms bigint", "PageViews_name string", "page string", "Users_Name string", "region string",
        "event_time_ms bigint",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("left", "right", "fits"),
    [
        (Text("user"), Text("id"), True),
        (Text("user"), Long("user"), False),
        (Json("a int, b string"), Json("x int, y string"), True),
        (Json("a int, b string"), Json("a int"), False),
        (Json("a int"), Long("a"), False),
        (Json("a int, b string"), Json("b string, a int"), False),
    ],
    ids=["names may differ", "string, bigint", "composite", "fewer columns", "int, bigint", "another order"],
)
def test_key_types_agree_column_by_column(spark: SparkSession, left, right, fits: bool) -> None:
    builder = StreamsBuilder("p")
    views = builder.stream("PageViews", key=left, value=Text("page"))
    views.join(builder.table("Users", key=right, value=Text("region"))).to_delta("out")
    _, faults = walk.check(builder.build(), spark)
    assert [type(fault) for fault in faults] == ([] if fits else [KeyTypeMismatch])


def test_a_mapper_that_raises_is_a_fault_of_its_step(spark: SparkSession) -> None:
    builder, views, _ = declared()
    views.map_values(lambda view: {"x": view.page / view, "y": 1}, name="odd").to_delta("out")  # type: ignore[operator]
    views.map_values(lambda _: {}["x"], name="no_such_entry")
    _, faults = walk.check(builder.build(), spark)
    assert [(type(fault), fault.where) for fault in faults] == [
        (InvalidExpression, 'map_values "odd"'),
        (InvalidExpression, 'map_values "no_such_entry"'),
    ]
    assert faults[1].message == "'x'"


@pytest.mark.parametrize("inside", [lambda text: text, lambda text: F.array(F.struct(text.alias("x")))])
def test_a_key_has_no_collation(spark: SparkSession, inside) -> None:
    """Hashes of keys are of their bytes, so keys that a collation makes equal would not always meet."""
    builder, views, users = declared()
    regions = views.select_key(lambda view: {"page": inside(F.collate(view.page, "UTF8_LCASE"))})
    regions.group_by_key().count().to_delta("regions")
    users.group_by(lambda user: {"region": F.lower(user.region)}).count().to_delta("lowered")
    _, faults = walk.check(builder.build(), spark)
    assert [type(one) for one in faults] == [InvalidExpression]
    assert "UTF8_LCASE" in str(faults[0])
    assert "lower()" in str(faults[0])


TAGGED = Json("tags map<string, int>")


@pytest.mark.parametrize(
    "use",
    [
        lambda _, users: users.to_delta("out", mode="merge"),
        lambda tagged, users: tagged.left_join(users).to_delta("out"),
        lambda tagged, _: tagged.join(tagged, within="1 s", grace="0 s").to_delta("out"),
        lambda tagged, _: tagged.group_by_key().count().to_delta("out"),
        lambda tagged, _: tagged.to_table().to_delta("out", mode="merge"),
    ],
    ids=["merged", "lookup", "windowed", "counted", "as a table"],
)
def test_a_key_that_has_to_meet_others_holds_no_map(spark: SparkSession, use) -> None:
    """Spark compares no maps: a merge would fail only when it runs."""
    builder = StreamsBuilder("p")
    tagged, users = (make(name, key=TAGGED, value=VIEW) for name, make in (("s", builder.stream), ("t", builder.table)))
    use(tagged, users)
    _, faults = walk.check(builder.build(), spark)
    assert faults
    assert {type(one) for one in faults} == {InvalidExpression}
    assert any("map" in str(one).lower() for one in faults)


def test_a_stream_may_carry_a_map_in_its_key(spark: SparkSession) -> None:
    builder = StreamsBuilder("p")
    builder.stream("s", key=TAGGED, value=VIEW).to_delta("out")
    _, faults = walk.check(builder.build(), spark)
    assert faults == []


def test_a_check_runs_no_spark_job(spark: SparkSession, connect_mode: bool) -> None:
    if connect_mode:
        pytest.skip("jobs of a group are counted through the classic session's status tracker")
    builder, views, users = declared()
    table = users.map_values(lambda user: {"region": F.upper(user.region)})
    views.left_join(table).select_key(lambda view: {"page": view.page}).to_delta("out", cluster_by=["page"])
    topology = builder.build()
    group, context = "lakestreams-check", spark.sparkContext
    context.setJobGroup(group, "dataflow.check")
    try:
        _, faults = walk.check(topology, spark)
        checked = context.statusTracker().getJobIdsForGroup(group)
        spark.range(1).collect()
        proof = context.statusTracker().getJobIdsForGroup(group)
    finally:
        for key in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            context.setLocalProperty(key, None)  # type: ignore[arg-type]
    assert faults == []
    assert len(proof) == 1, "the tracker counts"
    assert list(checked) == []


def test_an_element_that_is_no_struct_is_a_fault_of_its_step(spark: SparkSession) -> None:
    builder, views, _ = declared()
    views.flat_map_values(lambda view: F.array(view.ms), name="numbers").to_delta("out")
    ((fault,), _) = reversed(walk.check(builder.build(), spark))
    assert (type(fault), fault.message, str(fault.where)) == (
        InvalidExpression, "what comes out is bigint, not columns with names", 'flat_map_values "numbers"',
    )  # fmt: skip


def test_aggregates_that_differ_in_capitals_are_a_fault_of_their_step(spark: SparkSession) -> None:
    builder, views, _ = declared()
    views.group_by_key().aggregate(lambda _: {"a": agg.count(), "A": agg.count()}, name="both").to_delta("out")
    ((fault,), _) = reversed(walk.check(builder.build(), spark))
    assert (type(fault), fault.message) == (InvalidName, "two columns differ only in capitals: a, A")


@pytest.mark.parametrize("windowed", [False, True])
def test_a_result_with_the_name_of_its_groups_key_is_not_lost(spark: SparkSession, windowed: bool) -> None:
    """A table has the key's columns under their names: its count would silently be none of it."""

    def counted(**after: object):
        builder, views, _ = declared()
        grouped = views.group_by(lambda view: {"count": view.page}, name="by_page")
        table = (grouped.windowed_by("1 minute") if windowed else grouped).count(name="counted")
        table = table.filter(lambda row: row.count > 1, name="many")
        table = table.map_values(lambda row: {"n": row["count"]}, name="renamed") if after else table
        table.to_delta("out")
        return walk.check(builder.build(), spark)

    _, (fault,) = counted()
    assert type(fault) is InvalidName
    assert "count of counted has the name of a column of its key" in fault.message
    outputs, faults = counted(renamed=True)
    assert not faults
    assert "n bigint" in columns(outputs["out"])


ROW = Json(
    "n int, t string, b boolean, m map<string, int>, s struct<x: int>, l array<int>, d date, at timestamp, c decimal(9, 2)"
)


@pytest.mark.parametrize(
    ("by", "words"),
    [
        (["n", "t", "d", "at"], None),
        (["c", "event_time_ms"], None),
        (["n", "n"], "names a column twice"),
        (["n", "t", "d", "at", "c"], "has 5 columns; Delta takes 4 at most"),
        *(
            (name, f"names {name[0]}, whose type has no least and greatest value")
            for name in (["b"], ["m"], ["s"], ["l"])
        ),
    ],
)
def test_tables_are_clustered_as_delta_can(spark: SparkSession, by: list[str], words: str | None) -> None:
    builder = StreamsBuilder("p")
    builder.stream("Rows", key=Text("id"), value=ROW).to_delta("out", cluster_by=by)
    _, faults = walk.check(builder.build(), spark)
    assert [words in fault.message for fault in faults] == ([] if words is None else [True])


@pytest.mark.parametrize("at", ["source", "step", "output"])
@pytest.mark.parametrize(
    ("condition", "fits"), [("page = '/a'", True), ("page = null", True), ("page", False), ("ms", False)]
)
def test_a_condition_is_a_boolean(spark: SparkSession, at: str, condition: str, fits: bool) -> None:
    builder, views, _ = declared()
    step = views.filter(lambda view: view.ms > 0, name="some")
    {"source": views, "step": step, "output": step.to_delta("out")}[at].expect("one", condition)
    _, faults = walk.check(builder.build(), spark)
    assert [type(fault) for fault in faults] == ([] if fits else [InvalidExpression])
