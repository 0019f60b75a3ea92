"""Which answers an admin client asks for again: no broker, its answers are put in."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from lakestreams.errors import BrokerUnreachable
from lakestreams.kafka.admin_cluster import AdminCluster
from lakestreams.kafka.cluster_view import ClusterView


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    ],
)
def test_a_topic_that_was_just_made_is_asked_for_again(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """A real answer of a broker to a client that was quicker than its partitions' leaders."""
    answers: list[Any] = [
        KafkaException(KafkaError(code)),
        KafkaException(KafkaError(code)),
        ClusterView({("t", 0): 3}),
    ]
    asked: list[Any] = []

    def answer(_: AdminCluster, __: Any, names: list[str], outputs: list[str]) -> ClusterView:
        asked.append((names, outputs))
        found = answers.pop(0)
        if isinstance(found, ClusterView):
            return found
        raise found

    monkeypatch.setattr(AdminCluster, "_asked", answer)
    assert AdminCluster("127.0.0.1:1").view(["t"], ["o"]).ends == {("t", 0): 3}
    assert asked == [(["o", "t"], ["o"])] * 3


def test_what_does_not_pass_is_told_at_once_and_what_does_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(code: int) -> Any:
        def answer(*_: Any) -> ClusterView:
            asked.append(code)
            raise KafkaException(KafkaError(code))

        return answer

    monkeypatch.setattr(AdminCluster, "_asked", refuse(KafkaError._ALL_BROKERS_DOWN))
    with pytest.raises(BrokerUnreachable):
        AdminCluster("127.0.0.1:1").view(["t"])
    assert len(asked) == 1
    monkeypatch.setattr(AdminCluster, "_asked", refuse(KafkaError.NOT_LEADER_FOR_PARTITION))
    with pytest.raises(BrokerUnreachable):
        AdminCluster("127.0.0.1:1", timeout_s=0.3).view(["t"])
    assert len(asked) > 2
