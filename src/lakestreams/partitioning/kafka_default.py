"""Kafka's default partitioner as a Column: which partition, and so which task, a key belongs to.

The law: `(murmur2(key bytes) & 0x7fffffff) mod count`, murmur2 in 32-bit wrapping arithmetic over little-endian words.
Source: Kafka's BuiltInPartitioner and Utils.murmur2; semantics section 9.

The bytes of a key, as the usual serializers write them:
    one string column      UTF-8
    one bigint column      8 bytes, big endian; int: 4 bytes
    one binary column      itself
    anything else          the key's compact JSON text (`to_json`, columns in the key's order, nulls left out) in UTF-8
A null inside a key of one column counts as no bytes. A null key has no partition.

Products of two 32-bit numbers are kept below 2^63 (murmur2's factor has 31 bits), so bigint and a mask wrap as 32 bits
do, and ANSI mode never overflows. Spark reads a number out of bytes only through text: `conv(hex(...))`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    Step = Callable[[Column], Column]

# Histories that share a job are distinguished by this column in front of every key (flow.shapes); no key has it.
_SCOPE = "_scope"
_SEED, _M, _MASK, _NIBBLES = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF, 0x0F0F0F0F
_SIZES = {"bigint": 8, "int": 4}


def partition_of(rows: DataFrame, column: str, count: int | Column) -> Column:
    """The partition of each row's key: int, null for a null key.

    Args:
        rows: where the key is.
        column: the key, a struct.
        count: how many partitions there are; a number, or an int column.
    """
    return F.when(F.col(column).isNotNull(), partition_of_bytes(_bytes(rows, column), count))


def partition_of_bytes(data: Column, count: int | Column) -> Column:
    """The partition of a key that is written as these bytes: int, null for null.

    Args:
        data: binary.
        count: how many partitions there are; a number, or an int column.
    """
    return F.pmod(_murmur2(data).bitwiseAND(_long(0x7FFFFFFF)), F.lit(count).cast("bigint")).cast("int")


def _bytes(rows: DataFrame, column: str) -> Column:
    fields = rows.schema[column].dataType.fields  # type: ignore[attr-defined]
    kinds = {one.name: one.dataType.simpleString() for one in fields if one.name != _SCOPE}
    parts = [F.col(column)[name].alias(name) for name in kinds]
    kind = next(iter(kinds.values())) if len(kinds) == 1 else None
    if kind in _SIZES:
        digits = 2 * _SIZES[kind]
        data = F.unhex(F.substring(F.lpad(F.hex(parts[0]), 16, "0"), -digits, digits))
    elif kind in ("string", "binary"):
        data = parts[0].cast("binary")
    else:
        data = F.to_json(F.struct(*parts)).cast("binary")
    return F.coalesce(data, F.lit(b""))


def _murmur2(data: Column) -> Column:
    """The hash of binary data as an unsigned 32-bit number in a bigint."""
    size = F.length(data)
    full, rest = F.shiftright(size, 2), size.bitwiseAND(F.lit(3))
    words = F.transform(F.array_repeat(F.lit(0), full), lambda _, place: _reversed_word(data, place))
    words = F.transform(words, lambda word: _times_m(_word(word)))
    words = F.transform(words, lambda word: _times_m(word.bitwiseXOR(F.shiftright(word, 24))))
    seed = size.cast("bigint").bitwiseXOR(_long(_SEED))
    hashed = F.aggregate(words, seed, lambda so_far, word: _times_m(so_far).bitwiseXOR(word))
    tail = F.when(rest > 0, _reversed_word(data, full))
    return _steps(
        hashed,
        lambda so_far: F.coalesce(_times_m(so_far.bitwiseXOR(_word(tail))), so_far),
        lambda so_far: _times_m(so_far.bitwiseXOR(F.shiftright(so_far, 13))),
        lambda so_far: so_far.bitwiseXOR(F.shiftright(so_far, 15)),
    )


def _steps(start: Column, *steps: Step) -> Column:
    """One step after the other. The argument of a lambda is computed once, however often the step names it."""
    value = F.array(start)
    for step in steps:
        value = F.transform(value, step)
    return value[0]


def _reversed_word(data: Column, place: Column) -> Column:
    """Four bytes as a number, or those that are left: little endian, but with the nibbles of each byte swapped."""
    digits = F.hex(F.substring(data, F.shiftleft(place, 2) + 1, F.lit(4)))
    return F.conv(F.reverse(digits), 16, 10).cast("bigint")


def _word(number: Column) -> Column:
    """A little-endian word from its reversed hexadecimal digits."""
    nibbles = _long(_NIBBLES)
    low, high = number.bitwiseAND(nibbles), F.shiftright(number, 4).bitwiseAND(nibbles)
    return F.shiftleft(low, 4).bitwiseOR(high)


def _times_m(number: Column) -> Column:
    return (number * _long(_M)).bitwiseAND(_long(_MASK))


def _long(number: int) -> Column:
    return F.lit(number).cast("bigint")
