"""The windowed join as a Python worker runs it, on Arrow tables: no Spark is started.

Rows come in any order, in one share, or by key and then by task with their clocks beside them; what comes out is what
the reference says. That keys are numbered as Spark compares them is shown beside Spark, in `test_arrays`.
"""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.operators.in_arrays import STRIDE, Arrival, History
from tests.operators.test_stream_stream_arrays import SETTINGS, WIDER, Setting, require_same, wanted

from lakestreams.operators import workers
from lakestreams.operators.segments import running
from lakestreams.operators.stream_stream import worker
from lakestreams.operators.windows import Windowed

SEED, EXAMPLES = 20261126, 12
AT = {"source": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "attempt": pa.int32()}
ORDER = {"cycle": pa.int64(), "stream_time_ms": pa.int64(), "side": pa.int32(), **AT}
VALUE = pa.struct({"a": pa.string()})
TABLE = pa.schema(
    {
        "k": pa.struct({"k": pa.string()}), "lv": VALUE, "rv": VALUE, "ts": pa.int64(), "o": pa.struct(ORDER), "n": pa.int32(),
        "task": pa.int32(), "arm": pa.int32(), "moves": pa.int64(), "tick": pa.bool_(), "contributors": pa.list_(pa.struct(AT)),
        "left_time": pa.int64(), "right_time": pa.int64(), "horizon": pa.int64(),
    }
)  # fmt: skip
STRICT = [one for one in SETTINGS if one.rules == "strict"]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_one_share(setting: Setting) -> None:
    for history, rng in examples(setting):
        found = worker.joined(options(setting, history), 0, columns(table(history.arrivals, rng)))
        require_same(setting, history, rows(found), wanted(setting, history)[0])


@pytest.mark.parametrize("setting", STRICT, ids=str)
def test_by_key_and_then_by_task(setting: Setting) -> None:
    for history, rng in examples(setting):
        given = known(table(history.arrivals, rng))
        told, batches = options(setting, history), []
        waiting = [given.slice(0, 0)]
        for share in shares(given, [hash(str(key)) % 3 for key in given.column("k").to_pylist()]):
            batches += worker.met(told, 0, columns(share))
            waiting += [pa.Table.from_batches([one]) for one in worker.waiting(told, 0, columns(share))]
        steps = given
        for name in ("k", "lv", "rv", "contributors"):
            place = steps.schema.get_field_index(name)
            steps = steps.set_column(place, name, pa.nulls(len(steps), steps.schema.field(name).type))
        if setting.emit != "eager":
            both = pa.concat_tables([*waiting, steps])
            for share in shares(both, both.column("task").to_pylist()):
                batches += worker.let_out(told, 0, columns(share))
        require_same(setting, history, rows(batches), wanted(setting, history)[0])


SECOND = 1 << 32  # the turn of the second side's first row


@pytest.mark.parametrize(
    ("right_first", "interleaved", "expected"),
    [
        (False, False, [(SECOND, "l0r0"), (SECOND, "l1r0"), (SECOND + 1, "l0r1"), (SECOND + 1, "l1r1")]),
        (True, False, [(SECOND, "l0r0"), (SECOND, "l0r1"), (SECOND + 1, "l1r0"), (SECOND + 1, "l1r1")]),
        (False, True, [(1, "l0r0"), (2, "l1r0"), (3, "l0r1"), (3, "l1r1")]),
        (True, True, [(1, "l0r0"), (2, "l0r1"), (3, "l1r0"), (3, "l1r1")]),
    ],
)
def test_rows_of_one_record_take_turns(right_first: bool, interleaved: bool, expected: list[tuple[int, str]]) -> None:
    """A record with two rows on each side; a result has the later of its two times."""
    given = [row(1, arm, 5 + 4 * arm, "k", place) for place in (1, 0) for arm in (1, 0)]
    one = Windowed("inner", 4, 4, 9, overlap="right_first" if right_first else "left_first", interleaved=interleaved)
    found = [made for batch in worker.joined(one, 0, columns(as_table(given))) for made in batch.to_pylist()]
    assert sorted((made["turn"], made["lv"]["a"] + made["rv"]["a"]) for made in found) == expected
    assert {made["ts"] for made in found} == {9}


@pytest.mark.parametrize("step", [worker.joined, worker.met, worker.let_out])
def test_what_no_result_needs_is_free_while_results_are_made(step: Callable[..., Iterator[Any]]) -> None:
    given = as_table([row(1, 0, 0, "a"), row(2, 1, 1, "a"), row(3, 0, 2, "b"), row(4, 1, 1_000, "z")])
    held: list[Callable[[], Any]] = []

    def arriving() -> Iterator[Any]:
        for place in range(len(given)):
            batch = given.slice(place, 1).to_batches()[0]
            held.append(weakref.ref(batch))
            yield batch
            del batch

    def spied(arrived: dict[str, Any]) -> Iterator[Any]:
        held.extend(weakref.ref(arrived[name]) for name in ("ts", "moves", "task", "tick"))
        results = step(Windowed("outer", 5, 5), 0, arrived)
        del arrived
        yield from results

    results = workers._whole(spied, arriving())
    assert next(results).num_rows > 0
    assert len(held) == len(given) + 4
    assert [one() for one in held if one() is not None] == []


# --- tables ----------------------------------------------------------------------------------------------------------


def examples(setting: Setting) -> Iterator[tuple[History, random.Random]]:
    rng = random.Random(f"{SEED}/{setting}")
    for events in setting.wild.histories(EXAMPLES, f"{SEED}/{setting}"):
        yield History(setting.arrivals(events), rng.choice(WIDER)), rng


def options(setting: Setting, history: History) -> Windowed:
    join = Windowed(setting.how, *history.times, setting.emit, setting.rules, realm=STRIDE)
    return replace(join, store="in_memory" if setting.in_memory else join.store)


def table(arrivals: Sequence[Arrival], rng: random.Random) -> Any:
    """The arrivals in any order; each is a cycle of its own, a self join's record goes to both sides in one."""
    made = []
    for one in arrivals:
        record, is_tick, is_right = one.record, one.arm == "tick", one.arm == "right"
        at = {"source": record.source, "partition": record.partition, "offset": record.offset, "attempt": 0}
        value = None if record.value is None else {"a": record.value["a"]}
        made.append({
            "k": None if record.key is None else {"k": record.key}, "lv": None if is_right else value,
            "rv": value if is_right else None, "ts": record.ts, "n": 1 << 30 if is_tick else 0, "task": record.task,
            "o": {"cycle": record.offset + 1, "stream_time_ms": record.stream_time, "side": 1, **at},
            "arm": int(is_right), "moves": one.moves, "tick": is_tick, "contributors": rng.choice([None, [at]]),
        })  # fmt: skip
    rng.shuffle(made)
    return as_table(made)


def known(given: Any) -> Any:
    """The rows with the clocks of their tasks, as `frames` brings them along."""
    order = np.lexsort((given.column("arm").to_numpy(), [one["cycle"] for one in given.column("o").to_pylist()]))
    moves, task = (given.column(name).to_numpy().astype(np.int64)[order] for name in ("moves", "task"))
    for name, clock in (("moves", running(moves, task)), ("horizon", np.maximum.accumulate(moves))):
        found = np.empty_like(clock)
        found[order] = clock
        given = given.set_column(given.schema.get_field_index(name), name, pa.array(found))
    return given


def row(cycle: int, arm: int, time: int, key: str, place: int = 0) -> dict[str, Any]:
    """Of a record that has its cycle for itself."""
    at = {"source": "s", "partition": 0, "offset": cycle, "attempt": 0}
    value = {"a": f"{'lr'[arm]}{place}"}
    return {
        "k": {"k": key}, "lv": None if arm else value, "rv": value if arm else None, "ts": time, "n": place, "task": 0,
        "o": {"cycle": cycle, "stream_time_ms": 9, "side": 1, **at}, "arm": arm, "moves": time, "tick": False,
    }  # fmt: skip


def as_table(made: list[dict[str, Any]]) -> Any:
    return pa.Table.from_pylist(made, schema=TABLE)


def columns(given: Any) -> dict[str, Any]:
    """A table as a worker has it."""
    return {name: given.column(name).combine_chunks() for name in given.column_names}


def shares(given: Any, by: Sequence[int]) -> Iterator[Any]:
    for number in sorted(set(by)):
        yield given.filter(pa.array([one == number for one in by]))


def rows(batches: Iterable[Any]) -> list[tuple[int | None, ...]]:
    """(trigger, left, right), in order."""
    found = []
    for row in (row for batch in batches for row in batch.to_pylist()):
        made = [one["offset"] for one in row["contributors"]]
        sides = [made.pop(0) if row[name] is not None else None for name in ("lv", "rv")]
        assert not made
        assert (row["kind"] == "matched") == (None not in sides)
        found.append(((row["o"]["cycle"], row["turn"], row["n"]), (row["o"]["offset"], *sides)))
    return [row for _, row in sorted(found, key=lambda one: one[0])]
