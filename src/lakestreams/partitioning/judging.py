"""How topics are partitioned, judged from their records: by which partitioner, keys in two partitions, skew.

Everything here takes rows `topic string, partition int, key binary`, a row a record, and looks at all topics in one Spark
job; what comes back of it is bounded, however many keys there are. Of a key that is shown, the first 64 bytes are read.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.partitioning import writers
from lakestreams.partitioning.partitioners import PARTITIONERS, home_partition
from lakestreams.topology.kinds import Partitioner

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

Verdict = Literal[Partitioner, "mixed", "custom", "undecided"]
OTHERS: Final = "others"
NAMED_FROM: Final = 0.99  # the share of its keys on their home partition from which a topic has one partitioner
EXAMPLES: Final = 5
# Examples are the least keys of so many groups by hash: a plain aggregation, where the least n keys would take a sort.
_GROUPS, _SHOWN, _SAMPLES = 16, 64, 32


@dataclass(frozen=True)
class KeyPlace:
    """A key in a partition.

    Attributes:
        key: as text in quotes, else in hexadecimal digits (`0x...`).
        partition: where it lies.
        homes: partitioner to the key's home partition.
    """

    key: str
    partition: int
    homes: Mapping[Partitioner, int]


@dataclass(frozen=True)
class OffHome:
    """A key that lies in another partition than its home."""

    key: str
    partition: int
    home: int


@dataclass(frozen=True)
class PartitionerReport:
    """Which partitioner wrote a topic.

    Attributes:
        topic: its name.
        partitions: how many it has.
        keys: distinct keys that were judged; null and empty keys are not.
        places: the same, a key in two partitions twice.
        shares: partitioner to the share of places that are home under it; by chance it is 1 / partitions.
        verdict: the partitioner whose share is at least 99 %; `mixed` if there is evidence for one or several, and none
            has that much; `custom` if there is for none of them; `undecided` if there are too few keys to tell.
        mix: who wrote which share of the places, as estimated (`expectations.writers`); of a verdict that is `mixed` all
            from 1 % on, `others` standing for whoever is not reported (there may be too few keys for it); else empty.
        judged_by: the partitioner whose home partitions the examples are held against: the verdict, the largest of a
            mix, murmur2 of a `custom` one; None if it is undecided.
        off_home: how many places are off their home under `judged_by`.
        examples: up to five of them, by key.
        reason: why it is undecided, else empty.
        samples: up to 32 places, to compare topics by.
    """

    topic: str
    partitions: int
    keys: int
    places: int
    shares: Mapping[Partitioner, float]
    verdict: Verdict
    mix: Mapping[str, float] = field(default_factory=dict)
    judged_by: Partitioner | None = None
    off_home: int = 0
    examples: tuple[OffHome, ...] = ()
    reason: str = ""
    samples: tuple[KeyPlace, ...] = ()

    @property
    def named(self) -> Partitioner | None:
        """The one partitioner that wrote the topic, if it is one."""
        return next((one for one in PARTITIONERS if one == self.verdict), None)


@dataclass(frozen=True)
class SplitKey:
    """A key that lies in several partitions of its topic."""

    key: str
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class SplitKeys:
    """How many keys lie in several partitions of their topic, and up to five of them."""

    keys: int = 0
    examples: tuple[SplitKey, ...] = ()


@dataclass(frozen=True)
class Skew:
    """How unevenly records lie.

    Attributes:
        records: all of them.
        partition, partition_share: the partition with most records, and its share of all.
        key, key_share: the same of keys; of a topic without keys None and 0.
    """

    records: int = 0
    partition: int | None = None
    partition_share: float = 0.0
    key: str | None = None
    key_share: float = 0.0


# --- which partitioner -----------------------------------------------------------------------------------------------


def detect_each(rows: DataFrame, partitions: Mapping[str, int]) -> dict[str, PartitionerReport]:
    """Which partitioner wrote the records of each topic; one aggregation over distinct keys, at most 256 rows a topic.

    Args:
        rows: `topic, partition, key`, a row a record, of these topics only.
        partitions: topic to how many partitions it has.
    """
    if not partitions:
        return {}
    count = _count_of(partitions)
    homes = {name: f"_home_{name}" for name in PARTITIONERS}
    placed = (
        rows.where(F.length("key") > 0)  # consistent_random puts an empty key anywhere: it tells nothing
        .groupBy("topic", "key")
        .agg(F.collect_set("partition").alias("places"))
        .select(
            "topic", "key", "places", *(home_partition(F.col("key"), name, count).alias(homes[name]) for name in homes)
        )
        .select("topic", "key", *homes.values(), F.posexplode("places").alias("place", "partition"))
    )
    at_home = reduce(
        add,
        (
            F.when(F.col("partition") == F.col(homes[name]), F.lit(1 << bit)).otherwise(F.lit(0))
            for bit, name in enumerate(PARTITIONERS)
        ),
    )
    sample = F.struct(_start("key"), F.length("key").alias("size"), "partition", *homes.values())
    counts = (
        placed.groupBy("topic", at_home.alias("at_home"), _group("key"))
        .agg(
            F.count("*").alias("places"),
            F.count_if(F.col("place") == 0).alias("keys"),
            F.min(sample).alias("sample"),
        )
        .collect()
    )
    return {
        topic: _report(topic, partitions[topic], [row for row in counts if row["topic"] == topic])
        for topic in partitions
    }


def _report(topic: str, partitions: int, counts: Sequence[Row]) -> PartitionerReport:
    places: Counter[frozenset[str]] = Counter()
    sampled: list[tuple[bytes, KeyPlace]] = []
    for row in counts:
        places[_names(row["at_home"])] += row["places"]
        one = row["sample"]
        homes = {name: one[f"_home_{name}"] for name in PARTITIONERS}
        sampled.append((bytes(one["key"]), KeyPlace(shown(one["key"], one["size"]), one["partition"], homes)))
    samples = [place for _, place in sorted(sampled, key=lambda both: (both[0], both[1].partition))]
    total, keys = places.total(), sum(row["keys"] for row in counts)
    at_home = {name: sum(count for names, count in places.items() if name in names) for name in PARTITIONERS}
    shares = {name: count / total if total else 0.0 for name, count in at_home.items()}
    verdict, mix, reason = _verdict(places, partitions, keys, shares)
    known = [name for name in PARTITIONERS if name in mix]
    largest = max(known, key=mix.__getitem__, default=None)
    judged_by: Partitioner | None = "murmur2" if verdict == "custom" else largest
    return PartitionerReport(
        topic,
        partitions,
        keys,
        total,
        shares,
        verdict,
        mix if verdict == "mixed" else {},
        judged_by,
        total - at_home[judged_by] if judged_by else 0,
        tuple(_off_home(samples, judged_by))[:EXAMPLES] if judged_by else (),
        reason,
        tuple(samples[:_SAMPLES]),
    )


def _verdict(
    places: Mapping[frozenset[str], int], partitions: int, keys: int, shares: Mapping[Partitioner, float]
) -> tuple[Verdict, dict[str, float], str]:
    """The verdict, the shares of who wrote, and why nothing can be said."""
    if partitions < 2:
        return "undecided", {}, "it has one partition, which is every key's home"
    found = writers.find(places, partitions, PARTITIONERS)
    known = [name for name in PARTITIONERS if name in found.shares]
    if not known:
        # what lies off every home somebody unknown has put there; but a mix of known ones can look alike in a few keys
        unexplained = places.get(frozenset(), 0) / max(1, sum(places.values()))
        if keys >= writers.enough_keys(partitions) and unexplained >= 1 - NAMED_FROM:
            return "custom", {}, ""
        return "undecided", {}, f"{_keys(keys)} {'is' if keys == 1 else 'are'} too few for {partitions} partitions"
    largest = max(known, key=found.shares.__getitem__)
    if shares[largest] >= NAMED_FROM:
        return largest, {largest: shares[largest]}, ""
    mix: dict[str, float] = {name: found.shares[name] for name in known}
    if found.unknown >= 1 - NAMED_FROM:
        mix[OTHERS] = found.unknown
    return "mixed", mix, ""


def _off_home(samples: Sequence[KeyPlace], judged_by: Partitioner) -> list[OffHome]:
    homes = ((one, one.homes[judged_by]) for one in samples)
    return [OffHome(one.key, one.partition, home) for one, home in homes if one.partition != home]


def _names(bits: int) -> frozenset[str]:
    return frozenset(name for bit, name in enumerate(PARTITIONERS) if bits >> bit & 1)


def _count_of(partitions: Mapping[str, int]) -> Column:
    pairs = (F.lit(part) for pair in sorted(partitions.items()) for part in pair)
    return F.element_at(F.create_map(*pairs), F.col("topic"))


# --- keys in two partitions ------------------------------------------------------------------------------------------


def one_key_one_partition(rows: DataFrame) -> DataFrame:
    """Keys that break the rule that all records of a key lie in one partition: only there they have an order of their own.

    Args:
        rows: `partition, key`, a row a record, and `topic` if they are of several.

    Returns:
        A row a key that lies in several: `topic` if it was given, `key binary, partitions array<int>` (ascending),
        `records bigint`. Null keys have nothing to keep in order and are left out.
    """
    by = ["topic", "key"] if "topic" in rows.columns else ["key"]
    spread = rows.where(F.col("key").isNotNull()).groupBy(*by)
    held = spread.agg(
        F.sort_array(F.collect_set("partition")).alias("partitions"), F.count("*").cast("bigint").alias("records")
    )
    return held.where(F.size("partitions") > 1)


def split_keys_each(rows: DataFrame) -> dict[str, SplitKeys]:
    """How many keys of each topic lie in several partitions; a topic without any is not in it.

    Args:
        rows: `topic, partition, key`, a row a record.
    """
    example = F.struct(_start("key"), F.length("key").alias("size"), "partitions")
    counts = (
        one_key_one_partition(rows)
        .groupBy("topic", _group("key"))
        .agg(F.count("*").alias("keys"), F.min(example).alias("example"))
        .collect()
    )
    found: dict[str, SplitKeys] = {}
    for topic in sorted({row["topic"] for row in counts}):
        own = [row for row in counts if row["topic"] == topic]
        least = sorted((row["example"] for row in own), key=lambda one: bytes(one["key"]))[:EXAMPLES]
        examples = tuple(SplitKey(shown(one["key"], one["size"]), tuple(one["partitions"])) for one in least)
        found[topic] = SplitKeys(sum(row["keys"] for row in own), examples)
    return found


# --- skew ------------------------------------------------------------------------------------------------------------


def skew_each(rows: DataFrame) -> dict[str, Skew]:
    """How unevenly the records of each topic lie; one aggregation. Of several that are heaviest the least is named.

    Args:
        rows: `topic, partition, key`, a row a record.
    """
    # each record counts for its partition and for its key
    nothing = F.lit(None)
    of_partition = F.struct("partition", nothing.cast("binary").alias("key"))
    of_key = F.struct(nothing.cast("int").alias("partition"), F.col("key"))
    both = rows.select("topic", F.inline(F.array(of_partition, of_key)))
    counted = both.where("partition is not null or key is not null").groupBy("topic", "partition", "key").count()
    heaviest = F.min(
        F.struct((-F.col("count")).alias("less"), "partition", _start("key"), F.length("key").alias("size"))
    )
    found: dict[str, dict[str, Any]] = {}
    for row in (
        counted.groupBy("topic", F.col("key").isNotNull().alias("keyed"))
        .agg(heaviest.alias("heaviest"), F.sum("count").alias("records"))
        .collect()
    ):
        one = row["heaviest"]
        own = found.setdefault(row["topic"], {})
        if row["keyed"]:
            own.update(key=shown(one["key"], one["size"]), key_share=-one["less"])
        else:
            own.update(partition=one["partition"], partition_share=-one["less"], records=row["records"])
    for own in found.values():
        own["partition_share"] /= own["records"]
        own["key_share"] = own.get("key_share", 0) / own["records"]
    return {topic: Skew(**own) for topic, own in found.items()}


# --- what is shared --------------------------------------------------------------------------------------------------


def shown(start: bytes | bytearray, size: int) -> str:
    """A key for people: text in quotes if its bytes are some, else hexadecimal digits; with dots if it goes on.

    Args:
        start: its bytes, or the first ones of them.
        size: how many it has.
    """
    more = "..." if size > len(start) else ""
    try:  # the last character may have been cut in two
        text = codecs.getincrementaldecoder("utf-8")().decode(bytes(start), final=not more)
    except UnicodeDecodeError:
        text = "\0"
    return f'"{text}{more}"' if text.isprintable() else f"0x{bytes(start).hex()}{more}"


def _start(key: str) -> Column:
    return F.substring(key, 1, _SHOWN).alias("key")


def _group(key: str) -> Column:
    return F.pmod(F.xxhash64(key), F.lit(_GROUPS)).alias("_group")


def _keys(count: int) -> str:
    return f"{count:,} distinct key{'' if count == 1 else 's'}"
