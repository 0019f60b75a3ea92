"""Whether keys lie at home: in the task that one partitioner gives them all, so that equal keys surely share one.

The laws, over the bytes of the key: `(murmur2 & 0x7fffffff) mod tasks` (Kafka's BuiltInPartitioner and Utils.murmur2; semantics
section 9), or `crc32 mod tasks` (librdkafka's `consistent`, the default of its clients). The bytes of a key of one column are
those of the usual serializers: UTF-8, big-endian numbers, binary itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakestreams.operators.arrays import ints, there
from lakestreams.operators.records import KEY, TASK
from lakestreams.operators.weights import arrived, weighed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakestreams.operators.segments import Ints

_KINDS: Final = ("string", "binary", "bigint", "int")
_SEED, _M = np.uint32(0x9747B28C), np.uint32(0x5BD1E995)
_LONGEST: Final = 1024  # bytes of a key that is looked at: each word of the longest one is a step


def at_home(rows: DataFrame, tasks: int) -> bool:
    """Whether every key lies at home; one narrow pass without an exchange, which ends early in a task where none does.

    Args:
        rows: a records frame with `task`; rows without a key do not count.
        tasks: how many there are.
    """
    fields = rows.schema[KEY].dataType.fields  # type: ignore[attr-defined]
    if len(fields) != 1 or fields[0].dataType.simpleString() not in _KINDS:
        return False
    looks = (
        weighed(rows.select(KEY, TASK)).mapInArrow(partial(_looks, tasks), "murmur2 boolean, crc32 boolean").collect()
    )
    return any(all(one[law] for one in looks) for law in ("murmur2", "crc32"))


def _looks(tasks: int, batches: Iterable[Any]) -> Iterator[Any]:
    """By which laws all keys of one of Spark's tasks lie at home: one row."""
    laws = {"murmur2": homes, "crc32": _by_crc32}
    for batch in arrived(batches):
        keys, task = batch.column(KEY), ints(batch.column(TASK), null=-1)
        own, task = keys.flatten()[0].filter(keys.is_valid()), task[there(keys)]
        laws = {name: law for name, law in laws.items() if (law(own, tasks) == task).all()}
        if not laws:
            break
    yield pa.RecordBatch.from_pydict({name: [name in laws] for name in ("murmur2", "crc32")})


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


__all__ = ["at_home", "homes", "murmur2"]
