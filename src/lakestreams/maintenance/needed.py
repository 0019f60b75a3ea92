"""Which rows of bronze a trim leaves: those of tables that are there, and records whose bytes quarantine may still want.

Columns over bronze, and one look at a topology (decision 0015).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.plans import Plan
from lakestreams.engine.state.bronze import row_cycle
from lakestreams.engine.state.snapshots import order_within
from lakestreams.topology.graph import lets_out_before, only_looks_up

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec

    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.node import Node
    from lakestreams.topology.topology import Topology

CITED, SAID, STAYS = "_cited", "_said", "_stays"
"""Of a row: a node remembers it; a comparison with its Delta table goes by it; it stays for that, whatever came later."""


def may_refuse_later(topology: Topology) -> bool:
    """Whether a step can refuse a record in a later cycle than the one that took it.

    What gives up waiting for a row does, and so does what refuses rows that have waited before it. Rules over a step's rows do,
    too: a row may be made long after its first record, by which it is reported, also where nothing waits.
    """
    sources = {source.name for source in topology.sources}
    ruled = any(
        rule.action == "drop"
        for node in topology.nodes
        if node.name not in sources
        for rule in topology.expectations.rules_of(node.name)
    )
    refuses = any(node.gives_up or (lets_out_before(node) and _refuses(node)) for node in topology.nodes)
    return (ruled or refuses) and not only_looks_up(topology.nodes)


def _refuses(node: Node) -> bool:
    """Whether a step refuses records that lack something, or come too late."""
    lacking = node.refuses_null_keys(raw=True) or node.refuses_null_values(raw=True) or node.refuses_unused_null_keys
    return lacking or node.refuses_late


def is_said(source: Source) -> Column:
    """Whether a row of a Delta table is what it said last of its key: what a comparison with the table goes by, readable or not."""
    if source.delta is None:
        return F.lit(False)
    last = Window.partitionBy("key", F.col("attempt") > 0).orderBy(F.desc("offset"))
    return (F.col("attempt") == 0) & F.col("value").isNotNull() & (F.row_number().over(last) == 1)


def with_earlier(source: Source, placed: DataFrame) -> DataFrame:
    """Rows with whether they stay although a later one of their key is there, or stands for such ones as their deletion.

    What a trim leaves counts as one cycle. So an earlier row goes where it would come last of its key then.
    """
    of_key, place = Window.partitionBy("k"), F.struct(*order_within(source))
    last = F.max_by(place, F.struct("_cycle", place)).over(of_key)
    wanted = placed.withColumn(STAYS, (F.col(CITED) | F.col(SAID)) & (place <= last))
    gone = (place == last) & F.col("v").isNull() & F.max(STAYS).over(of_key)
    return wanted.withColumn(STAYS, F.col(STAYS) | gone)


def is_live(source: Source) -> Column:
    """Whether a row is what its key's row is after the last cycle."""
    return (F.row_number().over(_newest_first(source, "k")) == 1) & F.col("v").isNotNull()


def deletes(source: Source, since: int | None) -> Column:
    """Whether a row says that its key is gone, from a cycle on: of an older row that lies in a snapshot nothing else does."""
    newest = (F.row_number().over(_newest_first(source, "k")) == 1) & F.col("v").isNull()
    return F.lit(False) if since is None else newest & (F.col("_cycle") >= since)


def is_history(source: Source) -> Column:
    """Whether a versioned table still looks at a row: it lies in its history, or is the one valid at its beginning."""
    if source.history_ms is None:
        return F.lit(False)
    begins = F.max("event_time_ms").over(Window.partitionBy("partition")) - source.history_ms
    within = F.col("event_time_ms") >= begins
    by_time = _newest_first(source, "k", within, newest=("event_time_ms",))
    return within | ((F.row_number().over(by_time) == 1) & F.col("v").isNotNull())


def _newest_first(source: Source, *by: str | Column, newest: Sequence[str] = ()) -> WindowSpec:
    order = (*newest, "_cycle", *order_within(source))
    return Window.partitionBy(*by).orderBy(*(F.desc(name) for name in order))


def cycle_of(source: Source, plans: Sequence[Plan]) -> Column:
    """The cycle of each row, by the plans that took them."""
    own = [plan for plan in plans if plan.of(source.topic)]
    return row_cycle(source.topic, own) if own else F.lit(None).cast("bigint")


def taken_by(source: Source, target: Plan, of: str = "") -> str:
    """What the target took of a topic, as SQL."""
    parts = [
        f"({of}`attempt` > 0 AND {of}`seq` < {part.to_offset})"
        if part.of_replays
        else f"({of}`attempt` = 0 AND {of}`partition` = {part.partition} AND {of}`offset` < {part.to_offset})"
        for part in target.of(source.topic)
    ]
    return " OR ".join(parts) or "false"
