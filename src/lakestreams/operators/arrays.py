"""Arrow columns as the arrays that kernels work on, and back: keys, the total order, results by places.

Keys are numbered so that equal numbers mean what Spark's `=` means: nulls inside a key are equal, NaN equals NaN and
0.0 equals -0.0. Values are never looked at. A list of contributors is null where a record is its only one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakestreams.operators.segments import Flags, Ints, pieces, ranges

MISSING = -1  # the place of what is not there
BATCH_BYTES = 64 << 20  # of results that are handed over at once
BATCH_ROWS = 1 << 17
_LARGEST = 1 << 62


def ints(array: Any, null: int = 0) -> Ints:
    """Whole numbers, flags or times."""
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    if array.null_count:
        array = pc.fill_null(array, null)
    found: Ints = array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found


def as_one(numbers: Ints) -> Ints:
    """The same numbers, in the memory of one of them if all are equal."""
    first = numbers[:1].copy()
    return np.broadcast_to(first, numbers.shape) if (numbers == first).all() else numbers


# --- keys ------------------------------------------------------------------------------------------------------------


def key_numbers(keys: Any) -> Ints:
    """Equal numbers from 0 on for equal keys, not above the number of rows; -1 for null ones.

    Args:
        keys: an array of structs.
    """
    fields = [_numbered(one, _encoded) for one in keys.flatten()]
    numbers = fields[0] if len(fields) == 1 else _combined(fields, len(keys))
    if int(numbers.max(initial=0)) > len(keys):  # of several fields, or of a struct
        numbers = _encoded(pa.array(numbers))
    return np.where(valid(keys), numbers, -1)


def key_ranks(keys: Any) -> Ints:
    """Numbers that order keys as Kafka orders the bytes of a text or a Long: bytewise, hence negative ones last."""
    found = []
    for one in keys.flatten():
        if pa.types.is_integer(one.type) or pa.types.is_floating(one.type) or pa.types.is_decimal(one.type):
            found.append(ints(pc.equal(pc.sign(one), -1)))
        found.append(_numbered(one, _ranked))
    return _combined(found, len(keys))


def _numbered(array: Any, numbers_of: Callable[[Any], Ints]) -> Ints:
    """Numbers of values; of structs by those of their fields, which are null where the struct is, of lists by their elements'."""
    kind = array.type
    if pa.types.is_struct(kind):
        fields = (_numbered(one, numbers_of) for one in array.flatten())
        return _combined([valid(array).astype(np.int64), *fields], len(array))
    if _is_list(kind):
        return _of_lists(array, _numbered(_elements(array), numbers_of))
    return numbers_of(_plain(array))


def _encoded(array: Any) -> Ints:
    """Equal numbers for equal values; nulls are equal."""
    return ints(array.dictionary_encode(null_encoding="encode").indices)


def _ranked(array: Any) -> Ints:
    """Numbers that order values as Spark does: nulls first, NaN last."""
    encoded = array.dictionary_encode(null_encoding="encode")
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()  # NaN and nulls last
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(1, len(order) + 1)
    return np.where(valid(array), ranks[ints(encoded.indices)], 0)


def _plain(array: Any) -> Any:
    """Values that Arrow compares as Spark does."""
    if pa.types.is_floating(array.type):
        values = array.to_numpy(zero_copy_only=False) + 0.0  # -0.0 becomes 0.0
        values[np.isnan(values)] = np.nan  # a NaN has many bit patterns
        return pa.array(values, mask=~valid(array), type=array.type)
    return pa.array(np.zeros(len(array), np.int8)) if pa.types.is_null(array.type) else array


def _of_lists(array: Any, numbers: Ints) -> Ints:
    """Numbers of lists whose elements have these numbers, in the lists' order; null lists come first."""
    offsets = np.asarray(array.offsets) - array.offsets[0].as_py()
    texts = [
        tuple(numbers[start:end].tolist()) if is_there else None
        for start, end, is_there in zip(offsets[:-1], offsets[1:], valid(array), strict=True)
    ]
    order = {text: number for number, text in enumerate(sorted({text for text in texts if text is not None}), 1)}
    return np.array([0 if text is None else order[text] for text in texts], np.int64)


def _elements(array: Any) -> Any:
    """What lies between the first and the last offset of lists."""
    first, last = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
    return array.values.slice(first, last - first)


def _combined(columns: Sequence[Ints], size: int) -> Ints:
    """One number for each row, equal and ordered as its columns are, the first one first."""
    found: Ints = np.zeros(size, np.int64)
    highest = 1
    for one in columns:
        low, count = _span(one)
        if highest * count > _LARGEST:
            found = np.unique(found, return_inverse=True)[1]
            highest = int(found.max(initial=0)) + 1
        found, highest = found * count + (one - low), highest * count
    return found


def _span(numbers: Ints) -> tuple[int, int]:
    """The least number, and how many there are from it to the greatest."""
    if not len(numbers):
        return 0, 1
    low = int(numbers.min())
    return low, int(numbers.max()) - low + 1


def valid(array: Any) -> Any:
    """Which elements are not null."""
    return array.is_valid().to_numpy(zero_copy_only=False)


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


# --- the total order -------------------------------------------------------------------------------------------------


def total_order(orders: Any, *further: Ints) -> Ints:
    """The places of records sorted by their order, and by further numbers where several have the same.

    Args:
        orders: structs of `cycle, stream_time_ms, side, source, partition, offset, attempt`.
    """
    columns = (_ranked(one) if pa.types.is_string(one.type) else ints(one) for one in orders.flatten())
    packed: list[Ints] = []
    room = 0
    for one in chain(columns, further):
        low, count = _span(one)
        if count == 1:
            continue
        if count > room:
            packed.append(one - low)
            room = _LARGEST // count
        else:
            packed[-1] = packed[-1] * count + (one - low)
            room //= count
    if not packed:
        return np.arange(len(orders))
    order: Ints = np.lexsort(packed[::-1])
    return order


# --- results ---------------------------------------------------------------------------------------------------------


class Matches(NamedTuple):
    """Results: places of the left record, of the right one and of the trigger; the place among the trigger's results."""

    left: Ints
    right: Ints
    trigger: Ints
    place: Ints

    def at(self, which: Ints | Flags | slice) -> Matches:
        """Some of them."""
        return Matches(*(one[which] for one in self))


def take(array: Any, places: Ints) -> Any:
    """The elements at these places; null for -1."""
    return array.take(pa.array(places, mask=places < 0) if len(places) and places.min() < 0 else pa.array(places))


def contributors(lists: Any, orders: Any, left: Ints, right: Ints) -> Any:
    """The contributors of results: of the left record, then of the right one.

    Args:
        lists: each record's contributors; null: itself.
        orders: each record's order, which has its coordinates.
        left, right: places; -1: none.
    """
    known = lists.type.value_type
    fields = dict(zip([one.name for one in orders.type], orders.flatten(), strict=True))
    own = pa.StructArray.from_arrays([fields[one.name].cast(one.type) for one in known], fields=list(known))
    both = np.stack([left, right], axis=1).ravel()
    if lists.null_count == len(lists):  # as most are: only what is taken is copied
        elements = own.take(pa.array(both[both >= 0]))
        ends = np.cumsum((left >= 0).astype(np.int64) + (right >= 0))
    else:
        size, first, alone = len(orders), ints(lists.offsets), ~valid(lists)
        starts = np.append(np.where(alone, np.arange(size), first[:-1] - first[0] + size), 0)
        counts = np.append(np.where(alone, 1, np.diff(first)), 0)  # -1 is the last one: none
        elements = pa.concat_arrays([own, _elements(lists)]).take(pa.array(ranges(starts[both], counts[both])))
        ends = np.cumsum(counts[left] + counts[right])
    return pa.ListArray.from_arrays(pa.array(np.append(0, ends), pa.int32()), elements, type=lists.type)


def batches(sizes: Ints) -> Iterator[slice]:
    """Slices of results whose values have these sizes, none of them too large to be handed over at once."""
    return pieces(np.maximum(sizes, BATCH_BYTES // BATCH_ROWS), BATCH_BYTES)


def sizes(array: Any) -> Ints:
    """About how many bytes each element has."""
    kind = array.type
    found: Ints = np.full(len(array), 8)
    if pa.types.is_struct(kind):
        for one in array.flatten():
            found += sizes(one)
    elif _is_list(kind) or pa.types.is_map(kind):
        offsets = ints(array.offsets)
        found += np.diff(np.append(0, np.cumsum(sizes(_elements(array))))[offsets - offsets[0]])
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        found += ints(pc.binary_length(array))
    return found
