"""Home partitions: where a key's bytes belong by each of the partitioners that producers bring along.

    murmur2           (murmur2(key) & 0x7fffffff) mod n: Kafka's Java clients and most others; librdkafka's `murmur2`
                      and `murmur2_random`, Sarama's NewMurmur2Partitioner, kafka-go's Murmur2Balancer
    crc32             crc32(key), unsigned, mod n: librdkafka's `consistent` and its default `consistent_random`, hence
                      confluent-kafka for Python, Go, .NET and Node as they come; Sarama's
                      NewConsistentCRCHashPartitioner, kafka-go's CRC32Balancer
    fnv1a             |FNV-1a(key) as int32| mod n: Sarama's default (NewHashPartitioner), kafka-go's Hash, librdkafka's
                      `fnv1a` and `fnv1a_random`, which take the absolute value for Sarama's sake
    fnv1a_reference   (FNV-1a(key) & 0x7fffffff) mod n: Sarama's NewReferenceHashPartitioner, kafka-go's ReferenceHash

An empty key is hashed as any other, but for `consistent_random`, which puts it anywhere: so it has no home under crc32. A
null key has none anywhere. The two forms of FNV-1a agree on the half of all keys whose hash has its first bit clear, and
with two partitions on all keys.

Sources: librdkafka's rdkafka_msg.c, rdfnv1a.c and rdcrc32.h; Sarama's partitioner.go; kafka-go's balancer.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.partitioning.kafka_default import partition_of_bytes
from lakestreams.topology.kinds import Partitioner

if TYPE_CHECKING:
    from pyspark.sql import Column

# The commoner ones first: where a topic's keys do not tell two apart, the first of them is named.
PARTITIONERS: Final[tuple[Partitioner, ...]] = get_args(Partitioner)

_FNV_OFFSET, _FNV_PRIME, _MASK, _SIGN = 0x811C9DC5, 0x01000193, 0xFFFFFFFF, 1 << 32


def home_partition(data: Column, partitioner: Partitioner, partitions: int | Column) -> Column:
    """The partition of a key that is written as these bytes: int; null for null, and under crc32 for no bytes.

    Args:
        data: binary.
        partitioner: who writes it.
        partitions: how many partitions there are; a number, or an int column.
    """
    if partitioner == "murmur2":
        return partition_of_bytes(data, partitions)
    if partitioner == "crc32":
        return F.when(F.length(data) > 0, _modulo(F.crc32(data), partitions))
    hashed = _fnv1a(data)
    if partitioner == "fnv1a_reference":
        return _modulo(hashed.bitwiseAND(_long(0x7FFFFFFF)), partitions)
    # the absolute value of the number that the 32 bits are with a sign: the least of it and its complement
    return _modulo(F.transform(F.array(hashed), lambda bits: F.least(bits, _long(_SIGN) - bits))[0], partitions)


def key_on_home_partition(key: Column, partition: Column, partitioner: Partitioner, partitions: int | Column) -> Column:
    """Whether a record lies where its key belongs: boolean, true for a key without a home (see above).

    Args:
        key: binary, as Kafka gave it.
        partition: int, where the record lies.
        partitioner: who writes, or should.
        partitions: how many partitions the topic has.
    """
    return F.coalesce(home_partition(key, partitioner, partitions) == partition, F.lit(True))


def _fnv1a(data: Column) -> Column:
    """The 32-bit FNV-1a of binary data as an unsigned number in a bigint; products stay below 2^57.

    Spark reads a number out of bytes only through text, a byte at a time.
    """
    places = F.transform(F.array_repeat(F.lit(0), F.length(data)), lambda _, place: place)
    octets = F.transform(places, lambda place: F.conv(F.hex(F.substring(data, place + 1, F.lit(1))), 16, 10))
    return F.aggregate(
        octets,
        _long(_FNV_OFFSET),
        lambda so_far, octet: (so_far.bitwiseXOR(octet.cast("bigint")) * _long(_FNV_PRIME)).bitwiseAND(_long(_MASK)),
    )


def _modulo(number: Column, partitions: int | Column) -> Column:
    return F.pmod(number, F.lit(partitions).cast("bigint")).cast("int")


def _long(number: int) -> Column:
    return F.lit(number).cast("bigint")
