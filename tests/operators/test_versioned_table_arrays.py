"""A versioned table's store as a Python worker runs it, on Arrow tables, beside the specification: no Spark is started.

Many histories lie in one table, each with a task and keys of its own. Rows go through the worker in one share, a task at a time, or
by key: then only versions come that the store takes, with what lookups still reach. Whole, or in pieces of which the next one gets
what is kept of those before.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from tests.operators.histories import History, recorded, wild
from tests.operators.test_stream_stream_worker import AT, ORDER, columns, shares
from tests.reference.tables import VersionedTable

from lakestreams.operators.versioned_table import kernel, worker
from lakestreams.operators.versioned_table.kernel import Versions

SEED, PIECES = 20260823, 4
Way = Literal["one share", "by task", "by key"]
WAYS: tuple[Way, ...] = ("one share", "by task", "by key")
KEY = pa.struct({"history": pa.int32(), "number": pa.int64(), "text": pa.string()})
TABLE: dict[str, Any] = {
    "k": KEY, "v": pa.struct({"text": pa.string()}), "ts": pa.int64(), "o": pa.struct(ORDER), "n": pa.int32(),
    "kind": pa.string(), "contributors": pa.list_(pa.struct(AT)), "task": pa.int32(), "history": pa.int64(),
}  # fmt: skip
Row: TypeAlias = dict[str, Any]
Step: TypeAlias = Callable[[dict[str, Any]], Iterator[Any]]


def odd(count: int, seed: int) -> list[History]:
    """One key, four times, half of the puts tombstones: what vanishes, vanishes here."""
    found = []
    for one in wild(count, seed):
        events = tuple((topic, "a", value, ts % 4) for topic, _, value, ts in one.events if topic == "right")
        found.append(History(one.number, events, history_ms=one.history_ms))
    return found


def sides(join: str, first: int) -> list[History]:
    """Each versioned side of the recorded cases, as the right topic of a history."""
    found = []
    for side in ("left", "right"):
        for one in recorded(join, lambda case, side=side: getattr(case.params, f"{side}_versioned")):
            events = tuple(
                ("right" if topic == side else "left", key, value, ts) for topic, key, value, ts in one.events
            )
            found.append(History(first + len(found), events, history_ms=one.history_ms))
    return found


def told(histories: Iterable[History]) -> dict[int, list[int]]:
    """The offsets of the updates that readers are told, by the specification."""
    found = {}
    for one in histories:
        table = VersionedTable(one.history_ms)
        offsets = [record.offset for record in one.records if record.source == "right" and table.put(record)]
        if offsets:
            found[one.number] = offsets
    return found


@pytest.fixture(scope="module")
def histories() -> list[History]:
    found = odd(300, SEED) + [
        History(300 + one.number, one.events, history_ms=one.history_ms) for one in wild(200, SEED)
    ]
    for join in ("table-table", "fk-table-table"):
        found += sides(join, len(found))
    assert len(found) > 590
    return found


@pytest.mark.parametrize("count", [1, 2, PIECES])
@pytest.mark.parametrize("keeps", ["latest", "lookups"])
@pytest.mark.parametrize("way", WAYS)
def test_what_readers_are_told(histories: list[History], way: Way, keeps: str, count: int) -> None:
    rng, cut = random.Random(SEED), {}
    for one in histories:
        cut[one.number] = sorted(rng.randint(1, count) for _ in one.events)
    found: dict[int, list[int]] = defaultdict(list)
    known: list[Row] = []
    for piece in range(1, count + 1):
        known += [row for one in histories for row in rows(one) if cut[one.number][row["o"]["offset"] - 1] == piece]
        for row in through(way, worker.latest_only, rng.sample(known, len(known)), realm=1):
            if cut[row["task"]][row["o"]["offset"] - 1] == piece:
                assert row["contributors"] == [{name: row["o"][name] for name in AT}]
                found[row["task"]].append(row["o"]["offset"])
        known = kept(way, known, realm=1, keeps=keeps)
    for one in histories:
        wanted = told([one]).get(one.number, [])
        shown = "\n".join(f"  {place} {event}" for place, event in enumerate(one.events, start=1))
        assert sorted(found[one.number]) == wanted, f"{one.number}, history {one.history_ms}\n{shown}"


def test_little_is_kept() -> None:
    """Of a key that changes all the time only what the history reaches; for readers of the latest two versions."""
    many = History(0, tuple(("right", "a", str(ts), ts) for ts in range(100)), history_ms=10)
    for way in WAYS:
        by_time = sorted(row["ts"] for row in kept(way, list(rows(many)), realm=1) if row["kind"] != "clock")
        assert by_time == list(range(89, 100))
        latest = kept(way, list(rows(many)), realm=1, keeps="latest")
        assert sorted((row["ts"], row["kind"]) for row in latest) == [(98, "record"), (99, "clock"), (99, "record")]


def test_keys_by_the_hundred_thousand_without_a_step_for_each() -> None:
    """What the loop would find, where nothing vanishes; versions come late."""
    rng = np.random.default_rng(SEED)
    size = 200_000
    key, time = rng.integers(0, size // 4, size), rng.integers(0, 1_000, size)
    none = np.zeros(size, bool)
    table = Versions(version=~none, clock=none, deletion=none, key=key, time=time, task=np.zeros(size, np.int64))
    newest, vanished = kernel.judge(table, np.arange(size))
    seen: dict[int, int] = {}
    for place, (one, ts) in enumerate(zip(key.tolist(), time.tolist(), strict=True)):
        assert newest[place] == (ts >= seen.get(one, ts))
        seen[one] = max(ts, seen.get(one, ts))
    assert not vanished.any()


# --- through the worker ----------------------------------------------------------------------------------------------


def rows(history: History) -> Iterator[Row]:
    """The table's rows as records, a cycle each."""
    for record in history.records:
        if record.source != "right" or record.key is None:
            continue
        at = {"source": "right", "partition": history.number, "offset": record.offset, "attempt": 0}
        is_number = isinstance(record.key, int)
        yield {
            "k": {"history": history.number, "number": record.key if is_number else None, "text": None if is_number else record.key},
            "v": None if record.value is None else {"text": str(record.value)},
            "ts": record.ts, "o": {"cycle": record.offset, "stream_time_ms": record.offset, "side": 0, **at}, "n": 0,
            "kind": "record", "contributors": None, "task": history.number, "history": history.history_ms,
        }  # fmt: skip


def kept(
    way: Way, known: Sequence[Row], realm: int, keeps: str = "lookups", given: Mapping[str, Any] = TABLE
) -> list[Row]:
    """What is kept of rows, as `frames` has it, and their histories.

    Args:
        given: the types of the rows.
    """
    histories = {row["task"] // realm: row["history"] for row in known}
    if keeps == "latest":
        found = through(way, partial(worker.kept, None), known, realm, given)
    else:
        found = through(way, partial(worker.kept, realm), known, realm, given, looks_back=True)
    return [{**row, "history": histories[row["task"] // realm]} for row in found]


def through(
    way: Way,
    step: Step,
    known: Sequence[Row],
    realm: int,
    types: Mapping[str, Any] = TABLE,
    *,
    looks_back: bool = False,
) -> list[Row]:
    """A step over rows in shares."""
    types, given = dict(types), [{name: row[name] for name in types} for row in known]
    if way != "one share" and looks_back:
        types["reached"] = pa.int64()
        clocks: dict[int, int] = {}
        for row in given:
            clocks[row["task"]] = max(row["ts"], clocks.get(row["task"], row["ts"]))
        behind: dict[int, int] = {}
        for task, ts in clocks.items():
            behind[task // realm] = min(ts, behind.get(task // realm, ts))
        given = [{**row, "reached": behind[row["task"] // realm] - row["history"]} for row in given]
    if way == "by key":
        given = [{name: row[name] for name in types if name != "history"} for row in taken(given)]
        del types["history"]
    table = pa.Table.from_pylist(given, schema=pa.schema(types))
    places = {
        "one share": lambda _: 0, "by task": lambda row: row["task"] % 5, "by key": lambda row: crc32(str(row["k"]).encode()) % 3
    }  # fmt: skip
    names = [name for name in TABLE if name != "history"]
    batches = [batch for share in shares(table, [places[way](row) for row in given]) for batch in step(columns(share))]
    assert all(batch.schema.names == names for batch in batches), "Spark takes columns by their places"
    return [row for batch in batches for row in batch.to_pylist()]


def taken(known: Iterable[Row]) -> Iterator[Row]:
    """The versions that the store takes, and clocks: as Spark finds them."""
    clocks: dict[int, int] = {}
    for row in sorted(known, key=lambda row: (row["o"]["cycle"], row["n"])):
        clocks[row["task"]] = max(row["ts"], clocks.get(row["task"], row["ts"]))
        if row["k"] is None or row["ts"] >= clocks[row["task"]] - row["history"]:
            yield row
