"""The buffer of a suppression in this process, against the reference: random updates, whole and cut; no Spark is started."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.reference.records import Record, key_bytes
from tests.reference.suppress import BufferFull as Full
from tests.reference.suppress import Suppress

from lakestreams.errors import BufferFull
from lakestreams.operators.suppress.kernel import STAYS, Hold, Rows, waits

SEED, HISTORIES, TASKS = 20261126, 150, 3
KEYS = ("a", "b", "é", "Z", "aa")


class Update(NamedTuple):
    """An update of a task's table; without a key only time goes on."""

    task: int
    key: str | None
    time: int
    since: int
    waits: bool = False  # whether it is what waits from before

    @property
    def record(self) -> Record:
        return Record("t", self.task, 0, self.time, self.key, {"a": "x"})


HOLDS = (
    Hold(0), Hold(7), Hold(30), Hold(None, 5), Hold(7, max_records=1), Hold(30, max_records=2), Hold(None, 5, max_records=2),
    Hold(30, max_records=0),
)  # fmt: skip


@pytest.mark.parametrize("hold", HOLDS, ids=str)
def test_what_comes_out_and_what_stays(hold: Hold) -> None:
    for number in range(HISTORIES):
        updates = history(random.Random(f"{SEED}/{hold}/{number}"), hold)
        expected = wanted(updates, hold)
        assert whole(updates, hold) == expected, updates
        for cut in range(len(updates)):
            assert in_two(updates, hold, cut) == expected, (cut, updates)


def test_a_full_buffer_says_where_and_how_many_keys_wait() -> None:
    hold = Hold(30, max_records=2, when_full="shutdown")
    for number in range(HISTORIES):
        updates = history(random.Random(f"{SEED}/{number}"), hold)
        try:
            expected = wanted(updates, hold)
        except Full:
            with pytest.raises(BufferFull) as caught:
                whole(updates, hold)
            assert re.fullmatch(
                rf'suppress "suppress": 3 keys wait in task [0-{TASKS - 1}], max_records is 2', caught.value.message
            )
        else:
            assert whole(updates, hold) == expected


# --- histories -------------------------------------------------------------------------------------------------------


def history(rng: random.Random, hold: Hold) -> list[Update]:
    updates = []
    now = 0
    for _ in range(rng.randint(1, 14)):
        now = max(0, now + rng.randint(-6, 12))
        task, key = rng.randrange(TASKS), rng.choice((*KEYS, None))
        updates.append(Update(task, key, now, now - now % 10 + 10 if hold.is_final else now))
    return updates


@dataclass(frozen=True)
class Out:
    """Which update let which other one out, in order; and of each task's keys, which update of them waits."""

    out: list[tuple[int, int]]
    stays: dict[tuple[int, str], int]


def wanted(updates: Sequence[Update], hold: Hold) -> Out:
    """As the reference says."""
    since: Callable[[Record], int] = lambda record: record.value["since"]  # type: ignore[index]  # noqa: E731
    pages = [Suppress(hold.wait_ms, most=hold.max_records, full=hold.when_full, time_of=since) for _ in range(TASKS)]
    out, stays = [], {}
    for place, one in enumerate(updates):
        record = replace(one.record, value={"since": one.since, "place": place})
        if one.key is None:
            found = tick(pages[one.task], one.time)
        else:
            stays[one.task, one.key] = place
            found = pages[one.task].put(record)
        for gone in found:
            out.append((place, gone.value["place"]))
            del stays[one.task, gone.key]
    return Out(out, stays)


def tick(page: Suppress, time: int) -> list[Any]:
    """What time alone lets out: an update of a key that comes out last, and is none of them.

    It waits for ever, and is taken out of the buffer again.
    """
    most, page._most = page._most, None
    nobody = Record("t", 0, 0, time, "nobody", {"since": 1 << 40, "place": -1})
    found = page.put(nobody)
    del page._waiting["nobody"]
    page._most = most
    return found


def whole(updates: Sequence[Update], hold: Hold) -> Out:
    return told(updates, range(len(updates)), hold, [-1] * TASKS)[0]


def in_two(updates: Sequence[Update], hold: Hold, cut: int) -> Out:
    """Cut before a place: what waits then, and where the clocks stand, is all that the second piece knows."""
    first, kept = told(updates[:cut], range(cut), hold, [-1] * TASKS)
    clocks = [max((one.time for one in updates[:cut] if one.task == task), default=-1) for task in range(TASKS)]
    rows = [*kept.values(), *updates[cut:]]
    second, _ = told(rows, [*kept, *range(cut, len(updates))], hold, clocks)
    return Out(first.out + second.out, second.stays)


def told(
    updates: Sequence[Update], numbers: Sequence[int], hold: Hold, clocks: Sequence[int]
) -> tuple[Out, dict[int, Update]]:
    """What the kernel says, by the updates' numbers; and what waits behind it, in the order of these."""
    ordered = sorted({one.key or "" for one in updates}, key=key_bytes)
    rows = Rows(
        task=ints(one.task for one in updates),
        key=ints(-1 if one.key is None else ordered.index(one.key) for one in updates),
        rank=ints(ordered.index(one.key or "") for one in updates),
        time=ints(one.time for one in updates),
        since=ints(one.since for one in updates),
        stood=ints(clocks[one.task] for one in updates),
        step=np.array([not one.waits for one in updates], bool),
        tick=np.array([one.key is None for one in updates], bool),
    )
    found = waits(rows, hold)
    out: list[tuple[int, int]] = []
    stays: dict[tuple[int, str], int] = {}
    kept = {}
    order = np.lexsort((rows.rank[found.first], rows.since[found.first], found.trigger))
    for place in order.tolist():
        first, last, trigger = (int(one[place]) for one in found)
        if trigger == STAYS:
            stays[updates[last].task, updates[last].key or ""] = numbers[last]
            kept[numbers[last]] = updates[last]._replace(since=updates[first].since, waits=True)
        else:
            out.append((numbers[trigger], numbers[last]))
    return Out(out, stays), dict(sorted(kept.items()))


def ints(values: Any) -> Any:
    return np.array(list(values), np.int64)
