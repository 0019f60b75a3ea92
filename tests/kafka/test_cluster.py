"""Which adapter looks at the cluster: decided by options, so no test here needs Spark."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.engine.secured import PLAIN

from lakestreams.errors import BrokerUnreachable, LakestreamsError, RightsMissing, SignInFailed, TopicMissing
from lakestreams.kafka.admin_cluster import AdminCluster
from lakestreams.kafka.cluster import AdminFirst, Cluster, connect
from lakestreams.kafka.cluster_view import ClusterView
from lakestreams.kafka.options import KafkaOptions
from lakestreams.kafka.probe_cluster import ProbeCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def connected(options: dict[str, str]) -> Cluster:
    """The adapter for these options; no session is needed to choose it."""
    return connect(cast("SparkSession", None), options, Path("scratch"))


def test_an_admin_client_takes_what_means_the_same_to_it() -> None:
    options = KafkaOptions("a:1", {"client.id": "me"}).spark_options()
    assert connected(options) == AdminCluster("a:1")


def test_ends_are_those_that_records_are_read_to() -> None:
    """Else a topic with an open transaction would end before what was read of it, and look recreated."""
    options = KafkaOptions("a:1", {"isolation.level": "read_uncommitted"}).spark_options()
    assert connected(options) == AdminCluster("a:1", uncommitted=True)


@pytest.mark.parametrize(("option", "value"), [("security.protocol", "SSL"), ("ssl.truststore.certificates", "PEM")])
def test_where_clients_sign_in_an_admin_client_is_asked_first(option: str, value: str) -> None:
    options = KafkaOptions("a:1", {option: value}).spark_options()
    both = connected(options)
    assert isinstance(both, AdminFirst)
    assert both.probe.options == options


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"ssl.truststore.location": "/nowhere"}, "the truststore cannot be read here"),
        ({"ssl.cipher.suites": "x"}, "only Spark's client understands ssl.cipher.suites"),
    ],
)
def test_options_without_a_counterpart_are_left_to_sparks_source(options: dict[str, str], why: str) -> None:
    probe = connected(KafkaOptions("a:1", options).spark_options())
    assert isinstance(probe, ProbeCluster)
    assert why in probe.unchecked


def test_without_the_package_sparks_source_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    probe = connected(KafkaOptions("a:1", {}).spark_options())
    assert isinstance(probe, ProbeCluster)
    assert probe.unchecked == "the package confluent-kafka is not installed"


def test_no_adapter_prints_a_secret() -> None:
    entry = f'{PLAIN} required username="u" password="canary-3kQ";'
    options = {"kafka.bootstrap.servers": "a:1", "kafka.sasl.jaas.config": entry}
    assert "canary-3kQ" not in repr(connected(options))
    assert "canary-3kQ" not in repr(connected(options | {"kafka.ssl.cipher.suites": "x"}))


# --- an admin client that does not get through -----------------------------------------------------------------------

SEEN, PROBED = ClusterView({("t", 0): 3}, topic_ids={"t": "A"}), ClusterView({("t", 0): 4})


class Answers:
    """What the two adapters answer, look after look; an error is raised."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *looks: ClusterView | LakestreamsError) -> None:
        self.looks, self.asked = list(looks), 0
        monkeypatch.setattr(AdminCluster, "view", self._admin)
        monkeypatch.setattr(ProbeCluster, "view", lambda probe, *_: replace(PROBED, unchecked=probe.unchecked))
        monkeypatch.setattr(AdminCluster, "topic_ids", lambda *_: self._admin().topic_ids)

    def _admin(self, *_: Any) -> ClusterView:
        self.asked += 1
        found = self.looks.pop(0)
        if isinstance(found, ClusterView):
            return found
        raise found


def both() -> AdminFirst:
    found = connected(KafkaOptions("a:1", {"security.protocol": "SSL"}).spark_options())
    assert isinstance(found, AdminFirst)
    return found


@pytest.mark.parametrize("error", [SignInFailed("refused"), BrokerUnreachable("no answer")])
def test_sparks_source_takes_the_place_of_a_client_that_does_not_get_through(
    monkeypatch: pytest.MonkeyPatch, error: LakestreamsError
) -> None:
    answers, cluster_ = Answers(monkeypatch, error), both()
    for _ in range(3):
        view = cluster_.view(["t"])
        assert view.ends == PROBED.ends
        assert error.message in view.unchecked
        assert cluster_.topic_ids(["t"]) == {}
    assert answers.asked == 1, "it is not tried again"


def test_a_client_that_has_got_through_once_is_tried_at_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    away = BrokerUnreachable("no answer")
    answers, cluster_ = Answers(monkeypatch, SEEN, away, away, SEEN), both()
    assert cluster_.view(["t"]) == SEEN
    assert cluster_.view(["t"]).unchecked
    assert cluster_.topic_ids(["t"]) == {}
    assert cluster_.view(["t"]) == SEEN
    assert answers.asked == 4


@pytest.mark.parametrize("error", [TopicMissing("t does not exist"), RightsMissing("t is not allowed")])
def test_what_kafka_says_of_topics_is_no_reason_to_ask_otherwise(
    monkeypatch: pytest.MonkeyPatch, error: LakestreamsError
) -> None:
    Answers(monkeypatch, error)
    with pytest.raises(type(error)):
        both().view(["t"])


def test_a_service_credential_is_left_to_sparks_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    options = KafkaOptions("a:1", {"client.id": "me"}, "kafka-prod").spark_options()
    probe = connected(options)
    assert isinstance(probe, ProbeCluster), "an admin client cannot sign in with it"
    assert probe.options["databricks.serviceCredential"] == "kafka-prod"
