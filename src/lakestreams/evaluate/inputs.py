"""What an evaluation takes of some cycles, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakestreams.evaluate.scopes import Scopes
from lakestreams.operators.records import Extract, unextracted
from lakestreams.operators.versions import TableSide

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakestreams.expectations.judging import Dataset
    from lakestreams.operators.noted_homes import Homes


DETAIL, RULES, ROW = "detail", "rules", "row"
EXPECTATION = "EXPECTATION"


@dataclass(frozen=True)
class Rejected:
    """Records a step has no use for.

    Attributes:
        node: the step's name.
        code: the reason, such as NULL_KEY.
        records: columns `source, partition, offset, attempt`, and `detail` (string) where there is more to say; of the
            code EXPECTATION `rules` (array<string>) and `row` (JSON text of what a step made of the record).
        earlier: whether records of earlier cycles may be among them.
    """

    node: str
    code: str
    records: DataFrame
    earlier: bool = False


KeepPast = Callable[[str, Callable[[], "DataFrame"]], "DataFrame"]
"""Takes the name of a frame and what makes it; gives the frame, which may have been made before."""
Counter = Callable[[str, "DataFrame", "Mapping[str, Column]"], "DataFrame"]
"""Takes a node, rows, and aggregates over them by name; gives the rows as they are."""


@dataclass(frozen=True)
class Inputs:
    """What some cycles bring in.

    Attributes:
        streams: source name to its records frame, new rows only.
        tables: source name to its table side: new rows, and what is known from before unless `retained` has it.
        cycle: the first new cycle.
        counts: source name to how many rows it brings (points of a stream, rows of a table); may be incomplete.
        changes: table source to how many of its rows are changes; none reported: few.
        partitions: topic to partition count, which says how many tasks re-keyed records have.
        homes: source to what is noted of where its keys lie, and how many rows the partition has that has most. May be incomplete.
        fewer: where topics have grown, the first cycle that had other counts, and the counts until then; ascending.
        retained: node to what it kept of the past (`Results.kept` of the cycles before).
        keeps: whether `Results.kept` is wanted.
        send_old_values: whether a table's results say what was there before.
        scopes: set where many histories share the job.
        raw: whether tables may hold null keys and streams null values, which ingest has not sorted out.
        results_from: the first cycle whose results are wanted, where earlier ones are evaluated only because what is
            retained is older; by default all.
        ticks: stream to what moves the clocks of its tasks although no record comes: columns `ts, o`.
        clock_ms: the least of all tasks' clocks after these cycles; None: not known.
        hold: keeps a frame that is read several times.
        keep_past: keeps a small frame that is made of `retained` alone, by its name, as long as that is what is retained.
        extract: computes few rows out of many (`records.Extract`).
        materialise: takes a frame out of its plan, by computing it. Each join and aggregate reads its input several times; so
            where one follows the other, the plan grows by that factor with each. For few rows, which cost less than it.
        retained_rows: about how many rows are retained.
        record_bytes: about how large a record is; 0: not known, and ordinary.
        counted: counts rows of a node on their way: what becomes of the records of a race is seen there only.
    """

    streams: Mapping[str, DataFrame]
    tables: Mapping[str, TableSide]
    cycle: int
    counts: Mapping[str, int] = field(default_factory=dict)
    changes: Mapping[str, int] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)
    retained: Mapping[str, Mapping[str, DataFrame]] = field(default_factory=dict)
    keeps: bool = False
    send_old_values: bool = False
    scopes: Scopes | None = None
    raw: bool = False
    results_from: int | None = None
    ticks: Mapping[str, DataFrame] = field(default_factory=dict)
    clock_ms: int | None = None
    hold: Callable[[DataFrame], DataFrame] = lambda rows: rows
    keep_past: KeepPast = lambda _, make: make()
    extract: Extract = unextracted
    materialise: Callable[[DataFrame], DataFrame] | None = None
    retained_rows: int = 0
    record_bytes: int = 0
    counted: Counter = lambda _, rows, __: rows
    fewer: Sequence[tuple[int, Mapping[str, int]]] = ()
    homes: Mapping[str, tuple[Homes, int]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """About how many rows all that is."""
        return sum(self.counts.values()) + self.retained_rows

    @property
    def wanted(self) -> int:
        """The first cycle whose results are wanted."""
        return self.cycle if self.results_from is None else self.results_from


@dataclass
class Results:
    """What comes out.

    Attributes:
        outputs: sink to its rows as its table has them; of a topic `key, value` (bytes), `event_time_ms, _lineage`.
        records: sink to the records frame it takes them from, new rows only.
        rejected: records that steps had no use for.
        kept: node to what it needs of the past next time.
        nodes: node to its rows, for those who look inside.
        judged: what is to be judged of steps and outputs, by the node's name.
        unfiltered: node to its rows before a rule dropped some of them, where one does.
        pruned: node to how many rows it reads of what is retained, where these are known to be few.
    """

    outputs: dict[str, DataFrame] = field(default_factory=dict)
    records: dict[str, DataFrame] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)
    kept: dict[str, dict[str, DataFrame]] = field(default_factory=dict)
    nodes: dict[str, DataFrame | TableSide] = field(default_factory=dict)
    judged: dict[str, Dataset] = field(default_factory=dict)
    unfiltered: dict[str, DataFrame] = field(default_factory=dict)
    pruned: dict[str, int] = field(default_factory=dict)

    def rows(self, inputs: Inputs) -> int:
        """About how many rows they are computed from: of a table that is looked up all."""
        if self.pruned and set(inputs.retained) <= set(self.pruned):
            new = sum(inputs.changes.get(source, count) for source, count in inputs.counts.items())
            return new + sum(self.pruned.values())
        return inputs.rows
