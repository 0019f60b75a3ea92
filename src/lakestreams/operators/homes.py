"""Whether equal keys share a task, as they do where a partitioner has placed them: told from each row alone, without an exchange.

The laws, over the bytes of the key: `(murmur2 & 0x7fffffff) mod tasks` (Kafka's BuiltInPartitioner and Utils.murmur2; semantics
section 9), or `crc32 mod tasks` (librdkafka's `consistent`, the default of its clients). The bytes of a key of one column are
those of the usual serializers: UTF-8, big-endian numbers, binary itself. A few keys may be elsewhere, such as those of
heartbeats that go to every partition: they are looked for in all tasks.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.arrays import ints, there
from lakestreams.operators.records import KEY, TASK
from lakestreams.operators.weights import arrived, weighed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakestreams.operators.segments import Ints

_KINDS: Final = ("string", "binary", "bigint", "int")
_SEED, _M = np.uint32(0x9747B28C), np.uint32(0x5BD1E995)
_FEW: Final = 1_000  # keys of one of Spark's tasks that are looked for in all tasks
_LONGEST: Final = 1024  # bytes of a key that is looked at: each word of the longest one is a step


def share_tasks(rows: DataFrame, tasks: int) -> bool:
    """Whether equal keys surely lie in one task.

    Args:
        rows: a records frame with `task`; rows without a key do not count.
        tasks: how many there are.
    """
    fields = rows.schema[KEY].dataType.fields  # type: ignore[attr-defined]
    if len(fields) != 1 or fields[0].dataType.simpleString() not in _KINDS:
        return False
    keyed = rows.select(F.col(KEY)[fields[0].name].alias(KEY), TASK).where(F.col(KEY).isNotNull())
    kind = fields[0].dataType.simpleString()
    found = weighed(keyed).mapInArrow(partial(_elsewhere, tasks), f"law string, {KEY} {kind}").collect()
    for law in _LAWS:
        elsewhere = {one[KEY] for one in found if one["law"] == law}
        if None not in elsewhere:
            return not elsewhere or not _in_two_tasks(keyed, elsewhere)
    return False


def _in_two_tasks(keyed: DataFrame, chosen: Collection[Any]) -> bool:
    """Whether one of these keys lies in several tasks."""
    spark = keyed.sparkSession
    few = spark.createDataFrame([(key,) for key in chosen], keyed.select(KEY).schema)
    placed = keyed.join(F.broadcast(few), KEY).groupBy(KEY).agg(F.min(TASK).alias("first"), F.max(TASK).alias("last"))
    return bool(placed.where(F.col("first") < F.col("last")).limit(1).collect())


def _elsewhere(tasks: int, batches: Iterable[Any]) -> Iterator[Any]:
    """By each law the keys of one of Spark's tasks that it has elsewhere; null where these are not few."""
    seen: dict[str, set[Any]] = {name: set() for name in _LAWS}
    for batch in arrived(batches):
        keys, task = batch.column(KEY), ints(batch.column(TASK), null=-1)
        kind = keys.type
        for name in [one for one in _LAWS if None not in seen[one]]:
            other = np.flatnonzero(_LAWS[name](keys, tasks) != task)
            if len(other) <= _FEW:
                seen[name].update(keys.take(pa.array(other)).to_pylist())
            if max(len(other), len(seen[name])) > _FEW:
                seen[name] = {None}
    found = [(name, key) for name, own in seen.items() for key in own]
    if found:
        names, others = zip(*found, strict=True)
        yield pa.RecordBatch.from_pydict({"law": names, KEY: pa.array(others, kind)})


def homes(keys: Any, tasks: int) -> Ints:
    """The partition of each key, of so many, by Kafka's default; -1 of one too long to look at.

    Args:
        keys: an array of texts, bytes or whole numbers; null: no bytes.
    """
    data, starts, sizes = _bytes(keys)
    short = sizes <= _LONGEST
    found = (murmur2(data, starts, np.where(short, sizes, 0)) & np.uint32(0x7FFFFFFF)).astype(np.int64) % tasks
    return np.where(short, found, -1)


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
        return data, np.arange(len(keys)) * width, np.where(there(keys), width, 0)
    binary = keys.cast(pa.large_binary())
    starts = np.frombuffer(binary.buffers()[1], np.int64)[binary.offset : binary.offset + len(binary)]
    return np.frombuffer(binary.buffers()[2] or b"", np.uint8), starts, ints(pc.binary_length(binary))


def murmur2(data: Any, starts: Ints, sizes: Ints) -> Any:  # an array of uint32
    """Kafka's hash of stretches of bytes: unsigned, of 32 bits."""
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

__all__ = ["homes", "murmur2", "share_tasks"]
