"""Counts of the rows that a worker makes: one text for each task, next to its last row.

So an append reports what bronze got without a look at every row by Spark, and without reading the batch back. The counts of
tasks are added up where they arrive; a task that ran twice has counted the same, and counts once.

Each partition is counted in pieces of `PIECE` records, or of more where it has very many. So settling knows what lies below a
cut, but for one piece (`engine/ledger/pieces.py`).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakestreams.engine.ledger.plans import LATENESS_MS, known_sum
from lakestreams.operators import noted_homes
from lakestreams.operators.homes import LAWS, laws_of
from lakestreams.operators.noted_homes import NotedKey

COUNTS: Final = "_lakestreams_counts"
"""The column behind a task's rows: null but in its last one."""
PIECE: Final = 8_192
"""Records that are counted together: few enough to be read again at once, and enough that their counts are a short text."""
_MOST_PIECES: Final = 64
"""Of a partition in a task, since Spark keeps what tasks report for a long time. Even: of more, pairs are added up."""
Counts = dict[str, Any]
_ADDED: Final = ("records", "bad", "null_keys", "null_values", "bytes")
_GREATEST: Final = ("last", "stream_time_ms", "lag_ms")


def with_counts(batches: Iterable[Any], partitions: int = 0) -> Iterator[Any]:
    """The batches of a task with the column `COUNTS`. One is held back, since only the last one has the counts.

    Args:
        batches: record batches with bronze's columns, and behind them `one_by_one`, which is taken away.
        partitions: how many the topic has, if it is wanted which partitioners place its keys where they are; 0: it is not.
    """
    counted = _Counted(partitions)
    held = None
    for batch in batches:
        if not len(batch):
            continue
        if held is not None:
            yield _with(held, None)
        held = batch
        counted.add(batch)
    if held is not None:
        yield _with(held, json.dumps(counted.pieces, separators=(",", ":"), sort_keys=True))


def pieces(texts: Iterable[str]) -> dict[int, list[Counts]]:
    """The counts of each partition that has rows, from the texts of all tasks.

    Returns:
        Partition to its pieces, ascending. Each has `partition, first, last, records, bad, null_keys, null_values, bytes,
        stream_time_ms, lag_ms, lateness, one_by_one`, and one of each task `homes` if that was wanted. `one_by_one` is None
        where the formats have one way of reading only.
    """
    found: dict[int, list[Counts]] = {}
    for part in itertools.chain.from_iterable(json.loads(text) for text in sorted(set(texts))):
        found.setdefault(part["partition"], []).append(part)
    return {partition: sorted(own, key=lambda one: int(one["first"])) for partition, own in found.items()}


def total(parts: Iterable[Counts]) -> Counts:
    """The counts of a partition, from those of its pieces."""
    return reduce(_sum, parts)


def _sum(one: Counts, other: Counts) -> Counts:
    """The counts of two pieces of a partition."""
    homes = [part["homes"] for part in (one, other) if "homes" in part]
    return {
        "partition": one["partition"],
        "first": min(one["first"], other["first"]),
        **{name: max(one[name], other[name]) for name in _GREATEST},
        **{name: one[name] + other[name] for name in _ADDED},
        "lateness": [mine + more for mine, more in zip(one["lateness"], other["lateness"], strict=True)],
        "one_by_one": known_sum([one["one_by_one"], other["one_by_one"]]),
        **({"homes": noted_homes.of_all(homes)} if homes else {}),
    }


class _Counted:
    """The counts of a task's rows, however they are cut into batches."""

    def __init__(self, partitions: int = 0) -> None:
        self._partitions = partitions
        self._of: dict[int, list[Counts]] = {}  # partition to its pieces; the last one may have fewer records
        self._sizes: dict[int, int] = {}  # partition to how many records a piece has
        self._homes: dict[int, dict[str, frozenset[NotedKey]]] = {}

    @property
    def pieces(self) -> list[Counts]:
        """Those of each partition; where its keys lie stands with the first one."""
        noted = {
            partition: {"homes": {law: sorted(keys) for law, keys in homes.items()}}
            for partition, homes in self._homes.items()
        }
        return [
            part if place else part | noted.get(partition, {})
            for partition, own in self._of.items()
            for place, part in enumerate(own)
        ]

    def add(self, batch: Any) -> None:
        """Counts further rows."""
        partitions = batch.column("partition").to_numpy()
        cuts = (np.flatnonzero(np.diff(partitions)) + 1).tolist()
        for start, end in itertools.pairwise([0, *cuts, len(partitions)]):
            at, partition = start, int(partitions[start])
            own = self._of.setdefault(partition, [])
            if self._partitions:
                self._look(batch.slice(start, end - start), partition)
            while at < end:
                rows = batch.slice(at, min(end - at, self._room(partition, own)))
                self._add(own, {"partition": partition, **_of_partition(rows)})
                at += len(rows)

    def _look(self, rows: Any, partition: int) -> None:
        """Takes note of where further keys of a partition lie, by the laws that have held so far."""
        if rows.column("error").null_count < len(rows):
            rows = rows.filter(rows.column("error").is_null())
        known = self._homes.setdefault(partition, dict.fromkeys(LAWS, frozenset()))
        self._homes[partition] = noted_homes.of_all(
            [known, laws_of(rows.column("k"), partition, self._partitions, known)]
        )

    def _room(self, partition: int, own: list[Counts]) -> int:
        """How many records the partition's last piece has room for; if it is full, how many a further one has."""
        size = self._sizes.setdefault(partition, PIECE)
        if own and own[-1]["records"] < size:
            return int(size - own[-1]["records"])
        if len(own) == _MOST_PIECES:
            own[:] = [_sum(one, other) for one, other in zip(own[::2], own[1::2], strict=True)]
            self._sizes[partition] = size = 2 * size
        return size

    def _add(self, own: list[Counts], part: Counts) -> None:
        if own and own[-1]["records"] < self._sizes[part["partition"]]:
            own[-1] = _sum(own[-1], part)
        else:
            own.append(part)


def _of_partition(rows: Any) -> Counts:
    offsets, stream_times = (rows.column(name).to_numpy() for name in ("offset", "stream_time_ms"))
    bad = rows.column("error").is_valid()
    counts: Counts = {
        "first": int(offsets.min()),
        "last": int(offsets.max()),
        "records": len(rows),
        "bytes": _bytes(rows),
        "one_by_one": pc.sum(rows.column("one_by_one")).as_py(),
        "stream_time_ms": int(stream_times.max()),
    }
    counts["bad"] = pc.sum(bad).as_py() or 0
    if counts["bad"]:
        rows = rows.filter(pc.invert(bad))
    # a readable record has a time
    behind = rows.column("stream_time_ms").to_numpy() - rows.column("event_time_ms").to_numpy(zero_copy_only=False)
    spread = np.bincount(np.searchsorted(LATENESS_MS, behind, side="left"), minlength=len(LATENESS_MS) + 1)
    return {
        **counts,
        "null_keys": rows.column("k").null_count,
        "null_values": rows.column("v").null_count,
        "lag_ms": int(behind.max(initial=0)),
        "lateness": spread.tolist(),
    }


def _bytes(rows: Any) -> int:
    """What keys, values and headers weigh together."""
    parts = [rows.column(name) for name in ("key", "value")]
    headers = rows.column("headers")
    if headers.null_count < len(headers):
        parts += headers.flatten().flatten()
    return sum(pc.sum(pc.binary_length(part)).as_py() or 0 for part in parts)


def _with(batch: Any, text: str | None) -> Any:
    if text is None:
        told = pa.nulls(len(batch), pa.string())
    else:
        told = pa.concat_arrays([pa.nulls(len(batch) - 1, pa.string()), pa.array([text])])
    return pa.RecordBatch.from_arrays([*batch.columns[:-1], told], names=[*batch.schema.names[:-1], COUNTS])


__all__ = ["COUNTS", "PIECE", "Counts", "pieces", "total", "with_counts"]
