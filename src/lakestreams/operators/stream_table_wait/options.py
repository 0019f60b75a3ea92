"""The options of a stream-table join whose records look out for rows that come after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestreams.operators.windows import Windowed
from lakestreams.operators.workers import Shares

if TYPE_CHECKING:
    from lakestreams.topology.kinds import JoinKind, Overlap


@dataclass(frozen=True)
class WaitOptions(Shares):
    """Times are in ms.

    Attributes:
        how: `inner` or `left`.
        wait: how long a record waits for a row, or None.
        amend: how long a result without a row can be put right, or None; of a left join.
        overlap: whether both sides hold rows of one source record, and whose come first.
        multi_row: whether a side holds several rows of one source record.
        ascending: of the clocks (see `windows.Windowed`).
    """

    how: JoinKind
    wait: int | None
    amend: int | None
    overlap: Overlap = "none"
    multi_row: bool = False
    ascending: bool = False

    @property
    def clocks(self) -> Windowed:
        """The sides as a windowed join has them: for their places, and their tasks' clocks over the records of both."""
        return Windowed("left", 0, 0, overlap=self.overlap, realm=self.realm, ascending=self.ascending)
