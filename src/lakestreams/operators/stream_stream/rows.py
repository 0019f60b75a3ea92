"""What the kernel of a windowed join takes and gives: records of both sides as arrays, in the total order, and their matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lakestreams.operators.segments import Flags, Ints

Ms: TypeAlias = int | Ints
LEFT, RIGHT = 0, 1  # sides
NOTHING: Final = -(1 << 62)  # a time before all others


@dataclass(frozen=True)
class Window:
    """The options; times in ms, of all records or of each."""

    before: Ms  # `l.time - before <= r.time <= l.time + after`
    after: Ms
    grace: Ms = 0  # how long a window stays open after its end
    outer: tuple[bool, bool] = (False, False)  # whether unmatched records come out: of the left side, of the right
    kafka: bool = False  # whether the rules are Kafka's
    eager: bool = False
    in_memory: bool = False  # whether Kafka Streams would keep the window in memory


@dataclass(frozen=True)
class Rows:
    """The records of both sides in the total order; a place in it names a record."""

    arm: NDArray[np.int8]
    key: Ints  # equal numbers for equal keys; -1: null
    valued: Flags
    time: Ints
    moves: Ints  # what the record moves its task's clock to; not below its time
    task: Ints
    history: Ints  # tasks of one history may share keys
    tick: Flags  # no record, only a move of the clock
    new: Flags
    left_time: Ints  # running maxima of the sides, and of the history, where they are known, else NOTHING
    right_time: Ints
    horizon: Ints

    def __len__(self) -> int:
        return len(self.time)


class Judged(NamedTuple):
    """What the clocks say of each record, and what `pairs` has seen of it so far."""

    clock: Ints  # of its task
    horizon: Ints  # the greatest clock of its history
    seen: Ints  # how far the other side's time has come
    end: Ints  # of its window
    close: Ints
    late: Flags
    taking: Flags  # whether it takes part
    matched: Flags  # whether it found a partner when it came
    first: Ints  # the trigger of the first pair that a later one had with it, else the number of records
