"""A new operator is a class of node, a line of the registry, its kernel and the DSL's method: nothing else knows it.

A line of the steps of files, with the class of its keys, lets files say it.

`limit` keeps the records whose column is under a bound. All of it is in this file; what the package makes of it is tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pytest
from tests.engine.test_delta_sources import TableBench
from tests.topology.pipelines import Declared, declared

from lakestreams import Json, KStream, KTable, StreamsBuilder, Text, invariants
from lakestreams.cli.check import in_words
from lakestreams.config import steps
from lakestreams.config.load import Document
from lakestreams.config.scope import ANY, Scope
from lakestreams.config.steps import Verb
from lakestreams.config.verbs import FromSpec
from lakestreams.costs import commits
from lakestreams.errors import InvalidOption, LakestreamsError, TopologyInvalid, unfold
from lakestreams.evaluate import registry
from lakestreams.evaluate.registry import Calls, Operator
from lakestreams.expectations.cycle_metrics import CycleMetrics
from lakestreams.testing.small import small as small_inputs
from lakestreams.topology import graph, results
from lakestreams.topology.labels import lines_of
from lakestreams.topology.node import PerRow
from lakestreams.topology.old_values import quiet_filters
from lakestreams.verify.verify import verify

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from lakestreams.operators.versions import TableSide
    from lakestreams.topology.fields import Fields
    from lakestreams.topology.topology import Topology

Edge = Literal["below", "up_to"]


# --- the operator ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limit(PerRow):
    """Records whose column is under a bound stay; of a table, the others become tombstones.

    Attributes:
        column: of the value.
        bound: what it is compared with.
        edge: whether the bound itself is kept.
    """

    _word: ClassVar[str] = "limit"
    _does: ClassVar[str] = "only records under the bound"
    choices: ClassVar[Mapping[str, Any]] = {"edge": Edge}
    passes_nulls: ClassVar[bool] = True
    filters: ClassVar[bool] = True

    column: str
    bound: int
    edge: Edge = "below"

    @property
    def state_names(self) -> tuple[str, ...]:
        """The rows before, where it compares with them."""
        return ("table",)

    @property
    def details(self) -> list[str]:
        """Column and bound."""
        return [f"{self.column} {self.edge} {self.bound}"]

    @property
    def box(self) -> list[str]:
        """The same."""
        return self.details

    def faults(self) -> Iterator[LakestreamsError]:
        """A column without a name."""
        yield from super().faults()
        if not self.column:
            yield InvalidOption("limit names no column", hint='such as column="amount"', where=self.where)


def limited(on: Calls, node: Limit, rows: DataFrame | TableSide) -> DataFrame | TableSide:
    """The kernel."""

    def is_under(row: Fields) -> Column:
        return row[node.column] < node.bound if node.edge == "below" else row[node.column] <= node.bound

    return on.per_row(node, rows, lambda frame, table: on.steps.kept(node, frame, is_under, table=table))


def limit(of: Declared | StreamsBuilder, handle: Any, name: str, column: str, bound: int, **options: Any) -> Any:
    """The DSL's method, which would be one of `KStream` and `KTable`."""
    builder = of if isinstance(of, StreamsBuilder) else of.builder
    return type(handle)(builder, builder.add(Limit(name, handle.node, column, bound, **options)))


class LimitSpec(FromSpec):
    """What a file says of it."""

    column: str
    bound: int


def declared_in_file(spec: LimitSpec, scope: Scope, name: str) -> Any:
    """From what a file says to the DSL's method."""
    handle: Any = scope.handle("from", spec.from_, ANY)
    return limit(handle._builder, handle, name, spec.column, spec.bound) if scope.sound else None


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of the registry, for one test."""
    monkeypatch.setitem(registry.OPERATORS, Limit, Operator(limited))


# --- without Spark ---------------------------------------------------------------------------------------------------


def small() -> Topology:
    """A limit of a stream, and one of a table that the stream looks up."""
    of = declared()
    views = limit(of, of.views, "cheap", "page", 10)
    users = limit(of, of.users, "young", "region", 18, edge="up_to")
    views.left_join(users, name="known").to_delta("silver.known")
    users.to_delta("silver.users", mode="changes")
    return of.builder.build()


def the(topology: Topology, name: str) -> Any:
    (node,) = (one for one in topology.nodes if one.name == name)
    return node


def test_it_is_described_as_any_other() -> None:
    text = small().describe()
    assert "    Processor: cheap (limit)\n      page below 10\n      <-- Views\n      --> known\n" in text
    assert "    Processor: young (limit)\n      region up_to 18\n      <-- Users\n" in text


def test_it_is_drawn_as_any_other() -> None:
    topology = small()
    shown = [(line.style, line.text) for line in lines_of(the(topology, "cheap"), {"Views": 4})]
    assert shown == [("name", "cheap"), ("kind", "limit"), ("detail", "page below 10")]
    assert "cheap (limit) from Views" in topology.svg()
    assert "cheap" in topology.mermaid()


@pytest.mark.usefixtures("registered")
def test_its_line_of_the_plan() -> None:
    assert "cheap: Views, only records under the bound" in in_words(small().nodes)


def test_what_its_results_follow_from() -> None:
    assert results.of(small())["young"] == {
        "is": "limit of Users",
        "column": "region",
        "bound": "18",
        "edge": "up_to",
    }


def test_its_faults_are_told_with_all_others() -> None:
    of = declared()
    limit(of, of.views, "nameless", "", 10, edge="above")
    with pytest.raises(TopologyInvalid) as caught:
        of.builder.build()
    assert [(fault.code, fault.message, fault.where) for fault in unfold(caught.value)] == [
        ("LS112", "edge='above' is none of below, up_to", 'limit "nameless"'),
        ("LS112", "limit names no column", 'limit "nameless"'),
        ("LS109", "pipeline 'p' has no output", None),
    ]


def test_invariants_fit_it_as_they_fit_any_step() -> None:
    of = declared()
    views = limit(of, of.views, "cheap", "page", 10)
    views.holds(invariants.NoDuplicateResult(), invariants.FanOut(), invariants.Layout())
    views.to_delta("silver.cheap")
    with pytest.raises(TopologyInvalid) as caught:
        of.builder.build()
    assert [fault.message for fault in unfold(caught.value)] == [
        "invariant fan_out does not fit cheap: it is one of joins",
        "invariant layout does not fit cheap: it is one of outputs that are Delta tables",
    ]


def test_what_follows_for_the_graph() -> None:
    topology = small()
    cheap, young, nodes = the(topology, "cheap"), the(topology, "young"), topology.nodes
    assert [source.name for source in graph.sources_of(cheap)] == ["Views"]
    assert graph.key_source(cheap) is the(topology, "Views")
    assert [pin.name for pin in cheap.pins()] == ["Views"]
    assert not graph.is_multi_row(cheap)
    assert not graph.is_rekeyed(cheap)
    assert graph.follows_partitions(cheap)
    assert (cheap.makes, young.makes) == ("stream", "table")
    assert graph.longest_wait_ms(nodes) == 0


def test_a_table_under_a_limit_is_a_filtered_one() -> None:
    """Where its input knows old rows it says no deletion of those that did not pass, and keeps what it needs for that."""
    of = declared()
    of.views.join(of.users, name="known").to_delta("silver.known")  # lets the table have a store
    limit(of, of.users, "young", "region", 18).to_delta("silver.users", mode="changes")
    topology = of.builder.build()
    assert quiet_filters(topology.nodes) == {"young"}
    assert ("young", "table") in commits.frames(topology)
    assert quiet_filters(small().nodes) == set()
    assert commits.frames(small()) == []


def test_a_stream_behind_it_can_be_merged_by_record() -> None:
    of = declared()
    amended = of.views.left_join(of.users, amend="1 hour", name="amended")
    limit(of, amended, "cheap", "page", 10).to_delta("silver.merged", mode="merge")
    assert of.builder.build().sinks[0].mode == "merge"


def test_what_it_lets_through_is_not_counted_from_behind() -> None:
    """It passes on fewer rows than it gets, so that those of an output say nothing of its input."""
    topology = small()
    cycle_metrics = CycleMetrics()
    cycle_metrics.of("silver.users").rows = 3
    cycle_metrics.complete(topology)
    assert cycle_metrics.of("young").rows == 3
    assert cycle_metrics.of("Users").rows is None


def test_a_file_may_say_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(steps.VERBS, "limit", Verb(LimitSpec, "Records under a bound.", declared_in_file))
    of, file = declared(), Document(Path("p.yml"))
    said = {"limit": {"from": "Views", "column": "page", "bound": 10}}
    spec = steps.step_spec().model_validate(said)
    assert spec.inputs == (("limit.from", "Views"),)
    handle = steps.declare_step("cheap", spec, file, {"Views": of.views})
    assert handle is not None
    handle.to_delta("silver.cheap")
    assert "    Processor: cheap (limit)\n      page below 10\n      <-- Views\n" in of.builder.build().describe()
    wrong = steps.step_spec().model_validate({"limit": {"from": "Viewers", "column": "page", "bound": 10}})
    assert steps.declare_step("cheap", wrong, file, {"Views": of.views}) is None


# --- with Spark ------------------------------------------------------------------------------------------------------


def orders() -> tuple[StreamsBuilder, KStream, KTable]:
    builder = StreamsBuilder("orders")
    stream = builder.stream("Orders", key=Text("user"), value=Json("amount bigint"))
    table = builder.table("Prices", key=Text("item"), value=Json("amount bigint"))
    return builder, stream, table


@pytest.mark.usefixtures("registered")
def test_it_runs(spark: SparkSession) -> None:
    """Of a stream, the records under the bound; of a table, the others are deleted."""
    from lakestreams.testing import TopologyTestDriver, assert_results

    builder, stream, table = orders()
    limit(builder, stream, "cheap", "amount", 10).to_delta("cheap_orders")
    limit(builder, table, "low", "amount", 10, edge="up_to").to_delta("low_prices")
    driver = TopologyTestDriver(builder.build(), spark)
    for user, amount, at in (("alice", 9, 1), ("bob", 10, 2), ("carol", 3, 3)):
        driver.pipe("Orders", user, {"amount": amount}, at)
    for item, amount, at in (("pen", 10, 1), ("desk", 300, 2), ("lamp", 8, 3), ("lamp", 11, 4)):
        driver.pipe("Prices", item, {"amount": amount}, at)
    assert_results(driver.read("cheap_orders"), [("alice", {"amount": 9}, 1), ("carol", {"amount": 3}, 3)])
    assert driver.table("low_prices") == {"pen": {"amount": 10}}
    assert driver.refused() == []


@pytest.mark.slow
@pytest.mark.usefixtures("registered")
def test_a_job_runs_it(spark: SparkSession, tmp_path: Path) -> None:
    """Over a Delta table; `verify` computes the same again."""
    builder = StreamsBuilder("cheap")
    amounts = builder.stream("Amounts", delta="shop.amounts", key="id bigint", value="amount bigint")
    limit(builder, amounts, "cheap", "amount", 10).to_delta("silver.cheap")
    bench = TableBench(spark, tmp_path, builder.build())
    bench.create("amounts", "id bigint, amount bigint")
    with small_inputs(spark):
        bench.sql("INSERT INTO {amounts} VALUES (1, 9), (2, 10), (3, 3), (4, null)")
        bench.run()
        assert bench.rows("silver.cheap", "id", "amount") == [(1, 9), (3, 3)]
        assert verify(spark, bench.lake, bench.topology).equal


@pytest.mark.usefixtures("registered")
def test_the_columns_that_it_names_are_checked(spark: SparkSession) -> None:
    from lakestreams.errors import UnknownColumn
    from lakestreams.testing import TopologyTestDriver

    builder, stream, _ = orders()
    limit(builder, stream, "cheap", "price", 10).to_delta("cheap_orders")
    with pytest.raises(TopologyInvalid) as caught:
        TopologyTestDriver(builder.build(), spark)
    (fault,) = unfold(caught.value)
    assert isinstance(fault, UnknownColumn)
    assert fault.where == 'limit "cheap"'
