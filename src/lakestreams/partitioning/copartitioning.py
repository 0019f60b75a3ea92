"""Two topics that meet by key, judged by who wrote them; and reports on partitioning in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lakestreams.partitioning.judging import PartitionerReport, SplitKeys
from lakestreams.topology.kinds import Partitioner

WRITERS: Final[Mapping[Partitioner, str]] = {
    "murmur2": "Java clients",
    "crc32": "librdkafka's default",
    "fnv1a": "Sarama's default",
    "fnv1a_reference": "Sarama's reference hash",
}
_RIGHT: Final = (
    "Results here are right, because joins are by key whatever the partition; a Kafka Streams consumer of these topics "
    "would miss matches."
)


@dataclass(frozen=True)
class Pair:
    """Two topics that are joined by key.

    Attributes:
        left, right: the topics.
        agree: whether a key has the same home in both; None if that is not known.
        message: the same in words.
    """

    left: str
    right: str
    agree: bool | None
    message: str


def pairs(reports: Iterable[tuple[PartitionerReport, PartitionerReport]]) -> list[Pair]:
    """Whether topics that are joined by key were written alike.

    Args:
        reports: of the left and the right topic of each join.
    """
    return [compare(left, right) for left, right in reports]


def compare(left: PartitionerReport, right: PartitionerReport) -> Pair:
    """Whether two topics that are joined by key were written alike."""
    agree, message = _judged(left, right)
    return Pair(left.topic, right.topic, agree, message)


def _judged(left: PartitionerReport, right: PartitionerReport) -> tuple[bool | None, str]:
    both = f"{written(left)}, {written(right)}"
    if left.partitions != right.partitions:
        counts = f"{left.partitions} and {right.partitions} partitions"
        return False, f"{both}: unequal counts ({counts}), so one key lies in different partitions. {_RIGHT}"
    if left.verdict == "undecided" or right.verdict == "undecided":
        return None, f"{both}: it is unknown whether a key has the same home in both"
    if left.verdict == right.verdict == "custom":
        return None, f"{both}: it is unknown whether it is the same one"
    if left.named and left.named == right.named:
        return True, f"{both}: one key has the same home in both"
    if not (left.named and right.named):
        return False, f"{both}: equal counts, but one key may lie in different partitions. {_RIGHT}"
    return False, f"{both}: equal counts, but one key lies in different partitions{_example(left, right)}. {_RIGHT}"


def _example(left: PartitionerReport, right: PartitionerReport) -> str:
    """A key of either topic with its homes in both: sampled keys that lie on the home that their topic gives them."""
    ours, theirs = left.named, right.named
    if ours is None or theirs is None:
        return ""
    for report, own in ((left, ours), (right, theirs)):
        for one in report.samples:
            if one.partition == one.homes[own] and one.homes[ours] != one.homes[theirs]:
                return f" (e.g. {one.key}: {one.homes[ours]} and {one.homes[theirs]})"
    return ""


def written(report: PartitionerReport) -> str:
    """Who wrote a topic: `topic "users" was written with crc32 (librdkafka's default)`."""
    topic = f'topic "{report.topic}"'
    if report.named is not None:
        return f"{topic} was written with {report.named} ({WRITERS[report.named]})"
    if report.verdict == "mixed":
        parts = " and ".join(f"{percent(share)} {_writer(name)}" for name, share in report.mix.items())
        return f"{topic} was written by several: {parts}"
    if report.verdict == "custom":
        return f"{topic} was written with a partitioner of its own"
    return f"who wrote {topic} is undecided ({report.reason})"


def off_home(report: PartitionerReport) -> str | None:
    """Keys of a topic that has one partitioner, or a main one, and yet lie elsewhere; None if there are none."""
    if not report.off_home or report.judged_by is None or report.verdict == "custom":
        return None
    examples = ", ".join(f"{one.key} in {one.partition}, home {one.home}" for one in report.examples)
    return (
        f'topic "{report.topic}": {report.off_home:,} of {report.places:,} keys lie off their home partition under '
        f"{report.judged_by} (e.g. {examples})"
    )


def split(topic: str, keys: SplitKeys) -> str | None:
    """Keys in several partitions, in words; None if there are none."""
    if not keys.keys:
        return None
    examples = ", ".join(f"{one.key} in {' and '.join(map(str, one.partitions))}" for one in keys.examples)
    many = "1 key lies" if keys.keys == 1 else f"{keys.keys:,} keys lie"
    return (
        f'topic "{topic}": {many} in more than one partition (e.g. {examples}); between partitions only the records\' '
        "times say which came first"
    )


def percent(share: float) -> str:
    """A share in per cent, rounded down to one decimal, so that 100 % means all."""
    return f"{math.floor(share * 1_000 + 1e-6) / 10:g} %"


def _writer(name: str) -> str:
    known = next((partitioner for partitioner in WRITERS if partitioner == name), None)
    return f"{known} ({WRITERS[known]})" if known is not None else name
