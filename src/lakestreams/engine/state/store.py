"""What the nodes of a topology keep of the past, stored as of a finished cycle: open windows, table rows, groups, buffers.

A cache: it follows from bronze and the plans, and is recreated where it is missing, damaged or of another configuration.
It has two slots: one is written while the other one is valid, and a ledger row says which it is. Where it lies behind the
cycle at hand, the cycles between are evaluated again from bronze (decision 0012). Where bronze is trimmed, a base takes
the place of what was deleted, in two slots of its own (decision 0015).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import StoredState
from lakestreams.engine.runtime.commits import holds
from lakestreams.engine.runtime.lake import plain
from lakestreams.engine.runtime.parallel import in_parallel
from lakestreams.engine.runtime.table import INDEXED, Table
from lakestreams.engine.state.overwriting import overwrite_counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PROPERTIES: Final = {INDEXED: "0"}  # nobody skips files of it; each column costs

Frames = Mapping[str, Mapping[str, "DataFrame"]]
"""Node to frame name to what it keeps (see `inputs.Results.kept`)."""


def is_usable(spark: SparkSession, ledger: Ledger, stored: StoredState | None, fingerprint: str) -> bool:
    """Whether a stored state can be used: it is of this configuration, and its tables hold what was stored."""
    if stored is None or stored.fingerprint != fingerprint:
        return False
    tables = [table(ledger, node, name, stored.slot) for node, name in stored.frames]
    if not all(one.exists(spark) for one in tables):
        return False
    # only a later store writes to a place, and the newest one is what the ledger names: so what is older than the history is it
    asked = [partial(holds, spark, one, stored.mark, or_older=True) for one in tables]
    return not stored.marked or all(in_parallel(spark, asked))


def load(spark: SparkSession, ledger: Ledger, stored: StoredState) -> dict[str, dict[str, DataFrame]]:
    """What the nodes keep, as frames."""
    frames: dict[str, dict[str, DataFrame]] = {}
    for node, name in stored.frames:
        frames.setdefault(node, {})[name] = table(ledger, node, name, stored.slot).read(spark)
    return frames


def write(spark: SparkSession, ledger: Ledger, kept: Frames, stored: StoredState) -> StoredState:
    """Overwrites a slot, which nobody reads: as it is stored now.

    Args:
        ledger: of the running epoch.
        kept: what the nodes keep as of the end of the cycle.
        stored: as of which cycle, and in which slot.
    """
    cycle, slot = stored.cycle, stored.slot
    frames = tuple((node, name) for node, sides in kept.items() for name in sides)

    def overwrite(place: tuple[str, str]) -> int:
        node, name = place
        target, counted_as = table(ledger, node, name, slot), f"{cycle} {node} {name} {slot}"
        return overwrite_counted(spark, ledger, target, kept[node][name], counted_as, stored.mark, _PROPERTIES)

    rows = sum(in_parallel(spark, [partial(overwrite, one) for one in frames]))
    return replace(stored, rows=rows, frames=frames)


def table(ledger: Ledger, node: str, name: str, slot: str) -> Table:
    """The table of one frame."""
    own = plain(node)
    if own != node:  # two names may differ in what a table's name cannot hold
        own = f"{own}_{hashlib.sha256(node.encode()).hexdigest()[:6]}"
    return ledger.lake.state(ledger.pipeline, f"{own}__{name}__{slot}")
