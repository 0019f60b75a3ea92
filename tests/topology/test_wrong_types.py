"""Whatever Python passes to a builder, a handle, a format or an invariant is taken, or refused with a code and a fix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.topology.pipelines import Declared, declared

from lakestreams import (
    Avro,
    DebeziumAvro,
    Json,
    JsonScalar,
    JsonSchema,
    RegistryAvro,
    StreamsBuilder,
    Text,
    invariants,
)
from lakestreams.errors import (
    InvalidDuration,
    InvalidFormat,
    InvalidName,
    InvalidOption,
    LakestreamsError,
    UnnamedNode,
    WrongKind,
    unfold,
)

KEYS = {"key": Text("user"), "value": Text("page")}


def built(sources: Declared, declare: Callable[[Any], Any]) -> object:
    """Declares something, and an output if that gives none."""
    declare(sources)
    sources.views.to_delta("silver.out")
    return sources.builder.build()


# What is declared, the error, and what its message has; None: it is taken.
CALLS: list[tuple[str, Callable[[Any], Any], type[LakestreamsError], str]] = [
    # names
    ("a pipeline's number", lambda _: StreamsBuilder(5), InvalidName, "name=5 is no text"),  # type: ignore[arg-type]
    ("a pipeline's bytes", lambda _: StreamsBuilder(b"p"), InvalidName, "name=b'p' is no text"),  # type: ignore[arg-type]
    ("a topic's number", lambda s: s.builder.stream(5, **KEYS), InvalidName, "topic=5 is no text"),
    ("no topic", lambda s: s.builder.stream(None, **KEYS), UnnamedNode, "a stream has no name"),
    ("a topic's bytes", lambda s: s.builder.table(b"t", **KEYS), InvalidName, "topic=b't' is no text"),
    ("a source's number", lambda s: s.builder.stream("t", name=5, **KEYS), InvalidName, "name=5 is no text"),
    ("a source's list", lambda s: s.builder.stream("t", name=["a"], **KEYS), InvalidName, "name=['a'] is no text"),
    ("a bronze table's number", lambda s: s.builder.stream("t", bronze=5, **KEYS), InvalidName, "bronze=5 is no text"),
    ("a path", lambda s: s.builder.stream("t", delta=Path("a/b"), key="k int", value="v int"), InvalidName,
     "delta=PosixPath('a/b') is no text"),
    ("a step's number", lambda s: s.views.filter(lambda row: row.page, name=5), InvalidName, "name=5 is no text"),
    ("a join's list", lambda s: s.views.join(s.users, name=["j"]), InvalidName, "name=['j'] is no text"),
    ("a count's number", lambda s: s.views.group_by_key().count(name=5), InvalidName, "name=5 is no text"),
    ("an output's number", lambda s: s.views.to_delta(5), InvalidName, "name=5 is no text"),
    ("an output's path", lambda s: s.users.to_delta(Path("silver/x")), InvalidName, "is no text"),
    ("no output's name", lambda s: s.views.to_delta(None), UnnamedNode, "a to_delta has no name"),
    ("a topic's number", lambda s: s.views.to_kafka(5), InvalidName, "name=5 is no text"),
    # formats
    ("a class of a format", lambda s: s.builder.stream("t", key=Text, value=Text("v")), InvalidFormat, "is not a format"),
    ("a class of a value's", lambda s: s.builder.table("t", key=Text("k"), value=Json), InvalidFormat, "is not a format"),
    ("a class in an output", lambda s: s.views.to_kafka("t", key=Text), InvalidFormat, "is not a format"),
    ("a column's number", lambda s: s.builder.stream("t", key=Text("k"), value=Text(5)), InvalidFormat, "column name 5"),  # type: ignore[arg-type]
    ("no column", lambda s: s.builder.stream("t", key=Text("k"), value=Text(None)), InvalidFormat, "column name None"),  # type: ignore[arg-type]
    *((f"{kind.__name__} of {given!r}", lambda _, kind=kind, given=given: kind(given), InvalidFormat, "is no text")
      for kind in (Json, JsonScalar, JsonSchema, Avro, RegistryAvro, DebeziumAvro) for given in (None, 5, {"type": "int"})),
    # keys
    *((f"{verb} by {given!r}", lambda s, verb=verb, given=given: getattr(s.views, verb)(given), InvalidOption,
       "names no columns and is not a function")
      for verb in ("select_key", "group_by") for given in (None, 5, "", (), ["user", 1], b"user")),
    ("a table grouped by a number", lambda s: s.users.group_by(5), InvalidOption, "5 names no columns"),
    ("a key of two arguments", lambda s: s.views.select_key(lambda key, value: {**key, **value}), InvalidOption,
     "cannot be called with one argument"),
    ("a group of no argument", lambda s: s.users.group_by(lambda: {"k": 1}), InvalidOption, "cannot be called with one argument"),
    ("a foreign key of two arguments", lambda s: s.users.join(s.plans, left_on=lambda a, b: (a, b)), InvalidOption,
     "cannot be called with one argument"),
    # other sides
    ("an output as the other side", lambda s: s.views.join(s.clicks.to_delta("silver.c"), within="1 s"), WrongKind,
     "takes a KStream, KTable or GlobalKTable, not the Output of silver.c"),
    ("groups as the other side", lambda s: s.views.left_join(s.clicks.group_by_key(), within="1 s"), WrongKind,
     "not the KGroupedStream of Clicks"),
    ("groups of a table", lambda s: s.users.join(s.plans.group_by("price")), WrongKind, "not the KGroupedTable of Plans"),
    ("a merge with an output", lambda s: s.views.merge(s.views.to_kafka("t")), WrongKind, "not the Output of t"),
    ("a node", lambda s: s.views.join(s.users.node), WrongKind, "not Source"),
    ("nothing", lambda s: s.views.merge(None), WrongKind, "takes a KStream, not NoneType"),
    # columns of outputs
    ("no columns", lambda s: s.views.to_delta("a", cluster_by=None), InvalidOption, "cluster_by=None names no columns"),
    ("a number", lambda s: s.users.to_delta("a", partition_by=5), InvalidOption, "partition_by=5 names no columns"),
    ("a column's number", lambda s: s.views.to_delta("a", cluster_by=[1]), InvalidName, "column name 1 is no text"),
    # expectations
    ("a rule without a name", lambda s: s.views.expect(None, "page > 0"), InvalidName, "None is no name"),
    ("a rule named by a boolean", lambda s: s.views.expect(True, "page > 0"), InvalidName, "True is no name"),
    ("a condition that is a number", lambda s: s.views.expect("r", 5), InvalidOption, "is neither SQL nor a function"),
    ("no conditions", lambda s: s.views.expect_all(None), InvalidOption, "None is no mapping of names to conditions"),
    ("a condition alone", lambda s: s.views.expect_all_or_drop("page > 0"), InvalidOption, "is no mapping of names"),
    ("a list of conditions", lambda s: s.views.expect_all_or_fail(["page > 0"]), InvalidOption, "is no mapping of names"),
    ("a class of an invariant", lambda s: s.views.holds(invariants.Skew), InvalidOption, "holds() takes invariants, not"),
    ("an invariant's name", lambda s: s.views.holds("skew"), InvalidOption, "holds() takes invariants, not 'skew'"),
    # invariants
    ("a lateness that is none", lambda _: invariants.Lateness(at_most="soon"), InvalidDuration, "at_most 'soon'"),
    ("a skew of time without a unit", lambda _: invariants.TimeSkew(at_most=5), InvalidDuration, "at_most 5"),  # type: ignore[arg-type]
    ("a span that is none", lambda _: invariants.MatchRate(over=None), InvalidDuration, "over None"),  # type: ignore[arg-type]
    ("a rate in percent", lambda _: invariants.MatchRate(at_least=90), InvalidOption, "at_least=90 is not a share"),
    ("a share as text", lambda _: invariants.Skew(at_most="half"), InvalidOption, "at_most='half' is not a share"),  # type: ignore[arg-type]
    ("a count as text", lambda _: invariants.FanOut(at_most="3"), InvalidOption, "at_most='3' is not a whole number"),  # type: ignore[arg-type]
    ("a negative count", lambda _: invariants.OneKeyOnePartition(look_back=-1), InvalidOption, "look_back=-1 is not"),
    ("a partitioner", lambda _: invariants.KeyOnHomePartition(partitioner="md5"), InvalidOption,  # type: ignore[arg-type]
     "partitioner='md5' is not one of murmur2, crc32"),
    ("columns' numbers", lambda _: invariants.UniqueKey(columns=(1,)), InvalidOption, "columns=(1,) is not a list of"),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize(("declare", "error", "said"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS])
def test_what_is_of_another_type_is_refused(
    declare: Callable[[Any], Any], error: type[LakestreamsError], said: str
) -> None:
    with pytest.raises(LakestreamsError) as caught:
        built(declared(), declare)
    faults = [fault for fault in unfold(caught.value) if isinstance(fault, error)]
    assert [said in fault.message for fault in faults] == [True], str(caught.value)
    assert faults[0].hint


def test_one_column_of_a_unique_key_is_one_name() -> None:
    assert invariants.UniqueKey(columns="user").columns == ("user",)  # type: ignore[arg-type]
    assert invariants.UniqueKey(columns=["user", "page"]).unfit(SimpleNamespace(appends=True)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [5, None, b"conf/enrichment.yml", StreamsBuilder("p")])
def test_what_is_no_pipeline_is_not_opened(given: Any) -> None:
    import lakestreams

    with pytest.raises(InvalidOption, match="is no pipeline: neither a file, nor a name, nor a topology"):
        lakestreams.open(given)
