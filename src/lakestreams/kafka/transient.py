"""Which answers of a Kafka broker pass by themselves: it is asked again for what they refuse, by whoever asks one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import KafkaException


def passes(error: KafkaException) -> bool:
    """Whether an answer is of a moment: a partition that was just made has no leader yet, or one that moves has another."""
    from confluent_kafka import KafkaError  # noqa: PLC0415

    known = {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_LEADER_EPOCH,  # the metadata name a leader who does not know of it yet
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
    }
    return bool(error.args) and isinstance(error.args[0], KafkaError) and error.args[0].code() in known


__all__ = ["passes"]
