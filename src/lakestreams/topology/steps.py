"""Steps that look at one record at a time, and those that only lead records elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lakestreams.errors import InvalidOption
from lakestreams.errors.phrases import OptionValue, Phrase
from lakestreams.topology.kinds import (
    STREAM,
    TABLE,
    ManyMapper,
    ManyPairMapper,
    Mapper,
    PairMapper,
    Predicate,
    SendsOld,
    Sort,
    TimeWindows,
)
from lakestreams.topology.node import OneInput, PerRow, Pin, TwoInputs, once

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakestreams.errors import LakestreamsError
    from lakestreams.topology.node import Node


@dataclass(frozen=True)
class MapValues(PerRow):
    """Every record's value becomes the projection's columns; key, time and order stay."""

    _word: ClassVar[str] = "map_values"
    _does: ClassVar[str] = "new values; key, time and order stay"
    passes_nulls: ClassVar[bool] = True
    sends_old: ClassVar[SendsOld] = "as_input"
    one_of_one: ClassVar[bool] = True

    mapper: Mapper


@dataclass(frozen=True)
class Filter(PerRow):
    """Records whose predicate is true stay; of a table, the others become tombstones."""

    _word: ClassVar[str] = "filter"
    _does: ClassVar[str] = "only records that fulfil the condition"
    passes_nulls: ClassVar[bool] = True
    filters: ClassVar[bool] = True

    predicate: Predicate

    @property
    def state_names(self) -> tuple[str, ...]:
        """The rows before, where it compares with them (`old_values`)."""
        return ("table",)


@dataclass(frozen=True)
class SelectKey(OneInput):
    """A stream gets another key; value, time and order stay (coordinates are the source's)."""

    takes: ClassVar[Sort | None] = STREAM
    _word: ClassVar[str] = "select_key"
    _does: ClassVar[str] = "under a new key; value, time and order stay"
    at_most_one: ClassVar[bool] = True
    makes_key: ClassVar[bool] = True
    passes_nulls: ClassVar[bool] = True
    one_of_one: ClassVar[bool] = True

    mapper: Mapper


@dataclass(frozen=True)
class DropAbsentDeletes(OneInput):
    """A table without the deletions of keys that have no row.

    Kafka Streams swallows them where a record cache lies before the table's store and tells them to joins where none
    does (semantics section 8.1), where they can cause tombstones that nobody needs.
    """

    _word: ClassVar[str] = "drop_absent_deletes"
    keeps_rows: ClassVar[bool] = True
    passes_lookups: ClassVar[bool] = True
    reads_old: ClassVar[bool] = True

    @property
    def makes(self) -> Sort:
        """A table, which each task has its part of."""
        return TABLE if self.parent.is_table else STREAM

    @property
    def key_windows(self) -> TimeWindows | None:
        """As its input."""
        return self.parent.key_windows if self.is_table else None

    @property
    def remembers(self) -> bool:
        """Which keys have a row."""
        return True

    @property
    def asks_old(self) -> tuple[Node, ...]:
        """Its inputs."""
        return self.parents

    @property
    def state_names(self) -> tuple[str, ...]:
        """The table's rows."""
        return ("table",)


@dataclass(frozen=True)
class Map(OneInput):
    """A stream gets another key and another value at once; time and order stay."""

    takes: ClassVar[Sort | None] = STREAM
    _word: ClassVar[str] = "map"
    _does: ClassVar[str] = "under a new key and with new values; time and order stay"
    at_most_one: ClassVar[bool] = True
    makes_key: ClassVar[bool] = True

    mapper: PairMapper


@dataclass(frozen=True)
class FlatMapValues(OneInput):
    """Each record becomes none, one or several, all with its key, time and order, in the mapper's order."""

    takes: ClassVar[Sort | None] = STREAM
    _word: ClassVar[str] = "flat_map_values"
    _does: ClassVar[str] = "each record none, one or several; key, time and order stay"
    multiplies: ClassVar[bool] = True

    mapper: ManyMapper


@dataclass(frozen=True)
class FlatMap(OneInput):
    """Each record becomes none, one or several, each with a key and a value of its own, in the mapper's order."""

    takes: ClassVar[Sort | None] = STREAM
    _word: ClassVar[str] = "flat_map"
    _does: ClassVar[str] = "each record several, under new keys; time and order stay"
    makes_key: ClassVar[bool] = True
    multiplies: ClassVar[bool] = True

    mapper: ManyPairMapper


@dataclass(frozen=True)
class Merge(TwoInputs):
    """The records of two streams of equal columns as one stream."""

    takes: ClassVar[Sort | None] = STREAM
    _word: ClassVar[str] = "merge"
    _does: ClassVar[str] = "as one stream"
    passes_nulls: ClassVar[bool] = True

    def pins(self) -> tuple[Pin, ...] | None:
        """Those of both inputs, if both have some."""
        left, right = self.left.pins(), self.right.pins()
        return None if left is None or right is None else once(left, right)


@dataclass(frozen=True)
class Repartition(OneInput):
    """A stream whose tasks are the hash of its key over a count of partitions. Logical: no topic is made."""

    takes: ClassVar[Sort | None] = STREAM
    _word: ClassVar[str] = "repartition"
    refuses_unused_null_keys: ClassVar[bool] = True
    at_most_one: ClassVar[bool] = True
    passes_nulls: ClassVar[bool] = True
    one_of_one: ClassVar[bool] = True

    partitions: int

    @property
    def rekeys(self) -> bool:
        """Its tasks are its own."""
        return True

    def pins(self) -> tuple[Pin, ...] | None:
        """Itself."""
        return (self,)

    def partition_count(self, partitions: Mapping[str, int]) -> int | None:
        """As it is declared."""
        del partitions
        return self.partitions

    @property
    def details(self) -> list[str]:
        """How many partitions."""
        return [f"partitions {self.partitions}"]

    @property
    def does(self) -> str:
        """Where rows lie."""
        return f"tasks by key hash over {self.partitions} partitions; no topic is made"

    def faults(self) -> Iterator[LakestreamsError]:
        """A count that is none."""
        yield from super().faults()
        if type(self.partitions) is not int or self.partitions < 1:
            text = Phrase(OptionValue("partitions", self.partitions), " is not a count")
            yield InvalidOption(text, hint="a whole number, 1 or more", where=self.where)
