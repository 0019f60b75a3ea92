"""Whether equal keys share a task, as they do where a partitioner has placed them: read from each row alone, without an exchange.

The laws, over the bytes of the key: `(murmur2 & 0x7fffffff) mod tasks` (Kafka's BuiltInPartitioner and Utils.murmur2; semantics
section 9), or `crc32 mod tasks` (librdkafka's `consistent`, the default of its clients). The bytes of a key of one column are
those of the usual serializers: UTF-8, big-endian numbers, binary itself. A few keys may be elsewhere, such as those of
heartbeats that go to every partition: they are looked for in all tasks.

Ingest notes the laws by which the keys of its records lie at home, and which few do not (`laws_of`). What is known by that is
not looked at again.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.arrays import ints, valid
from lakestreams.operators.noted_homes import MOST
from lakestreams.operators.records import KEY, TASK
from lakestreams.operators.versions import key_type
from lakestreams.operators.weights import arrived, weighed
from lakestreams.operators.workers import ROWS_OF_A_WORKER
from lakestreams.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from lakestreams.operators.noted_homes import NotedHomes, NotedKey
    from lakestreams.operators.segments import Ints

_KINDS: Final = {"string": pa.string(), "binary": pa.binary(), "bigint": pa.int64(), "int": pa.int32()}
_SEED, _M = np.uint32(0x9747B28C), np.uint32(0x5BD1E995)
ROWS_OF_A_TASK: Final = 2_500_000
"""In one worker; with values of 50 bytes it then holds about 1 GB."""
_LOOKED_FOR: Final = 1_000  # keys that may be elsewhere
_LONGEST: Final = 256  # bytes of a key: each word of the longest one is a step, and some keys are collected
_SHORT: Final = 40  # bytes of a key that is noted


def groups_in_words(otherwise: str | None) -> str:
    """How rows are grouped for Python workers, for `check --explain`.

    Args:
        otherwise: where equal keys may lie in two tasks; None: they never do.
    """
    groups = f"up to {ROWS_OF_A_WORKER:,} rows in one group, for one Python worker; of more rows a group for each task"
    at_home = f"of up to {ROWS_OF_A_TASK:,} if every key lies on its home partition"
    return groups if otherwise is None else f"{groups} {at_home}, else {otherwise}"


def share_tasks(rows: DataFrame, tasks: int, noted: NotedHomes | None = None, rest: DataFrame | None = None) -> bool:
    """Whether equal keys surely lie in one task, and each task's rows in a worker.

    Args:
        rows: a records frame with `task`; rows without a key do not count.
        noted: what is known of all rows but the rest.
        rest: those; None: there are none.
    """
    if noted is None or not noted.elsewhere or noted.rows > ROWS_OF_A_TASK:
        found = _asked(rows, tasks)
        return found is not None and bool(_share(rows, found, dict.fromkeys(_LAWS, frozenset()), 0))
    found = [] if rest is None else _asked(rest, tasks)
    told = None if found is None else _share(rows, found, noted.elsewhere, noted.rows)
    return share_tasks(rows, tasks) if told is None else told


def _asked(rows: DataFrame, tasks: int) -> list[Row] | None:
    """What `_homes_of` tells of rows; None where their keys are of another kind."""
    fields = key_type(rows).fields
    if len(fields) != 1 or fields[0].dataType.simpleString() not in _KINDS:
        return None
    kind = f"{KEY} struct<{quoted(fields[0].name)}: {fields[0].dataType.simpleString()}>"
    told = weighed(rows.select(KEY, TASK)).mapInArrow(
        partial(_homes_of, tasks), f"law string, {kind}, task int, rows bigint"
    )
    return told.collect()


def _share(
    rows: DataFrame, reported: Sequence[Row], noted: Mapping[str, frozenset[NotedKey]], more: int
) -> bool | None:
    """Whether equal keys share a task; None where rows or keys are too many to tell.

    Args:
        reported: what is known of some rows.
        noted: what is known of the others, of which a task has so many `more` at most.
    """
    counts: Counter[int] = Counter()
    for one in reported:
        if one["law"] is None:
            counts[one["task"]] += one["rows"]
    if max(counts.values(), default=0) + more > ROWS_OF_A_TASK:
        return None
    for law in sorted(noted, key=lambda one: len(noted[one])):
        keys = [one[KEY] for one in reported if one["law"] == law]
        elsewhere = {bytes(key[0]) if isinstance(key[0], bytearray) else key[0] for key in keys if key is not None}
        elsewhere |= noted[law]
        if None not in keys and len(elsewhere) <= _LOOKED_FOR:
            return not elsewhere or not _in_two_tasks(rows, F.col(KEY)[key_type(rows).names[0]], elsewhere)
    return None


def _in_two_tasks(rows: DataFrame, key: Column, keys: Iterable[Any]) -> bool:
    """Whether one of these keys lies in several tasks."""
    placed = rows.where(key.isin(*keys)).groupBy(key).agg(F.min(TASK).alias("first"), F.max(TASK).alias("last"))
    return bool(placed.where(F.col("first") < F.col("last")).limit(1).collect())


def _homes_of(tasks: int, batches: Iterable[Any]) -> Iterator[Any]:
    """Of one of Spark's tasks: the rows of each task; and by each law the keys that it has elsewhere, null for too many."""
    elsewhere: dict[str, set[Any] | None] = {name: set() for name in _LAWS}
    counts: Counter[int] = Counter()
    kind = None
    for batch in arrived(batches):
        keys, task = batch.column(KEY), ints(batch.column(TASK), null=-1)
        kind = keys.type
        counts.update(dict(zip(*(one.tolist() for one in np.unique(task, return_counts=True)), strict=True)))
        own, here = keys.filter(keys.is_valid()).flatten()[0], task[valid(keys)]
        if not _can_be_hashed(own):
            elsewhere = dict.fromkeys(_LAWS)
        for name, seen in elsewhere.items():
            if seen is not None:
                seen.update(_not_at_home(own, name, tasks, here).to_pylist())
                elsewhere[name] = seen if len(seen) <= _LOOKED_FOR else None
    field = kind.field(0).name if kind is not None else ""
    made: list[tuple[Any, ...]] = [(name, None, None, None) for name, seen in elsewhere.items() if seen is None]
    made += [(name, {field: key}, None, None) for name, seen in elsewhere.items() for key in seen or ()]
    made += [(None, None, task, rows) for task, rows in counts.items()]
    if made:
        schema = pa.schema([("law", pa.string()), (KEY, kind), ("task", pa.int32()), ("rows", pa.int64())])
        yield pa.RecordBatch.from_pylist([dict(zip(schema.names, one, strict=True)) for one in made], schema)


def _not_at_home(keys: Any, law: str, tasks: int, here: Ints | int) -> Any:
    """The keys that lie elsewhere than a law says, each once."""
    return keys.take(pa.array(np.flatnonzero(_LAWS[law](keys, tasks) != here))).unique()


def laws_of(keys: Any, task: int, tasks: int, among: Iterable[str]) -> dict[str, frozenset[NotedKey]]:
    """The laws by which a task's keys lie at home but for a few, with these.

    Args:
        keys: an array of structs; null ones do not count.
        task: where they lie.
        among: the laws that are looked at.
    """
    own = keys.filter(keys.is_valid()).flatten()
    if len(own) != 1 or own[0].type not in _KINDS.values() or not _can_be_hashed(own[0]):
        return {}
    found: dict[str, frozenset[NotedKey]] = {}
    for law in among:
        elsewhere = _not_at_home(own[0], law, tasks, task)
        if _is_notable(elsewhere):
            found[law] = frozenset(elsewhere.to_pylist())
    return found


def _is_notable(keys: Any) -> bool:
    """Whether keys are few, short, and as JSON has them."""
    is_small = len(keys) <= MOST and keys.type != pa.binary()
    return not len(keys) or (is_small and int(_bytes(keys)[2].max()) <= _SHORT)


def _can_be_hashed(keys: Any) -> bool:
    return not keys.null_count and int(_bytes(keys)[2].max(initial=0)) <= _LONGEST


def homes(keys: Any, tasks: int) -> Ints:
    """The partition of each key, of so many, by Kafka's default.

    Args:
        keys: an array of texts, bytes or whole numbers; null: no bytes.
    """
    found: Ints = (murmur2(*_bytes(keys)) & np.uint32(0x7FFFFFFF)).astype(np.int64) % tasks
    return found


def _by_crc32(keys: Any, tasks: int) -> Ints:
    data, starts, sizes = _bytes(keys)
    whole = data.tobytes()
    pairs = zip(starts.tolist(), (starts + sizes).tolist(), strict=True)
    return np.array([zlib.crc32(whole[start:end]) % tasks for start, end in pairs], np.int64)


def _bytes(keys: Any) -> tuple[Any, Ints, Ints]:
    """The bytes of keys, one behind the other; where each begins, and how many it has."""
    if pa.types.is_integer(keys.type):
        width = keys.type.bit_width // 8
        data = np.frombuffer(ints(keys).astype(f">i{width}").tobytes(), np.uint8)
        return data, np.arange(len(keys)) * width, np.where(valid(keys), width, 0)
    binary = keys.cast(pa.large_binary())
    starts = np.frombuffer(binary.buffers()[1], np.int64)[binary.offset : binary.offset + len(binary)]
    return np.frombuffer(binary.buffers()[2] or b"", np.uint8), starts, ints(pc.binary_length(binary))


def murmur2(data: Any, starts: Ints, sizes: Ints) -> Any:
    """Kafka's hash of ranges of bytes: an array of uint32."""
    padded = np.append(data, np.zeros(4, np.uint8)).astype(np.uint32)
    hashed: Any = _SEED ^ sizes.astype(np.uint32)
    words = sizes // 4
    for word in range(int(words.max(initial=0))):
        here = np.flatnonzero(words > word)
        at = starts[here] + 4 * word
        mixed = (padded[at] | padded[at + 1] << 8 | padded[at + 2] << 16 | padded[at + 3] << 24) * _M
        mixed = (mixed ^ mixed >> 24) * _M
        hashed[here] = hashed[here] * _M ^ mixed
    rest = sizes % 4
    here = np.flatnonzero(rest)
    at, rest = (starts + 4 * words)[here], rest[here]
    tail = padded[at] | np.where(rest > 1, padded[at + 1] << 8, 0) | np.where(rest > 2, padded[at + 2] << 16, 0)
    hashed[here] = (hashed[here] ^ tail.astype(np.uint32)) * _M
    hashed = (hashed ^ hashed >> 13) * _M
    return hashed ^ hashed >> 15


_LAWS: Final[dict[str, Callable[[Any, int], Ints]]] = {"murmur2": homes, "crc32": _by_crc32}
LAWS: Final = tuple(_LAWS)
