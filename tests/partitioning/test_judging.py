"""Who wrote a topic, judged from its records: against plain Python, over many topics in one Spark job."""

from __future__ import annotations

import random
import struct
import zlib
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.partitioning.test_kafka_default import VECTORS, murmur2

from lakestreams import StreamsBuilder, Text
from lakestreams.expectations.rules import Judged, RecordRules
from lakestreams.partitioning import writers
from lakestreams.partitioning.copartitioning import compare, off_home, pairs, percent, split, written
from lakestreams.partitioning.judging import (
    NAMED_FROM,
    OffHome,
    PartitionerReport,
    Skew,
    SplitKeys,
    detect_each,
    one_key_one_partition,
    shown,
    skew_each,
    split_keys_each,
)
from lakestreams.partitioning.partitioners import PARTITIONERS, home_partition, key_on_home_partition
from lakestreams.partitioning.writers import Writers
from lakestreams.topology.expectations import KeyOnHomePartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = "topic string, partition int, key binary"
RIGHT = "Results here are right, because joins are by key whatever the partition"

# --- the partitioners in plain Python --------------------------------------------------------------------------------


def fnv1a(data: bytes) -> int:
    """Fowler, Noll and Vo's own: exclusive or, then multiply; unsigned 32 bits."""
    hashed = 2_166_136_261
    for octet in data:
        hashed = (hashed ^ octet) * 16_777_619 % 2**32
    return hashed


def home(name: str, key: bytes, count: int) -> int:
    """As the clients' sources have it; Go's and C's remainder of a negative number is negative."""
    if name == "murmur2":
        return (murmur2(key) & 0x7FFFFFFF) % count
    if name == "crc32":
        return zlib.crc32(key) % count
    (signed,) = struct.unpack("<i", struct.pack("<I", fnv1a(key)))
    return abs(signed) % count if name == "fnv1a" else (signed & 0x7FFFFFFF) % count


def readable(key: bytes) -> str:
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"
    return f'"{text}"' if text.isprintable() else f"0x{key.hex()}"


# Absolute values that librdkafka's own test of rd_fnv1a asserts, made with Go's hash/fnv.
FNV1A = {
    b"kafka": 0xD33C4E1,
    b"giberish123456789": 0x77A58295,
    b"1234": 0x23BDD03,
    b"234": 0x2DEA3CD2,
    b"34": 0x740FA83E,
    b"4": 0x310CA263,
    b"PreAmbleWillBeRemoved,ThePrePartThatIs": 0x65CBD69C,
    b"reAmbleWillBeRemoved,ThePrePartThatIs": 0x6E49C79A,
    b"eAmbleWillBeRemoved,ThePrePartThatIs": 0x69EED356,
    b"AmbleWillBeRemoved,ThePrePartThatIs": 0x6ABCC023,
    b"": 0x7EE3623B,
}


def test_the_plain_hashes_are_those_of_their_makers():
    for key, value in FNV1A.items():
        assert abs(struct.unpack("<i", struct.pack("<I", fnv1a(key)))[0]) == value, key
    assert zlib.crc32(b"123456789") == 0xCBF43926  # the check value of CRC-32
    assert fnv1a(b"foobar") == 0xBF9CF968  # of the authors' own list
    assert all(murmur2(bytes.fromhex(one["key_bytes_hex"])) == one["murmur2"] for one in VECTORS)


def test_home_partitions_of_many_keys(spark: SparkSession):
    """All keys, counts and partitioners in one job; from a frame of rows, so that generated code computes them."""
    rng = random.Random(8)
    keys: list[bytes | None] = [*FNV1A, *(bytes.fromhex(one["key_bytes_hex"]) for one in VECTORS)]
    keys += [rng.randbytes(length) for length in [*range(1, 40), 200] for _ in range(3)]
    keys += [b"\xff\xff\xff\xff", b"\x80", "žluťoučký 🚲".encode()]
    counts = [1, 2, 3, 12, 16, 1000]
    frame = spark.createDataFrame([*((k, n) for k in keys for n in counts), (None, 12)], "key binary, n int")
    homes = [home_partition(F.col("key"), name, F.col("n")).alias(name) for name in PARTITIONERS]
    lies = key_on_home_partition(F.col("key"), F.pmod(F.col("n"), F.lit(5)), "crc32", F.col("n"))
    fixed = home_partition(F.col("key"), "fnv1a", 12).alias("fixed")
    # the invariant of a source, all of whose records lie on partition 3 of 12
    source = StreamsBuilder("p").stream("t", key=Text("k"), value=Text("v")).node
    rules = RecordRules(partitions={"t": 12})
    wrong = [
        rules.violated(source, Judged(KeyOnHomePartition(partitioner=name), name)).alias(f"not_{name}")
        for name in PARTITIONERS
    ]
    placed = frame.withColumn("partition", F.lit(3)).repartition(2)
    found = placed.select("key", "n", *homes, lies.alias("lies"), fixed, *wrong).collect()
    assert len(found) == len(keys) * len(counts) + 1
    for row in found:
        if row["key"] is None:
            assert all(row[name] is None for name in PARTITIONERS)
            assert row["lies"] is True
            assert not any(row[f"not_{name}"] for name in PARTITIONERS)
            continue
        key, count = bytes(row["key"]), row["n"]
        expected = {name: home(name, key, count) for name in PARTITIONERS}
        if not key:
            expected["crc32"] = None  # consistent_random puts it anywhere
        assert {name: row[name] for name in PARTITIONERS} == expected, (key, count)
        assert row["lies"] is (not key or count % 5 == expected["crc32"])
        assert row["fixed"] == home("fnv1a", key, 12)
        off = {name: home(name, key, 12) != 3 for name in PARTITIONERS}
        if not key:
            off["crc32"] = False
        assert {name: row[f"not_{name}"] for name in PARTITIONERS} == off, key


# --- topics of many kinds --------------------------------------------------------------------------------------------

SETS = range(20)


class Topics:
    """Topics as they would be written: topic to its count and (partition, key) of each record."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.records: dict[str, list[tuple[int, bytes | None]]] = {}
        self.rng = random.Random(20261122)
        for number in SETS:
            count = 2 + number % 15  # 2 to 16, most of them more than once
            keys = self.keys(number, self.rng.randint(120, 400))
            self.write(f"users-{number}", count, [(key, "crc32") for key in keys])
            self.write(f"views-{number}", count, [(key, "murmur2") for key in keys])
            self.write(f"mixed-{number}", count, self.mix(keys, {"murmur2": 0.6, "crc32": 0.4}))
        keys = self.keys(0, 600)
        self.write("fnv1a", 5, [(key, "fnv1a") for key in keys])
        self.write("fnv1a_reference", 5, [(key, "fnv1a_reference") for key in keys])
        self.write("fnv1a of two partitions", 2, [(key, "fnv1a_reference") for key in keys])
        self.write("go and java", 2, self.mix(keys, {"fnv1a": 0.25, "murmur2": 0.75}))
        self.write("all three", 6, self.mix(keys, {"murmur2": 0.5, "crc32": 0.3, "fnv1a": 0.2}))
        self.write("both write all keys", 4, [(key, name) for key in keys for name in ("murmur2", "crc32")])
        self.write("a few strays", 6, self.mix(keys, {"murmur2": 0.995, "anywhere": 0.005}))
        self.write("many strays", 6, self.mix(keys, {"murmur2": 0.9, "anywhere": 0.1}))
        self.write("by sum", 4, [(key, "sum") for key in keys])
        self.write("round robin", 3, [(key, "anywhere") for key in keys for _ in range(3)])
        self.write("few keys", 2, [(key, "murmur2") for key in keys[:15]])
        self.write("few mixed keys", 2, self.mix(keys[:40], {"murmur2": 0.5, "crc32": 0.5}))
        self.write("enough keys", 16, [(key, "crc32") for key in keys[:8]])
        self.write("one partition", 1, [(key, "murmur2") for key in keys])
        self.write("keyless", 3, [(None, "anywhere"), (b"", "anywhere")] * 10)

    def keys(self, number: int, many: int) -> list[bytes]:
        """Distinct keys: names, numbers as Kafka's serializers write them, or any bytes."""
        made = {
            0: lambda: b"user-%d" % self.rng.randrange(10**6),
            1: lambda: struct.pack(">q", self.rng.randrange(10**9)),
            2: lambda: self.rng.randbytes(self.rng.randint(1, 20)),
        }[number % 3]
        found: set[bytes] = set()
        while len(found) < many:
            found.add(made())
        return sorted(found)

    def mix(self, keys: list[bytes], shares: dict[str, float]) -> list[tuple[bytes, str]]:
        """Each key by one writer; exactly these shares of them."""
        shuffled = self.rng.sample(keys, len(keys))
        writers = [name for name, share in shares.items() for _ in range(round(share * len(keys)))]
        writers += [next(iter(shares))] * (len(keys) - len(writers))
        return list(zip(shuffled, writers, strict=False))

    def write(self, topic: str, count: int, keys: list[tuple[bytes | None, str]]) -> None:
        """Each key at least once, some more often, the first one very often."""
        records = []
        for place, (key, writer) in enumerate(keys):
            for _ in range(40 if place == 0 else self.rng.choice([1, 1, 1, 2])):
                if writer == "anywhere":
                    partition = self.rng.randrange(count)
                elif writer == "sum":
                    partition = sum(key) % 7 % count
                else:
                    partition = home(writer, key, count)
                records.append((partition, key))
        self.counts[topic], self.records[topic] = count, records

    def places(self, topic: str) -> set[tuple[int, bytes]]:
        """Partition and key of what is judged."""
        return {(partition, key) for partition, key in self.records[topic] if key}

    def share(self, topic: str, name: str) -> float:
        places = self.places(topic)
        return sum(home(name, key, self.counts[topic]) == at for at, key in places) / len(places)


@pytest.fixture(scope="module")
def topics() -> Topics:
    return Topics()


@pytest.fixture(scope="module")
def rows(spark: SparkSession, topics: Topics) -> DataFrame:
    flat = [(topic, *one) for topic, records in topics.records.items() for one in records]
    return spark.createDataFrame(flat, ROWS)


@pytest.fixture(scope="module")
def reports(rows: DataFrame, topics: Topics) -> dict[str, PartitionerReport]:
    """All topics in one Spark job."""
    return detect_each(rows, topics.counts)


@pytest.mark.slow
def test_shares_are_those_counted_by_hand(reports, topics):
    assert set(reports) == set(topics.counts)
    for topic, report in reports.items():
        places = topics.places(topic)
        assert (report.topic, report.partitions) == (topic, topics.counts[topic])
        assert (report.keys, report.places) == (len({key for _, key in places}), len(places)), topic
        if places:
            assert report.shares == {name: topics.share(topic, name) for name in PARTITIONERS}, topic


@pytest.mark.slow
@pytest.mark.parametrize("number", SETS)
def test_crc32_beside_murmur2_is_found_named_and_shown(reports, topics, number):
    users, views = reports[f"users-{number}"], reports[f"views-{number}"]
    assert (users.verdict, users.shares["crc32"], users.off_home, users.examples) == ("crc32", 1.0, 0, ())
    assert (views.verdict, views.shares["murmur2"], views.mix) == ("murmur2", 1.0, {})
    pair = compare(users, views)
    assert pair.agree is False
    head = (
        f'topic "users-{number}" was written with crc32 (librdkafka\'s default), topic "views-{number}" was written '
        "with murmur2 (Java clients): equal counts, but one key lies in different partitions (e.g. "
    )
    assert pair.message.startswith(head), pair.message
    assert pair.message.endswith(f"{RIGHT}; a Kafka Streams consumer of these topics would miss matches.")
    example = pair.message.removeprefix(head).partition("). ")[0]
    name, _, numbers = example.rpartition(": ")
    key = next(key for _, key in topics.places(users.topic) if readable(key) == name)
    count = topics.counts[users.topic]
    places = home("crc32", key, count), home("murmur2", key, count)
    assert numbers == f"{places[0]} and {places[1]}"
    assert places[0] != places[1]
    assert {(places[0], key)} <= topics.places(users.topic), "the key is there"
    assert {(places[1], key)} <= topics.places(views.topic), "and there"


@pytest.mark.slow
@pytest.mark.parametrize("number", SETS)
def test_mixed_writers_are_told_with_shares_near_the_truth(reports, topics, number):
    mixed = reports[f"mixed-{number}"]
    assert mixed.verdict == "mixed"
    assert list(mixed.mix) == ["murmur2", "crc32"]
    # what two partitions leave open is most: every second key is at home under both
    assert mixed.mix["murmur2"] == pytest.approx(0.6, abs=0.12 if mixed.partitions == 2 else 0.07)
    assert sum(mixed.mix.values()) == pytest.approx(1, abs=0.01)
    told = written(mixed)
    assert f"{percent(mixed.mix['murmur2'])} murmur2 (Java clients) and {percent(mixed.mix['crc32'])} crc32" in told
    # examples: keys that are off the home of the larger writer
    assert mixed.judged_by == "murmur2"
    places = topics.places(mixed.topic)
    away = {(at, key) for at, key in places if home("murmur2", key, mixed.partitions) != at}
    assert mixed.off_home == len(away)
    known = {OffHome(readable(key), at, home("murmur2", key, mixed.partitions)) for at, key in away}
    assert len(mixed.examples) == 5
    assert set(mixed.examples) <= known
    assert f"{len(away)} of {len(places)} keys lie off their home partition under murmur2" in off_home(mixed)
    pair = compare(mixed, reports[f"views-{number}"])
    assert (pair.agree, "one key may lie in different partitions. " + RIGHT in pair.message) == (False, True)


@pytest.mark.slow
def test_other_writers(reports, topics):
    verdicts = {topic: report.verdict for topic, report in reports.items() if not topic[-1].isdigit()}
    assert verdicts == {
        "fnv1a": "fnv1a",
        "fnv1a_reference": "fnv1a_reference",
        "fnv1a of two partitions": "fnv1a",  # with two partitions both forms are the same
        "go and java": "mixed",
        "all three": "mixed",
        "both write all keys": "mixed",
        "a few strays": "murmur2",
        "many strays": "mixed",
        "by sum": "custom",
        "round robin": "custom",
        "few keys": "undecided",
        "few mixed keys": "undecided",
        "enough keys": "crc32",
        "one partition": "undecided",
        "keyless": "undecided",
    }
    assert reports["go and java"].mix == pytest.approx({"murmur2": 0.75, "fnv1a": 0.25}, abs=0.08)
    assert reports["all three"].mix == pytest.approx({"murmur2": 0.5, "crc32": 0.3, "fnv1a": 0.2}, abs=0.06)
    assert reports["both write all keys"].mix["murmur2"] == pytest.approx(0.5, abs=0.05)
    strays = reports["many strays"].mix
    assert strays == pytest.approx({"murmur2": 0.9, "others": 0.1}, abs=0.03)
    assert written(reports["many strays"]).endswith(f"and {percent(strays['others'])} others")
    few = reports["a few strays"]
    assert NAMED_FROM <= few.shares["murmur2"] < 1
    assert 0 < len(few.examples) <= few.off_home <= 3
    assert reports["by sum"].judged_by == "murmur2"
    assert off_home(reports["by sum"]) is None


@pytest.mark.slow
def test_what_cannot_be_told_says_why(reports):
    told = {topic: written(reports[topic]) for topic in ("few keys", "one partition", "keyless", "by sum")}
    assert told == {
        "few keys": 'who wrote topic "few keys" is undecided (15 distinct keys are too few for 2 partitions)',
        "one partition": (
            'who wrote topic "one partition" is undecided (it has one partition, which is every key\'s home)'
        ),
        "keyless": 'who wrote topic "keyless" is undecided (0 distinct keys are too few for 3 partitions)',
        "by sum": 'topic "by sum" was written with a partitioner of its own',
    }
    assert all(reports[topic].examples == () for topic in ("few keys", "one partition", "keyless"))


@pytest.mark.slow
def test_pairs_that_agree_and_that_cannot_be_judged(reports):
    alike, open_, own, counts = pairs(
        (reports[left], reports[right])
        for left, right in (
            ("views-2", "views-17"),
            ("few keys", "views-0"),
            ("by sum", "by sum"),
            ("views-1", "views-2"),
        )
    )
    assert (alike.left, alike.right, alike.agree) == ("views-2", "views-17", True)
    assert alike.message.endswith("one key has the same home in both")
    assert open_.agree is None
    assert open_.message.endswith("it is unknown whether a key has the same home in both")
    assert own.agree is None
    assert counts.agree is False
    assert "unequal counts (3 and 4 partitions)" in counts.message


def test_no_topic_is_no_report(rows):
    assert detect_each(rows, {}) == {}


# --- keys in two partitions, and skew --------------------------------------------------------------------------------


@pytest.mark.slow
def test_keys_in_several_partitions(rows, topics):
    expected: dict[str, dict[bytes, tuple[int, ...]]] = {}
    for topic in topics.records:
        held: dict[bytes, set[int]] = defaultdict(set)
        for partition, key in topics.records[topic]:
            if key is not None:
                held[key].add(partition)
        found = {key: tuple(sorted(partitions)) for key, partitions in held.items() if len(partitions) > 1}
        if found:
            expected[topic] = found
    assert {"both write all keys", "round robin", "keyless"} <= set(expected)
    assert not any(topic.startswith(("users", "views", "fnv1a")) for topic in expected)
    told = split_keys_each(rows)
    assert {topic: one.keys for topic, one in told.items()} == {topic: len(found) for topic, found in expected.items()}
    for topic, one in told.items():
        known = {(readable(key), partitions) for key, partitions in expected[topic].items()}
        assert {(example.key, example.partitions) for example in one.examples} <= known
        assert 0 < len(one.examples) <= 5, topic
    assert len(told["both write all keys"].examples) == 5
    assert split("users", SplitKeys()) is None
    assert 'topic "keyless": 1 key lies in more than one partition (e.g. "" in' in split("keyless", told["keyless"])

    own = one_key_one_partition(rows.where("topic = 'both write all keys'").drop("topic"))
    assert own.columns == ["key", "partitions", "records"]
    times = Counter(key for _, key in topics.records["both write all keys"])
    found = {bytes(row["key"]): (tuple(row["partitions"]), row["records"]) for row in own.collect()}
    assert found == {key: (at, times[key]) for key, at in expected["both write all keys"].items()}


@pytest.mark.slow
def test_skew(rows, topics):
    expected = {}
    for topic, records in topics.records.items():
        partition, most = min(Counter(at for at, _ in records).items(), key=lambda one: (-one[1], one[0]))
        keys = Counter(key for _, key in records if key is not None)
        key, often = min(keys.items(), key=lambda one: (-one[1], one[0]))
        shares = most / len(records), often / len(records)
        expected[topic] = Skew(len(records), partition, shares[0], readable(key), shares[1])
    assert skew_each(rows) == expected
    own = rows.where("topic = 'keyless' and key is null")
    nulls = Counter(at for at, key in topics.records["keyless"] if key is None)
    partition, most = min(nulls.items(), key=lambda one: (-one[1], one[0]))
    assert skew_each(own) == {"keyless": Skew(nulls.total(), partition, most / nulls.total(), None, 0.0)}
    assert skew_each(own.where("false")) == {}


# --- without Spark ---------------------------------------------------------------------------------------------------


def test_a_key_for_people():
    assert shown(b"alice", 5) == '"alice"'
    assert shown(bytearray(b"alice"), 500) == '"alice..."'
    assert shown("é".encode()[:1], 2) == '"..."'  # cut in the middle of a character
    assert shown(b"\x00\x00\x00\x07", 4) == "0x00000007"
    assert shown(b"\xff\xfe", 9) == "0xfffe..."
    assert shown(b"", 0) == '""'


def test_shares_in_per_cent_are_rounded_down():
    shares = {1.0: "100 %", 0.9999: "99.9 %", 0.29: "29 %", 0.5: "50 %", 1 / 3: "33.3 %", 0.0: "0 %"}
    assert {share: percent(share) for share in shares} == shares


@pytest.mark.parametrize("count", [2, 3, 7, 16])
def test_how_many_keys_decide(count):
    """Keys that all lie at home convince once n to the power of their number passes a million."""
    name = frozenset({"crc32"})
    few = next(keys for keys in range(1, 30) if count**keys > 1e6)
    assert writers.find({name: few - 1}, count, PARTITIONERS).shares == {}
    assert writers.find({name: few}, count, PARTITIONERS) == Writers({"crc32": 1.0}, 0.0)
    assert writers.enough_keys(count) > few
    assert writers.enough_keys(1) > 1e9


def test_a_page_tells_how_many_keys_decide():
    told = [
        next(keys for keys in range(1, 30) if writers.evidence(keys, keys, count) >= writers.EVIDENCE)
        for count in (2, 4, 16)
    ]
    assert told == [20, 10, 5]
    assert [round(writers.enough_keys(count)) for count in (2, 4, 16)] == [106, 44, 17]


def expected(shares: dict[str, float], count: int, places: int) -> dict[frozenset[str], int]:
    """As many places as these writers make on average; who is none of the two writes anywhere."""
    found: dict[frozenset[str], float] = defaultdict(float)
    for writer, share in shares.items():
        others = [name for name in PARTITIONERS[:2] if name != writer]
        for bits in range(2 ** len(others)):
            hit = [name for bit, name in enumerate(others) if bits >> bit & 1]
            chance = (1 / count) ** len(hit) * (1 - 1 / count) ** (len(others) - len(hit))
            found[frozenset([*hit, writer]) & set(PARTITIONERS)] += places * share * chance
    return {homes: round(many) for homes, many in found.items()}


@pytest.mark.parametrize("count", [2, 4, 16])
@pytest.mark.parametrize(
    "shares",
    [
        {"murmur2": 0.6, "crc32": 0.4},
        {"murmur2": 0.1, "crc32": 0.9},
        {"murmur2": 0.5, "crc32": 0.3, "others": 0.2},
        {"murmur2": 0.9, "others": 0.1},
    ],
    ids=str,
)
def test_the_shares_are_those_of_the_writers(count, shares):
    found = writers.find(expected(shares, count, 10_000), count, PARTITIONERS)
    assert found.shares == pytest.approx({name: share for name, share in shares.items() if name != "others"}, abs=1e-3)
    assert found.unknown == pytest.approx(shares.get("others", 0.0), abs=1e-3)


def test_chance_alone_is_no_writer():
    """Of 400 topics that were written anywhere, none has one, however its keys happen to lie."""
    rng = random.Random(3)
    for _ in range(400):
        count, keys = rng.randint(2, 16), rng.randint(1, 400)
        places = Counter(frozenset(name for name in PARTITIONERS if rng.random() < 1 / count) for _ in range(keys))
        assert writers.find(places, count, PARTITIONERS) == Writers({}, pytest.approx(1.0))


@pytest.mark.parametrize("number", SETS)
def test_the_topics_above_are_told_without_spark(topics, number):
    """What the judgment makes of the topics that are written in this file, their homes computed in plain Python."""
    for topic in (f"users-{number}", f"views-{number}", f"mixed-{number}"):
        found = judged(topics, topic)
        if topic.startswith("mixed"):
            assert list(found.shares) == ["murmur2", "crc32"]
            assert found.shares["murmur2"] == pytest.approx(0.6, abs=0.12 if topics.counts[topic] == 2 else 0.07)
            assert found.unknown == pytest.approx(0.0, abs=0.01)
        else:
            assert found == Writers({"crc32" if topic.startswith("users") else "murmur2": 1.0}, 0.0)


def test_the_other_topics_are_told_without_spark(topics):
    found = {topic: judged(topics, topic) for topic in topics.counts if not topic[-1].isdigit()}
    assert found["go and java"].shares == pytest.approx({"murmur2": 0.75, "fnv1a": 0.25}, abs=0.08)
    assert found["all three"].shares == pytest.approx({"murmur2": 0.5, "crc32": 0.3, "fnv1a": 0.2}, abs=0.06)
    assert found["both write all keys"].shares == pytest.approx({"murmur2": 0.5, "crc32": 0.5}, abs=0.05)
    assert found["many strays"].shares == pytest.approx({"murmur2": 0.9}, abs=0.03)
    assert found["many strays"].unknown == pytest.approx(0.1, abs=0.03)
    named = {topic: list(one.shares) for topic, one in found.items()}
    assert named["fnv1a"] == named["fnv1a of two partitions"] == ["fnv1a"]
    assert named["fnv1a_reference"] == ["fnv1a_reference"]
    assert named["enough keys"] == ["crc32"]
    assert named["a few strays"] == ["murmur2"]
    assert [named[topic] for topic in ("by sum", "round robin", "few keys", "few mixed keys", "keyless")] == [[]] * 5


def judged(topics: Topics, topic: str) -> Writers:
    count = topics.counts[topic]
    places = Counter(
        frozenset(name for name in PARTITIONERS if home(name, key, count) == at) for at, key in topics.places(topic)
    )
    return writers.find(places, max(2, count), PARTITIONERS)
