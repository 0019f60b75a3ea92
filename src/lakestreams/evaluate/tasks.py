"""In which task a row is: the partition of its source, or behind a re-key the hash of its key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812

from lakestreams.evaluate.scopes import ScopeKeys, own_key_names
from lakestreams.operators.records import KEY, ORDER, TASK
from lakestreams.partitioning.kafka_default import partition_of
from lakestreams.topology.graph import key_source, sources_of
from lakestreams.topology.partitions import task_count

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakestreams.evaluate.inputs import Inputs
    from lakestreams.topology.node import Node

_HASHED: Final = "_hashed"


@dataclass(frozen=True)
class Tasks:
    """Counts tasks, and puts rows into them.

    Attributes:
        scope_keys: tells histories apart that share the job.
        inputs: have the partition counts of topics, now and before they grew.
    """

    scope_keys: ScopeKeys
    inputs: Inputs

    def of_rows(self, node: Node, parent: Node, rows: DataFrame, *, but: Sequence[str] = ()) -> DataFrame:
        """Rows with their task: the partition, or after a re-key the hash of the key, `but` for some columns of it."""
        partition = F.col(ORDER)["partition"]
        source = key_source(parent)
        count = self.count(node)
        if source is not None and (self.scope_keys.scopes is None or self.scope_keys.scopes.stride >= count):
            return self.scope_keys.rows(rows.withColumn(TASK, partition))
        if count == 1 and self.scope_keys.scopes is not None:
            return self.scope_keys.rows(
                rows.withColumn(TASK, partition - F.pmod(partition, F.lit(self.scope_keys.scopes.stride)))
            )
        key = F.struct(*(F.col(KEY)[name].alias(name) for name in own_key_names(rows) if name not in but))
        keyed = rows.withColumn(_HASHED, F.when(F.col(KEY).isNotNull(), key))
        return self.scope_keys.rows(keyed.withColumn(TASK, self._hashed(keyed, self._then(node))).drop(_HASHED))

    def _hashed(self, rows: DataFrame, count: int | Column) -> Column:
        partition = F.col(ORDER)["partition"]
        stride = 0 if self.scope_keys.scopes is None else self.scope_keys.scopes.stride
        own = partition if not stride else F.pmod(partition, F.lit(stride))
        task = F.when(F.col(KEY).isNotNull(), partition_of(rows, _HASHED, count)).otherwise(F.pmod(own, F.lit(count)))
        return task if not stride else task + (partition - own)

    def count(self, node: Node, partitions: Mapping[str, int] | None = None) -> int:
        """How many tasks a node has, by the partitions of now or of another time."""
        known = self.inputs.partitions if partitions is None else partitions
        counts = {source.topic: known.get(source.topic, 1) for source in sources_of(node)}
        return task_count(node, counts) or 1

    def _then(self, node: Node) -> int | Column:
        """How many tasks there were in the cycle of each row: one number, unless topics have grown in between."""
        now = self.count(node)
        then = [(cycle, self.count(node, counts)) for cycle, counts in self.inputs.fewer]
        if all(count == now for _, count in then):
            return now
        cycle, found = F.col(ORDER)["cycle"], F.lit(now)
        for first, count in reversed(then):
            found = F.when(cycle < first, F.lit(count)).otherwise(found)
        return found

    def realm(self, node: Node) -> int:
        """How many tasks share a history: not fewer than any side's rows are spread over."""
        if self.scope_keys.scopes is not None:
            return self.scope_keys.scopes.stride
        return max([self.count(node), *(self.inputs.partitions.get(source.topic, 1) for source in sources_of(node))])
