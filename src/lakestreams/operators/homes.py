"""Whether keys lie at home: in the task that Kafka's default partitioner gives them, so that equal keys surely share one.

The law: `(murmur2(key bytes) & 0x7fffffff) mod tasks`. Source: Kafka's BuiltInPartitioner and Utils.murmur2; semantics
section 9. The bytes of a key of one column are those of the usual serializers: UTF-8, big-endian numbers, binary itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

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
    """Whether every key lies at home; one narrow pass without an exchange, which ends where the first one does not.

    Args:
        rows: a records frame with `task`; rows without a key do not count.
        tasks: how many there are.
    """
    fields = rows.schema[KEY].dataType.fields  # type: ignore[attr-defined]
    if len(fields) != 1 or fields[0].dataType.simpleString() not in _KINDS:
        return False
    return not weighed(rows.select(KEY, TASK)).mapInArrow(partial(_away, tasks), "away bigint").collect()


def _away(tasks: int, batches: Iterable[Any]) -> Iterator[Any]:
    """A row if any key of a task is not at home."""
    for batch in arrived(batches):
        keys, found = batch.column(KEY), ints(batch.column(TASK), null=-1)
        if (there(keys) & (homes(keys.flatten()[0], tasks) != found)).any():
            yield pa.RecordBatch.from_pydict({"away": [1]})
            return


def homes(keys: Any, tasks: int) -> Ints:
    """The partition of each key, of so many; -1 of one too long to look at.

    Args:
        keys: an array of texts, bytes or whole numbers; null: no bytes.
    """
    if pa.types.is_integer(keys.type):
        width = keys.type.bit_width // 8
        data = np.frombuffer(ints(keys).astype(f">i{width}").tobytes(), np.uint8)
        starts, sizes = np.arange(len(keys)) * width, np.where(there(keys), width, 0)
    else:
        binary = keys.cast(pa.large_binary())
        starts = np.frombuffer(binary.buffers()[1], np.int64)[binary.offset : binary.offset + len(binary)]
        data = np.frombuffer(binary.buffers()[2] or b"", np.uint8)
        sizes = ints(pa.compute.binary_length(binary))
    short = sizes <= _LONGEST
    found = (murmur2(data, starts, np.where(short, sizes, 0)) & np.uint32(0x7FFFFFFF)).astype(np.int64) % tasks
    return np.where(short, found, -1)


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
