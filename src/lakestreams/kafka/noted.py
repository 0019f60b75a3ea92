"""What tells a topic from another of the same name, and how a partition is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TopicPartition = tuple[str, int]

_STARTS, _EPOCHS = "starts", "leader_epochs"  # in the details of rows of the ledger


@dataclass(frozen=True)
class Noted:
    """What tells topics from others of the same name, as it was seen when they were read.

    Attributes:
        ids: topic to Kafka's id for it; Delta's for a table.
        leader_epochs: how often a partition's leader had changed; a new topic starts again.
        starts: a partition's first retained offset, which never goes back.
    """

    ids: Mapping[str, str] = field(default_factory=dict)
    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    def from_details(cls, ids: Mapping[str, str] | None, details: Mapping[str, Any]) -> Noted:
        """What a row of the ledger says."""
        return cls(dict(ids or {}), _by_partition(details.get(_EPOCHS)), _by_partition(details.get(_STARTS)))

    def details(self) -> dict[str, Any]:
        """What of it goes into a row's details, a list a topic; the ids have a column of their own."""
        told = {_STARTS: _by_topic(self.starts), _EPOCHS: _by_topic(self.leader_epochs)}
        return {name: lists for name, lists in told.items() if lists}

    def then(self, later: Noted) -> Noted:
        """What is known after a later look: it counts, and what it does not show stays."""
        return Noted(
            {**self.ids, **later.ids},
            {**self.leader_epochs, **later.leader_epochs},
            {**self.starts, **later.starts},
        )


def _by_topic(values: Mapping[TopicPartition, int]) -> dict[str, list[int | None]]:
    lists: dict[str, list[int | None]] = {}
    for (topic, partition), value in sorted(values.items()):
        own = lists.setdefault(topic, [])
        own += [None] * (partition - len(own)) + [value]
    return lists


def _by_partition(lists: Mapping[str, list[int | None]] | None) -> dict[TopicPartition, int]:
    return {
        (topic, partition): value
        for topic, own in (lists or {}).items()
        for partition, value in enumerate(own)
        if value is not None
    }
