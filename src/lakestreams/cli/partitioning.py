"""`lakestreams check --data`: how topics are partitioned, judged from the records that bronze holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from lakestreams.cli.screen import Screen, table
from lakestreams.engine.publish.partitioning import Partitioning, TopicPartitioning
from lakestreams.partitioning import copartitioning
from lakestreams.partitioning.copartitioning import percent
from lakestreams.partitioning.partitioners import PARTITIONERS


def show(screen: Screen, partitioning: Partitioning) -> None:
    """Tables of what was found a topic, and in words what does not fit together."""
    if partitioning.topics:
        for one_table in _tables(partitioning):
            screen.show(one_table)
    for one in partitioning.topics:
        for warning in _warnings(one):
            screen.say(Text.assemble(("warning", "yellow"), f"  {warning}"))
    for pair in partitioning.pairs:
        mark = ("ok", "bold green") if pair.agree else ("warning", "yellow") if pair.agree is False else ("open", "dim")
        screen.say(Text.assemble(mark, f"  {pair.message}"))
    for note in partitioning.notes:
        screen.say(Text.assemble(("note", "dim"), f"  {note}"))


def _tables(partitioning: Partitioning) -> Iterator[Table]:
    """Who wrote each topic, which share of its keys is at home under each partitioner, how unevenly records lie."""
    verdicts = [
        (one.topic, one.skew.records, one.partitioner.keys, _verdict(one), one.split.keys)
        for one in partitioning.topics
    ]
    title = f"\nPartitioning of {partitioning.pipeline}, judged from its newest records"
    columns = ("topic", "records", "keys", "written with", "keys in several partitions")
    yield table(*columns, title=title, rows=verdicts, right=(*columns[1:3], columns[4]))
    even = {one.topic: percent(1 / one.partitioner.partitions) for one in partitioning.topics}
    shares = [
        (one.topic, even[one.topic], *map(percent, one.partitioner.shares.values())) for one in partitioning.topics
    ]
    yield table(
        "topic", "by chance", *PARTITIONERS, title="Keys on their home partition", rows=shares,
        right=("by chance", *PARTITIONERS),
    )  # fmt: skip
    skews = [(one.topic, one.skew, even[one.topic]) for one in partitioning.topics]
    heaviest = [
        (topic, share, skew.partition, percent(skew.partition_share), skew.key, percent(skew.key_share))
        for topic, skew, share in skews
    ]
    numbers = ("even share", "heaviest partition", "its share", "share of the key")
    yield table("topic", *numbers[:3], "heaviest key", numbers[3], title="Skew", rows=heaviest, right=numbers)


def as_dict(partitioning: Partitioning) -> dict[str, Any]:
    """For `--json`."""
    return {
        "topics": [_topic(one) for one in partitioning.topics],
        "pairs": [asdict(pair) for pair in partitioning.pairs],
        "notes": list(partitioning.notes),
    }


def _topic(one: TopicPartitioning) -> dict[str, Any]:
    partitioner = asdict(one.partitioner)
    del partitioner["samples"], partitioner["topic"]
    return {
        "topic": one.topic,
        "message": copartitioning.written(one.partitioner),
        "warnings": _warnings(one),
        "partitioner": partitioner,
        "skew": asdict(one.skew),
        "split_keys": asdict(one.split),
    }


def _warnings(one: TopicPartitioning) -> list[str]:
    warnings = (copartitioning.off_home(one.partitioner), copartitioning.split(one.topic, one.split))
    return [warning for warning in warnings if warning is not None]


def _verdict(one: TopicPartitioning) -> str:
    report = one.partitioner
    if report.verdict == "mixed":
        return ", ".join(f"{name} {percent(share)}" for name, share in report.mix.items())
    return f"undecided: {report.reason}" if report.reason else report.verdict
