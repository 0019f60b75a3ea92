"""Histories through the windowed kernel in this process: without Spark, thousands at once, whole or in pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
from tests.reference.records import Record, key_bytes

from lakestreams.operators.arrays import MISSING
from lakestreams.operators.segments import Flags, Ints, groups, running
from lakestreams.operators.stream_stream.kernel import judge, match
from lakestreams.operators.stream_stream.rows import LEFT, NOTHING, RIGHT, Rows, Window

Arm = Literal["left", "right", "tick"]
STRIDE = 16  # tasks of a history


@dataclass(frozen=True)
class Arrival:
    """A record as it comes to one side; of the arm `tick` it only moves the clock of its task."""

    arm: Arm
    record: Record
    moves: int


@dataclass(frozen=True)
class History:
    """Arrivals in their order, the join's (before, after, grace), and before which places they are cut, ascending."""

    arrivals: Sequence[Arrival]
    times: tuple[int, int, int]
    cuts: Sequence[int] = ()


@dataclass(frozen=True)
class Found:
    """A result: the records that it is made of and the one that triggers it; None: a missing side."""

    left: Record | None
    right: Record | None
    trigger: Record


@dataclass
class Outcome:
    """What came out of a history, in order, and who was late."""

    rows: list[Found] = field(default_factory=list)
    late: list[Record] = field(default_factory=list)


def through(histories: Sequence[History], options: Window) -> list[Outcome]:
    """The outcome of each history.

    Args:
        options: of all joins, but for the times.
    """
    outcomes = [Outcome() for _ in histories]
    known: Piece | None = None
    for step in range(1 + max((len(one.cuts) for one in histories), default=0)):
        piece = _piece(histories, step, known)
        window = _window(histories, piece, options)
        judged = judge(piece.rows, window)
        for place in np.flatnonzero(judged.late & piece.rows.new).tolist():
            outcomes[piece.rows.history[place]].late.append(piece.records[place])
        results = [np.stack(one) for one in match(piece.rows, window, piece.ranks)]
        table = np.concatenate(results, axis=1) if results else np.zeros((4, 0), np.int64)
        assert np.unique(table[2:], axis=1).shape == table[2:].shape, "(trigger, place) is unique"
        for left, right, trigger in table[:3, np.lexsort((table[3], table[2]))].T.tolist():
            made = Found(piece.record(left), piece.record(right), piece.records[trigger])
            outcomes[piece.rows.history[trigger]].rows.append(made)
        known = retained(piece, window)
    return outcomes


# --- what is kept of the past ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """Rows and the records that they stand for."""

    rows: Rows
    records: list[Record]

    def record(self, place: int) -> Record | None:
        return None if place == MISSING else self.records[place]

    def ranks(self, places: Ints) -> Ints:
        keys = [key_bytes(self.records[place].key) for place in places]
        order = {key: number for number, key in enumerate(sorted(set(keys)))}
        return np.array([order[key] for key in keys], np.int64)


def retained(piece: Piece, window: Window) -> Piece:
    """What of the past may still matter, with its clocks: as `stream_stream.retain` filters frames."""
    rows, judged = piece.rows, judge(piece.rows, window)
    part, is_left = (rows.key >= 0) & rows.valued, rows.arm == LEFT
    stored = rows.key >= 0 if window.in_memory else part
    left_time, right_time = (
        running(np.maximum(known, np.where(stored & (rows.arm == arm), rows.time, NOTHING)), rows.task)
        for arm, known in ((LEFT, rows.left_time), (RIGHT, rows.right_time))
    )
    steps = (part | rows.tick) & (rows.time == judged.clock) if window.kafka else np.ones(len(rows), bool)
    carries, horizon = np.zeros(len(rows), bool), np.zeros(len(rows), np.int64)
    for _, places in groups(rows.task):
        stepping = places[steps[places]]
        carries[places[-1]] = carries[stepping[-1:]] = True
        horizon[places] = judged.clock[places[-1]]
        if window.kafka:
            stepped = max([0, *judged.clock[stepping[-1:]].tolist()])
            own = np.where(is_left[places], left_time[places[-1]], right_time[places[-1]])
            horizon[places] = np.minimum(stepped, np.maximum(own, 0))
    for _, places in groups(rows.history) if not window.kafka else ():
        horizon[places] = horizon[places].min()
    keeps = carries | (part & (rows.time >= horizon - _reach(window)))
    clocks = {"moves": judged.clock, "left_time": left_time, "right_time": right_time, "horizon": judged.horizon}
    kept = _taken(replace(rows, **clocks, new=np.zeros(len(rows), bool)), keeps)
    return Piece(kept, [piece.records[place] for place in np.flatnonzero(keeps).tolist()])


def _reach(window: Window) -> Any:
    before, after, grace = window.before, window.after, window.grace
    if window.kafka:
        return (np.abs(before) + np.abs(after) + grace) * 2
    return np.maximum(np.maximum(before + after, before), after) + grace


# --- arrays ----------------------------------------------------------------------------------------------------------


def _piece(histories: Sequence[History], step: int, known: Piece | None) -> Piece:
    """The arrivals of a step behind what is known; each history's lie together, which is all the order that is needed."""
    came = []
    for number, one in enumerate(histories):
        ends = [0, *one.cuts, *[len(one.arrivals)] * (step + 1 - len(one.cuts))]
        came += [(number, arrival) for arrival in one.arrivals[ends[step] : ends[step + 1]]]
    records = [one.record for _, one in came]
    unknown = np.full(len(came), NOTHING)
    rows = Rows(
        arm=np.array([RIGHT if one.arm == "right" else LEFT for _, one in came], np.int64),
        key=np.array([_number(number, one.record.key) for number, one in came], np.int64),
        valued=np.array([one.value is not None for one in records], bool),
        time=np.array([one.ts for one in records], np.int64),
        moves=np.array([one.moves for _, one in came], np.int64),
        task=np.array([number * STRIDE + one.record.task for number, one in came], np.int64),
        history=np.array([number for number, _ in came], np.int64),
        tick=np.array([one.arm == "tick" for _, one in came], bool),
        new=np.ones(len(came), bool),
        left_time=unknown,
        right_time=unknown,
        horizon=unknown,
    )
    if known is None:
        return Piece(rows, records)
    both = {one.name: np.concatenate([getattr(known.rows, one.name), getattr(rows, one.name)]) for one in fields(Rows)}
    return Piece(Rows(**both), [*known.records, *records])


def _window(histories: Sequence[History], piece: Piece, options: Window) -> Window:
    times = np.array([one.times for one in histories], np.int64).reshape(-1, 3)[piece.rows.history]
    return replace(options, before=times[:, 0], after=times[:, 1], grace=times[:, 2])


def _taken(rows: Rows, wanted: Flags) -> Rows:
    return Rows(**{one.name: getattr(rows, one.name)[wanted] for one in fields(Rows)})


_numbers: dict[Any, int] = {}


def _number(history: int, key: Any) -> int:
    return -1 if key is None else _numbers.setdefault((history, key), len(_numbers))
