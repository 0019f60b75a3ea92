"""What a Python worker makes of raw records: read by their formats, judged, and with the clock of their partition.

Plain functions over Arrow arrays, without Spark: `bronze_rows` sends them to workers. Times are ms since the epoch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakestreams.engine.ingest.row_counts import with_counts
from lakestreams.engine.ledger.plans import NO_TIME
from lakestreams.formats.decoding import read_batches
from lakestreams.formats.time import EventTime
from lakestreams.operators.weights import arrived

if TYPE_CHECKING:
    from lakestreams.formats.base import Format
    from lakestreams.topology.endpoints import Source

MALFORMED_KEY, MALFORMED_VALUE = "MALFORMED_KEY", "MALFORMED_VALUE"
NO_TIMESTAMP, FUTURE_TIMESTAMP = "NO_TIMESTAMP", "FUTURE_TIMESTAMP"
_ERROR: Final = pa.struct([("code", pa.string()), ("message", pa.string())])
_RAW: Final = (
    "topic", "partition", "offset", "attempt", "key", "value", "headers", "timestamp_ms", "timestamp_type",
)  # fmt: skip


class OutOfOrder(RuntimeError):
    """A partition's offsets do not ascend in a task: its clock would be wrong."""


@dataclass(frozen=True)
class Reading:
    """How a source's records are read and judged: plain values, so that they can be sent to workers.

    Attributes:
        key, value: the formats.
        event_time: where a record's time comes from.
        deletes: whether a null value is a deletion, which has no field to take its time from.
        max_future_ms: how far an event time may lie after ingest.
    """

    key: Format
    value: Format
    event_time: EventTime
    deletes: bool
    max_future_ms: int

    @classmethod
    def of(cls, source: Source) -> Reading:
        """As a source says."""
        return cls(source.key, source.value, source.event_time, source.kind != "stream", source.max_future_ms)

    def typed(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Batches with `k, key_error, v, value_error, one_by_one, event_time_ms` behind their columns.

        Args:
            batches: record batches with the columns `key, value, timestamp_ms` and any other.
        """
        for batch in read_batches(self.key, self.value, arrived(batches)):
            at = batch.schema.get_field_index("k")
            columns = [*batch.columns, _times(self, batch)]
            columns[at] = _null_unless_any(batch.column(at))
            yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, "event_time_ms"])

    def judged(
        self,
        clocks: Mapping[int, int],
        seq: int,
        ingest_time_ms: int,
        batches: Iterable[Any],
        *,
        counted: bool = False,
        partitions: int = 0,
    ) -> Iterator[Any]:
        """Bronze rows, of all batches of a task.

        Args:
            clocks: partition to its stream time before the first record.
            seq: the batch's sequence number.
            ingest_time_ms: one reading of the clock for the whole batch.
            batches: record batches with bronze's raw columns, each partition's in the order of offsets.
            counted: count the rows, in the column `row_counts.COUNTS`.
            partitions: as for `row_counts.with_counts`.

        Raises:
            OutOfOrder: if they are not in that order.
        """
        rows = self._judged(clocks, seq, ingest_time_ms, batches)
        return with_counts(rows, partitions) if counted else (one.select(one.schema.names[:-1]) for one in rows)

    def _judged(
        self, clocks: Mapping[int, int], seq: int, ingest_time_ms: int, batches: Iterable[Any]
    ) -> Iterator[Any]:
        """Bronze rows, with `one_by_one` behind them."""
        running = _Clocks(clocks)
        for batch in self.typed(batches):
            errors = _errors(self, batch, ingest_time_ms + self.max_future_ms)
            moves = pc.if_else(errors.is_valid(), NO_TIME, pc.fill_null(batch.column("event_time_ms"), NO_TIME))
            stream_time = running.on(
                *(_numbers(one) for one in (batch.column("partition"), batch.column("offset"), moves))
            )
            given = {
                "event_time_ms": batch.column("event_time_ms"),
                "ingest_time_ms": _all(ingest_time_ms, len(batch)),
                "stream_time_ms": pa.array(stream_time),
                "seq": _all(seq, len(batch)),
                "error": errors,
                "k": batch.column("k"),
                "v": batch.column("v"),
                "one_by_one": batch.column("one_by_one"),
            }
            columns = [*(batch.column(name) for name in _RAW), *given.values()]
            yield pa.RecordBatch.from_arrays(columns, names=[*_RAW, *given])


class _Clocks:
    """The running maximum of each partition's usable times; `before` is where each begins."""

    def __init__(self, before: Mapping[int, int]) -> None:
        self._clocks = dict(before)
        self._offsets: dict[int, int] = {}

    def on(self, partitions: Any, offsets: Any, moves: Any) -> Any:
        """Stream times of further records, which move them."""
        found = np.empty(len(moves), np.int64)
        cuts = np.flatnonzero(np.diff(partitions)) + 1
        for start, end in itertools.pairwise([0, *cuts.tolist(), len(moves)] if len(moves) else []):
            partition, own = int(partitions[start]), offsets[start:end]
            if own[0] <= self._offsets.get(partition, -1) or (np.diff(own) <= 0).any():
                last = self._offsets.get(partition)
                msg = f"the offsets of partition {partition} do not ascend in a task of Spark's: {own[0]} to {own[-1]}, behind {last}"
                raise OutOfOrder(msg)
            ran = np.maximum.accumulate(moves[start:end])
            found[start:end] = np.maximum(ran, self._clocks.get(partition, NO_TIME))
            self._clocks[partition], self._offsets[partition] = int(found[end - 1]), int(own[-1])
        return found


def _null_unless_any(keys: Any) -> Any:
    """Keys, null where none of their columns has a value.

    Such bytes name no row: the object lacks what was declared. Read as a key of nulls, all of them would join each other
    (decision 0027).
    """
    columns = [pc.struct_field(keys, [place]) for place in range(keys.type.num_fields)]
    there = columns[0].is_valid()
    for one in columns[1:]:
        there = pc.or_(there, one.is_valid())
    if (pc.sum(there).as_py() or 0) == len(keys) - keys.null_count:
        return keys
    return pa.StructArray.from_arrays(columns, fields=list(keys.type), mask=pc.invert(there))


def _times(reading: Reading, batch: Any) -> Any:
    """The event time of each record, null where none is usable."""
    own = _usable(batch.column("timestamp_ms"))
    rule, values = reading.event_time, batch.column("v")
    if rule.field is None:
        return own
    field = _usable(_millis(pc.struct_field(values, rule.field)))
    times = pc.coalesce(field, own) if rule.fallback else field
    if reading.deletes:
        times = pc.if_else(pc.and_(values.is_null(), batch.column("value_error").is_null()), own, times)
    return times


def _millis(column: Any) -> Any:
    """Milliseconds, of microseconds the whole ones below: so a time before 1970 stays negative."""
    if not pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    micros = column.cast(pa.int64())
    return pa.array(_numbers(pc.fill_null(micros, 0)) // 1000, pa.int64(), mask=_numbers(micros.is_null()))


def _usable(times: Any) -> Any:
    """Times of zero or later; Kafka writes -1 for none."""
    return pc.if_else(pc.greater_equal(times, 0), times, pa.scalar(None, pa.int64()))


def _errors(reading: Reading, batch: Any, latest: int) -> Any:
    """What is wrong with each record, null where nothing is; the first that holds counts."""
    key, value, times = (batch.column(name) for name in ("key_error", "value_error", "event_time_ms"))
    field = reading.event_time.field
    own = "the record's timestamp" if field is None else f"field {field!r}"
    late = pc.fill_null(pc.greater(times, latest), False)
    if not (key.null_count < len(key) or value.null_count < len(value) or times.null_count or pc.any(late).as_py()):
        return pa.nulls(len(times), _ERROR)
    ahead = f" is more than {reading.max_future_ms} ms after ingest"
    found = (
        (MALFORMED_KEY, key.is_valid(), key),
        (MALFORMED_VALUE, value.is_valid(), value),
        (NO_TIMESTAMP, times.is_null(), f"{own} is missing or negative"),
        (FUTURE_TIMESTAMP, late, pc.binary_join_element_wise("event time ", times.cast(pa.string()), ahead, "")),
    )
    holds = pa.StructArray.from_arrays([there for _, there, _ in found], names=[code for code, _, _ in found])
    codes = pc.case_when(holds, *(code for code, _, _ in found))
    messages = pc.case_when(holds, *(message for _, _, message in found))
    return pa.StructArray.from_arrays([codes, messages], fields=list(_ERROR), mask=codes.is_null())


def _numbers(column: Any) -> Any:
    return column.to_numpy(zero_copy_only=False)


def _all(number: int, size: int) -> Any:
    return pa.array(np.full(size, number, np.int64))


__all__ = ["FUTURE_TIMESTAMP", "MALFORMED_KEY", "MALFORMED_VALUE", "NO_TIMESTAMP", "OutOfOrder", "Reading"]
