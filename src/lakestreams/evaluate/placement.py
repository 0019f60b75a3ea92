"""Whether equal keys of a join's sides share a task: by what was noted where records were read, or by a look at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.evaluate.sides import Sides
from lakestreams.operators import noted_homes
from lakestreams.operators.homes import ROWS_OF_A_TASK, share_tasks
from lakestreams.operators.records import KEY, TASK
from lakestreams.topology.graph import sources_of
from lakestreams.topology.partitions import lies_as_sources_do

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    from lakestreams.topology.joins import Join


@dataclass
class Placement(Sides):
    """Tells of the sides of joins where their keys lie."""

    def _share_tasks(self, node: Join, rows: DataFrame, realm: int, past: Sequence[DataFrame]) -> bool:
        """Whether equal keys share a task, and each task fits a worker: of new rows as it was noted, of the past as it is."""
        if lies_as_sources_do(node) and self._records(node) > ROWS_OF_A_TASK * realm:
            return False  # not even if they are spread evenly
        rest = keys_of(past, rows.schema[KEY].dataType) if past else None
        return share_tasks(rows, realm, self._noted(node, realm), rest)

    def _noted(self, node: Join, realm: int) -> noted_homes.NotedHomes | None:
        """What was noted of where the keys of a join's new rows lie."""
        reached = [source for parent in node.parents for source in sources_of(parent)]
        sources = [source.name for source in reached if self._brings(source) != 0]
        if (
            self.inputs.scopes is not None
            or not lies_as_sources_do(node)
            or not sources
            or not self.inputs.homes.keys() >= set(sources)
        ):
            return None
        known = [
            {law: keys for (law, partitions), keys in self.inputs.homes[name][0].items() if partitions == realm}
            for name in sources
        ]
        return noted_homes.NotedHomes(noted_homes.of_all(known), sum(self.inputs.homes[name][1] for name in sources))


def keys_of(frames: Sequence[DataFrame], kind: DataType | None = None) -> DataFrame:
    """Keys and tasks of frames, the keys in the first one's type or a given one."""
    kind = frames[0].schema[KEY].dataType if kind is None else kind
    return reduce(DataFrame.unionAll, [rows.select(F.col(KEY).cast(kind).alias(KEY), TASK) for rows in frames])
