"""How a run is to go: its timing, its tolerance, and how time passes; what of it decides on results is in the plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestreams.registry.options import RegistryOptions

if TYPE_CHECKING:
    from lakestreams.topology.kinds import Settling


@dataclass(frozen=True)
class RunSettings:
    """Settings of a run.

    Attributes:
        kafka: options of Spark's Kafka source, of which its sink takes what producers have (`kafka.bootstrap.servers` and what connecting needs).
        max_offsets_per_trigger: how many records one ingest batch reads at most.
        max_bytes_per_batch: how many bytes of keys, values and headers it reads, about: fewer records where they are large.
        max_bad_share: the share of unreadable records above which the run fails (0 to 1).
        snapshot_every: how many cycles with changes a table's tail may span before it is folded into the snapshot.
        settling: how far bronze is read because its order is settled (see `engine.ledger.settle`).
        idle_timeout_ms: how long an input must have been silent for its clocks to go on by themselves; None: for ever.
        interval_ms: how long a run waits between its rounds; None: it has one round.
        drain: at the end of each round clocks move on until nothing waits any more: no record will come.
        accept_data_loss: go on where records expired unread, writing down what was lost.
        accept_change: go on where the topology has changed over existing results, or others have changed, replaced or deleted a
            table, writing down what was accepted.
        registry: where writers' schemas are asked for that the ledger does not know.
        config_text: the full text of the configuration, for the ledger; secrets not in it.
        semantics: the part of it that results follow from; by default all of it.
    """

    kafka: Mapping[str, str]
    max_offsets_per_trigger: int = 1_000_000
    max_bytes_per_batch: int = 256 << 20
    max_bad_share: float = 0.05
    snapshot_every: int = 16
    settling: Settling = "caught_up"
    idle_timeout_ms: int | None = None
    interval_ms: int | None = None
    drain: bool = False
    accept_data_loss: bool = False
    accept_change: bool = False
    registry: RegistryOptions | None = None
    config_text: str = ""
    semantics: str | None = None
