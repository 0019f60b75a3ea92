"""Whether topics are those that were read before: what a driver notes of them, and what it compares with that.

A topic that was deleted and created again has the old name and other records. Its id tells; where no id can be had, a
leader epoch or a first offset that went back does, and an end below what was read. What is noted stands in the row of each
claim and of each ingest batch, so no crash leaves records without the id of their topic (decision 0029).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from lakestreams.engine.ingest.delta_source import versions
from lakestreams.engine.ledger.plans import Ingest, Range
from lakestreams.errors import TopicRecreated
from lakestreams.kafka.noted import Noted, TopicPartition

if TYPE_CHECKING:
    from lakestreams.kafka.cluster_view import ClusterView
    from lakestreams.topology.topology import Topology

_RECREATED: Final = "was deleted and created again"


def called(topology: Topology) -> dict[str, str]:
    """Delta sources, by the names they have as topics, to what people call them."""
    return {source.topic: f"Delta table {source.delta}" for source in topology.sources if source.delta}


def warnings(view: ClusterView) -> list[str]:
    """What to know of a run that cannot tell topics from others of the same name."""
    if not view.unchecked:
        return []
    return [
        f"topic ids are not compared, so a topic that was deleted and created again may go unnoticed: {view.unchecked}"
    ]


def require_same(
    noted: Noted,
    view: ClusterView,
    positions: Mapping[TopicPartition, int],
    called: Mapping[str, str],
    unplanned: Iterable[Ingest] = (),
) -> None:
    """Refuses topics and Delta tables that are others than those that were read.

    A topic of which nothing was read may be recreated: nothing of the old one is anywhere.

    Args:
        noted: of the topics as they were read.
        view: the cluster as it is.
        positions: up to where each partition was read.
        called: Delta source, by the name it has as a topic, to what people call it.
        unplanned: batches of which nothing derived was published.

    Raises:
        TopicRecreated: naming the first of them, and what bronze holds of it that no cycle has taken.
    """
    for topic in sorted({at[0] for at, position in positions.items() if position > 0}):
        fault = _other(topic, noted, view, positions, topic in called)
        if fault is not None:
            held = unplanned_of(topic, unplanned)
            more = f"; no cycle has taken {held}, which may be of either of the two" if held else ""
            message = f"{called.get(topic, f'topic {topic}')} {fault}{more}"
            raise TopicRecreated(message)


def require_unchanged(
    before: ClusterView, now: Mapping[str, str], called: Mapping[str, str], unplanned: Iterable[Ingest]
) -> None:
    """Refuses to go on with records that were read while their topic was recreated: nothing derived of them is published.

    An id that is the same before and after says that everything in between was read of that topic.

    Raises:
        TopicRecreated: naming the topic and what bronze holds of it.
    """
    for topic, recorded in before.topic_ids.items():
        if topic in now and now[topic] != recorded:
            held = unplanned_of(topic, unplanned) or "nothing"
            message = (
                f"{called.get(topic, f'topic {topic}')} {_RECREATED} while it was read (id {recorded}, now {now[topic]}); "
                f"no cycle has taken {held}, which may be of either of the two"
            )
            raise TopicRecreated(message)


def unplanned_of(topic: str, unplanned: Iterable[Ingest]) -> str:
    """Which offsets of a topic are in bronze and in no cycle, as text; empty if there are none."""
    ranges: dict[int, Range] = {}
    for one in unplanned:
        for part in one.ranges:
            if part.topic == topic and part.to_offset > part.from_offset and not part.of_replays:
                first = ranges.get(part.partition, part)
                ranges[part.partition] = Range(
                    topic,
                    part.partition,
                    min(first.from_offset, part.from_offset),
                    max(first.to_offset, part.to_offset),
                )
    texts = [f"{part.topic}-{part.partition}: offsets {part.from_offset} to {part.to_offset - 1}"
            for _, part in sorted(ranges.items())]  # fmt: skip
    return ", ".join(texts)


def _other(
    topic: str, noted: Noted, view: ClusterView, positions: Mapping[TopicPartition, int], of_delta: bool
) -> str | None:
    """What shows that a topic is another one than was read; None if nothing does."""
    recorded, now = noted.ids.get(topic), view.topic_ids.get(topic)
    if recorded is not None and now is not None and recorded != now:
        what = "is not the table that was read before" if of_delta else _RECREATED
        return f"{what} (id {recorded}, now {now})"
    own = sorted(at for at in view.ends if at[0] == topic)
    for at in own:
        if view.ends[at] < positions.get(at, 0):
            return _too_short(at, view.ends[at], positions[at], of_delta)
    if recorded is not None and now is not None:
        return None
    for at in own:
        for name, before, after in (("leader epoch", noted.leader_epochs, view.leader_epochs),
                                    ("first offset", noted.starts, view.starts)):  # fmt: skip
            if at in before and at in after and after[at] < before[at]:
                return f"{_RECREATED}: the {name} of partition {at[1]} went back from {before[at]} to {after[at]}"
    return None


def _too_short(at: TopicPartition, end: int, position: int, of_delta: bool) -> str:
    if of_delta:
        return f"has {versions(end)} versions, but {versions(position)} were already read"
    return f"partition {at[1]} ends at offset {end}, but {position} were already read"
