"""How far back everything can be evaluated once more, where bronze is trimmed, and what it is evaluated over then.

What is trimmed is replaced by what bronze keeps of tables, and by the base (decision 0015).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakestreams.engine.ledger import fingerprint as fingerprints
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import History, Plan
from lakestreams.engine.protocol import decisions
from lakestreams.engine.state import store as state
from lakestreams.engine.state.inputs import over
from lakestreams.errors import BronzeTrimmed
from lakestreams.evaluate.inputs import Inputs
from lakestreams.topology.graph import only_looks_up

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.topology.topology import Topology


def everything(
    spark: SparkSession, ledger: Ledger, topology: Topology, history: History, plans: Sequence[Plan]
) -> Inputs:
    """All that bronze still holds of some finished cycles, in one evaluation; what is trimmed counts as past.

    Args:
        plans: those after the cycle of `reach`, ascending, at least one.
    """
    if history.trim is None:
        return over(spark, ledger, topology, plans, {})
    if only_looks_up(topology.nodes):
        return over(spark, ledger, topology, plans, {}, before=tables_before(spark, ledger, topology, history))
    if history.base is None:
        msg = "reach() tells a base that is missing"
        raise ValueError(msg)
    return over(spark, ledger, topology, plans, state.load(spark, ledger, history.base), history.base.rows)


def reach(
    spark: SparkSession, ledger: Ledger, topology: Topology, history: History, semantics: str | None = None
) -> int:
    """The cycle from behind which everything can be evaluated: 0 where nothing is trimmed.

    Args:
        semantics: of the configuration (`fingerprint.of_state`), if what was kept must be of that, too.

    Raises:
        BronzeTrimmed: if what nodes keep is needed as of that cycle, and is missing or of another topology.
    """
    if history.trim is None:
        return 0
    if only_looks_up(topology.nodes):
        require_rows_of_tables(topology, history)
        return history.trim.cycle
    base = history.base
    usable = (
        base is not None and decisions.reaches(history.trim, base) and fingerprints.is_of(base.fingerprint, topology)
    )
    if (
        base is None
        or not usable
        or semantics not in (None, base.fingerprint)
        or not state.is_usable(spark, ledger, base, base.fingerprint)
    ):
        message = (
            f"the state of {topology.name} up to cycle {history.trim.cycle} is missing or of another topology, and "
            "bronze is trimmed up to that cycle"
        )
        raise BronzeTrimmed(message, "run the pipeline as it was, then lakestreams maintain")
    return base.cycle


def require_rows_of_tables(topology: Topology, history: History) -> None:
    """Refuses tables whose topics were read as streams when bronze was trimmed: of those nothing is left.

    Raises:
        BronzeTrimmed: naming them.
    """
    tables = {source.topic for source in topology.sources if source.kind != "stream"}
    gone = sorted(tables & history.trimmed_streams)
    if gone and history.trim is not None:
        message = f"{', '.join(gone)} was read as a stream up to cycle {history.trim.cycle}, and bronze is trimmed up to there"
        hint = "give the pipeline a new name, to read Kafka again from the start"
        raise BronzeTrimmed(message, hint)


def tables_before(spark: SparkSession, ledger: Ledger, topology: Topology, history: History) -> list[Plan]:
    """Plans that took the rows that bronze keeps of tables up to where it is trimmed."""
    if history.trim is None:
        return []
    done = [history.trimmed] if history.trimmed is not None else []
    # trimming may have been begun and not finished: then the rows between are as they were
    plans = ledger.plans(spark, done[0].cycle + 1 if done else 1, [source.topic for source in topology.sources])
    return [*done, *(plan for plan in plans if plan.cycle <= history.trim.cycle)]
