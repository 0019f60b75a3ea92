"""The windowed kernel in this process, against the reference: every recorded and random case, and fresh random histories.

No Spark is started. Histories have one to four partitions, keys that stray into other tasks, null keys and values, equal
times, records out of order, time that goes on by itself; each is run whole and cut at random places.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.conformance.__main__ import DEFAULT
from tests.conformance.arrays import Arrays
from tests.conformance.cases import Rules, load
from tests.conformance.runner import run
from tests.operators.in_arrays import Arrival, Found, History, through
from tests.operators.settings import TIMES
from tests.operators.wild import History as Events
from tests.operators.wild import Wild, home, sides
from tests.reference.records import Record, Result
from tests.reference.stream_stream import StrictJoin
from tests.reference.stream_stream_kafka import KafkaJoin
from tests.reference.windows import Emit, How, StreamStreamJoin, Windows

from lakestreams.operators.stream_stream import kernel
from lakestreams.operators.stream_stream.rows import Window
from lakestreams.testing.histories import CLOCK

SEED = 20261126
HISTORIES = 5_000  # of all settings together
PLAIN = Wild()
OUTER: dict[How, tuple[bool, bool]] = {"inner": (False, False), "left": (True, False), "outer": (True, True)}
WIDER = (*TIMES, (50, 50, 0), (20, 60, 15), (6, -4, 1), (-4, 6, 1))


@pytest.mark.parametrize("steps", [1, 3, 8])
@pytest.mark.parametrize(("rules", "count"), [("kafka", 220), ("strict", 207)])
def test_every_recorded_and_random_case(rules: Rules, count: int, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if steps == 3:  # as in a large task: some keys at a time, and of these some pairs
        monkeypatch.setattr(kernel, "AT_ONCE", 4)
        monkeypatch.setattr(kernel, "PIECE", 3)
    cases, faults = load(DEFAULT)
    assert not faults
    windowed = [case for case in cases if case.join == "stream-stream" and case.not_claimed is None]
    report = run(windowed, Arrays(steps, SEED), rules)
    assert report.failed == {}, "\n".join(report.lines())
    assert len(report.passed) == count


def test_partners_are_looked_for_some_keys_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "AT_ONCE", 4)
    taking = np.arange(13) != 5
    parts = list(kernel._by_keys(SimpleNamespace(key=np.arange(13) // 2), taking))  # type: ignore[arg-type]
    assert [len(set(part // 2)) for part in parts] == [2, 2, 2, 1]
    assert sorted(place for part in parts for place in part.tolist()) == np.flatnonzero(taking).tolist()


# --- fresh histories -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """A join's options, and how its records lie.

    Attributes:
        wild: makes histories.
        tasks: how many tasks each side's records are spread over by their key; 0: as they lie.
        both: whether each record goes to both sides, as in a self join.
    """

    how: How
    rules: Rules
    emit: Emit = "on_window_close"
    in_memory: bool = False
    wild: Wild = PLAIN
    tasks: tuple[int, int] = (0, 0)
    both: bool = False

    def __str__(self) -> str:
        words = [
            self.how,
            self.rules,
            self.emit,
            f"tasks {self.tasks}",
            *(name for name in ("in_memory", "both") if getattr(self, name)),
        ]
        partitions = "" if self.wild.counts is None else ", ".join(map(str, self.wild.counts.values()))
        lies = [word for word in ("strays", "ticks") if getattr(self.wild, word)]
        return ", ".join([*words, *lies, *([f"partitions {partitions}"] if partitions else [])])

    @property
    def options(self) -> Window:
        kafka, eager = self.rules == "kafka", self.emit == "eager"
        return Window(0, 0, outer=OUTER[self.how], kafka=kafka, eager=eager, in_memory=self.in_memory)

    def page(self, times: tuple[int, int, int]) -> StreamStreamJoin:
        if self.rules == "strict":
            return StrictJoin(self.how, Windows(*times), sides, self.emit)
        return KafkaJoin(self.how, Windows(*times), sides, self.emit, in_memory=self.in_memory)

    def arrivals(self, events: Events) -> list[Arrival]:
        """As the kernel gets them: a source's record brings its partition's time along, but under Kafka's rules."""
        found: list[Arrival] = []
        times: dict[tuple[str, int], int] = {}
        for place, one in enumerate(events.events):
            at = one.source, one.partition
            times[at] = max(times.get(at, one.ts), one.ts)
            task = None if one.source == CLOCK else self._task(one.source, one.key, one.partition)
            record = Record(one.source, one.partition, place, one.ts, one.key, one.value, 1, task, times[at])
            moves = one.ts if self.rules == "kafka" else times[at]
            if one.source == CLOCK:
                found.append(Arrival("tick", record, one.ts))
            else:
                both_sides = ("left", "right") if self.both else (one.source,)
                found += [Arrival(arm, record, moves) for arm in both_sides]
        return found

    def _task(self, source: str, key: str | None, partition: int) -> int | None:
        count = self.tasks[source == "right"]
        return None if not count else partition % count if key is None else home(key, count)


STRAYS, TICKS = Wild(strays=True), Wild(counts={"left": 1, "right": 1}, ticks=True, closing=False)
UNEQUAL = Wild(counts={"left": 3, "right": 2}, strays=True)
HOWS: tuple[How, ...] = ("inner", "left", "outer")
RULES: tuple[Rules, ...] = ("strict", "kafka")
SETTINGS = (
    *(Setting(how, rules, wild=wild) for how, rules, wild in product(HOWS, RULES, (Wild(), STRAYS, UNEQUAL))),
    *(Setting(how, rules, "eager", wild=STRAYS) for how, rules in product(HOWS[1:], RULES)),
    *(Setting(how, "strict", wild=TICKS) for how in HOWS),
    *(Setting(how, rules, both=True) for how, rules in product(HOWS, RULES)),
    *(Setting(how, rules, tasks=(2, 2), wild=UNEQUAL) for how, rules in product(HOWS, RULES)),
    *(Setting(how, "strict", tasks=(3, 0), wild=STRAYS) for how in HOWS),
    Setting("outer", "kafka", in_memory=True),
    Setting("outer", "kafka", "eager", in_memory=True, both=True),
)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_fresh_histories(setting: Setting) -> None:
    require_equal(setting, HISTORIES // len(SETTINGS) + 1, f"{SEED}/{setting}")


def require_equal(setting: Setting, count: int, seed: str) -> None:
    """Fails with the first history that came out otherwise than the reference says."""
    rng = random.Random(seed)
    events = setting.wild.histories(count, seed)
    came = [setting.arrivals(one) for one in events]
    drawn = [rng.choice(WIDER) for _ in came]
    whole = [History(one, times) for one, times in zip(came, drawn, strict=True)]
    cut = [History(one, times, _cuts(one, rng)) for one, times in zip(came, drawn, strict=True)]
    found = through([*whole, *cut], setting.options)
    expected = [wanted(setting, one) for one in whole]
    for one, outcome, (rows, late) in zip([*whole, *cut], found, [*expected, *expected], strict=True):
        require_same(setting, one, [_shown(row) for row in outcome.rows], rows)
        assert [record.offset for record in outcome.late] == late


def _cuts(arrivals: list[Arrival], rng: random.Random) -> list[int]:
    """Up to three places, none of them between the sides of one record."""
    size = len(arrivals)
    places = [n for n in range(size + 1) if n in (0, size) or arrivals[n].record is not arrivals[n - 1].record]
    return sorted(rng.choice(places) for _ in range(rng.randint(1, 3)))


def wanted(setting: Setting, history: History) -> tuple[list[Any], list[int]]:
    """What the reference says: (trigger, left, right) of each row, and who is late."""
    page = setting.page(history.times)
    rows: list[Any] = []
    for one in history.arrivals:
        take: Callable[[Record], list[Result]] = getattr(page, one.arm)
        rows += [(row.cause.offset, *map(_offset, row.contributors)) for row in take(one.record)]
    return rows, [record.offset for record in page.late]


def _shown(row: Found) -> tuple[int | None, ...]:
    return (row.trigger.offset, _offset(row.left), _offset(row.right))


def _offset(record: Record | None) -> int | None:
    return None if record is None else record.offset


def require_same(setting: Setting, history: History, rows: Sequence[Any], expected: Sequence[Any]) -> None:
    """Fails with the history where rows differ."""
    shown = [f"    {one.arm} {one.record.task}: {one.record}" for one in history.arrivals]
    told = [f"{setting}, {history.times}, cut {history.cuts}", *shown, f"got {rows}", f"expected {expected}"]
    assert list(rows) == list(expected), "\n".join(told)


def test_a_tick_lets_out_under_kafkas_rules_too() -> None:
    """No record of Kafka Streams would have: who lets time go on by itself has asked for it (decision 0016)."""
    record = Record("left", 0, 1, 10, "k", {"a": "x"})
    tick = Record("", 0, 2, 99, None, None)
    history = History([Arrival("left", record, 10), Arrival("tick", tick, 99)], (5, 5, 0))
    (found,) = through([history], Setting("left", "kafka").options)
    assert [_shown(row) for row in found.rows] == [(2, 1, None)]


def test_a_clock_that_closed_a_window_before_a_cut_still_closed_it_behind_the_cut() -> None:
    """Task 1 had closed the left record's window when its partner came in task 2; of that time no row of task 1 is kept."""
    came = [("left", 3, 16, "c", True), ("left", 1, 29, "c", False), ("right", 2, 16, "c", True)]
    closing = [("left", task, 1_000_000, f"end {task}", True) for task in (1, 2, 3)]
    require_cut(Setting("left", "strict"), [*came, *closing], (1, 1, 10), 4)


def test_a_null_value_moves_its_sides_time_behind_a_cut() -> None:
    """In memory, Kafka Streams takes a null value's time: what lies a window behind it has left the store for ever."""
    came = [("left", 0, 4, "k", True), ("left", 0, 12, "k", False), ("right", 0, 4, "x", True)]
    require_cut(Setting("left", "kafka", "eager", in_memory=True), [*came, ("right", 0, 9, "k", True)], (0, 5, 2), 3)


def require_cut(setting: Setting, came: Sequence[Any], times: tuple[int, int, int], place: int) -> None:
    """Fails where a history that is cut before a place comes out otherwise than the reference says.

    Args:
        came: (side, task, time, key, whether there is a value) of each record.
    """
    latest: dict[tuple[str, int], int] = {}
    arrivals = []
    for offset, (arm, task, ts, key, valued) in enumerate(came):
        latest[arm, task] = max(latest.get((arm, task), ts), ts)
        value = {"a": f"{arm} {offset}"} if valued else None
        arrivals.append(Arrival(arm, Record(arm, task, offset, ts, key, value, 1, None, latest[arm, task]), ts))
    history = History(arrivals, times, [place])
    (found,) = through([history], setting.options)
    require_same(setting, history, [_shown(row) for row in found.rows], wanted(setting, history)[0])
