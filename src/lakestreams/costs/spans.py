"""How much input a window holds, counted in cycles: each cycle looks at all that lies in the windows behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.topology.durations import to_text
from lakestreams.topology.graph import spans_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.ledger.ledger import Ledger
    from lakestreams.topology.topology import Topology

MOST_CYCLES: Final = 100
_LOOKED_AT: Final = 100  # newest cycles


def warnings(topology: Topology, cycle_ms: float) -> list[str]:
    """A sentence for each window that holds more than 100 cycles' worth of input.

    Args:
        cycle_ms: how much time a cycle brings.
    """
    return [
        f"{node.name}: its {what} hold {to_text(span)}, which is about {span / cycle_ms:,.0f} cycles' worth of input (a cycle "
        f"brings {to_text(round(cycle_ms))}). Each cycle looks at all of it: make cycles fewer and larger (--interval), or windows smaller"
        for node, what, span in spans_of(topology.nodes)
        if span > MOST_CYCLES * cycle_ms
    ]


def cycle_ms(spark: SparkSession, ledger: Ledger) -> float | None:
    """How much event time a cycle has brought lately, from the clocks of the newest plans; None if that is not known."""
    if not ledger.table.exists(spark):
        return None
    newest = ledger.rows(spark).where("kind = 'plan'").orderBy(F.desc("cycle")).limit(_LOOKED_AT)
    clock = F.array_max(F.transform("clocks", lambda one: one["clock_ms"]))
    known = newest.select("cycle", clock.alias("clock")).where(F.col("clock") > 0)
    (found,) = known.agg(
        (F.max("clock") - F.min("clock")).alias("time"), (F.max("cycle") - F.min("cycle")).alias("cycles")
    ).collect()
    return found["time"] / found["cycles"] if found["cycles"] and found["time"] else None
