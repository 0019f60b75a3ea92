"""Which adapter looks at the cluster, and what errors come to: decided by options and texts, so no test here needs Spark."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from tests.engine.secured import PLAIN

from lakestreams.errors import BrokerUnreachable, LakestreamsError, RightsMissing, SignInFailed, TopicMissing
from lakestreams.kafka.cluster import AdminCluster, AdminFirst, Cluster, ClusterView, ProbeCluster, _fault, connect
from lakestreams.kafka.options import KafkaOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def connected(options: dict[str, str]) -> Cluster:
    """The adapter for these options; no session is needed to choose it."""
    return connect(cast("SparkSession", None), options, Path("scratch"))


def test_an_admin_client_takes_what_means_the_same_to_it() -> None:
    options = KafkaOptions("a:1", {"client.id": "me"}).spark_options()
    assert connected(options) == AdminCluster("a:1")


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


STARTED = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "


class Failed(Exception):
    """As Spark raises it: the causes are in the trace alone."""

    def __init__(self, said: str, *causes: str) -> None:
        super().__init__(f"{STARTED}{said} SQLSTATE: XXKST\n=== Streaming Query ===\nCurrent State: ACTIVE")
        self._stackTrace = "".join(f"Caused by: {cause}\n\tat org.apache.kafka.A.b(A.java:1)\n" for cause in causes)


NO_CLIENT = "Failed to create new KafkaAdminClient"
ERRORS, KAFKA = "org.apache.kafka.common.errors.", "org.apache.kafka.common.KafkaException: "


@pytest.mark.parametrize(
    ("error", "kind", "told", "hint"),
    [
        (
            Failed(
                f"kafkashaded.{ERRORS}SaslAuthenticationException: Authentication failed: Invalid username or password"
            ),
            SignInFailed,
            (
                "Kafka at a:1 does not let the pipeline in: SaslAuthenticationException: Authentication failed: "
                "Invalid username or password"
            ),
            "password or token in sasl.jaas.config",
        ),
        (
            Failed(
                f"{ERRORS}UnsupportedSaslMechanismException: Client SASL mechanism 'PLAIN' not enabled in the server"
            ),
            SignInFailed,
            (
                "Kafka at a:1 does not let the pipeline in: UnsupportedSaslMechanismException: Client SASL mechanism 'PLAIN' "
                "not enabled in the server"
            ),
            "sasl.mechanism is to be one that the listener has",
        ),
        (
            Failed(f"{ERRORS}IllegalSaslStateException: Unexpected handshake request with client mechanism PLAIN"),
            SignInFailed,
            (
                "Kafka at a:1 does not let the pipeline in: IllegalSaslStateException: Unexpected handshake request with "
                "client mechanism PLAIN"
            ),
            "security.protocol",
        ),
        (
            Failed(f"{ERRORS}SslAuthenticationException: SSL handshake failed"),
            SignInFailed,
            "Kafka at a:1 does not let the pipeline in: SslAuthenticationException: SSL handshake failed",
            "ssl.truststore",
        ),
        (
            Failed(
                NO_CLIENT,
                f"{KAFKA}{NO_CLIENT}",
                f"{KAFKA}javax.security.auth.login.LoginException: No LoginModule found for a.B",
                "javax.security.auth.login.LoginException: No LoginModule found for a.B",
            ),
            SignInFailed,
            (
                f"Kafka's client cannot be made of the options: KafkaException: {NO_CLIENT}: LoginException: No LoginModule "
                "found for a.B"
            ),
            "kafkashaded.",
        ),
        (
            Failed(
                NO_CLIENT,
                f"{KAFKA}{NO_CLIENT}",
                f"{KAFKA}Failed to load SSL keystore /nowhere of type JKS",
                "java.nio.file.NoSuchFileException: /nowhere",
            ),
            SignInFailed,
            (
                "Kafka's client cannot be made of the options: KafkaException: Failed to load SSL keystore /nowhere of type "
                "JKS: NoSuchFileException: /nowhere"
            ),
            "look at ssl.*",
        ),
        (
            Failed(NO_CLIENT),  # of a server that keeps its traces to itself
            SignInFailed,
            f"Kafka's client cannot be made of the options: {STARTED}{NO_CLIENT} SQLSTATE: XXKST",
            SignInFailed.hint,
        ),
        (
            Failed(
                NO_CLIENT,
                "org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls given in bootstrap.servers",
            ),
            BrokerUnreachable,
            "no broker answers at a:1: ConfigException: No resolvable bootstrap urls given in bootstrap.servers",
            "bootstrap_servers",
        ),
        (
            Failed(f"{ERRORS}TopicAuthorizationException: Topic authorization failed."),
            RightsMissing,
            "Kafka does not allow the pipeline to use one of a, b: TopicAuthorizationException: Topic authorization failed.",
            "kafka-acls",
        ),
        (
            Failed(f"{ERRORS}TimeoutException: Timed out waiting for a node assignment. Call: listNodes"),
            BrokerUnreachable,
            "no broker answers at a:1: no answer in time",
            "security.protocol",
        ),
    ],
)
def test_what_kafkas_client_says_is_an_error_of_ours_that_names_options(
    error: Failed, kind: type[LakestreamsError], told: str, hint: str
) -> None:
    """The texts are those of Spark 4.2 with Kafka's clients 3.9 (test_canary has the real ones)."""
    found = _fault(error, "a:1", ["a", "b"])
    assert type(found) is kind
    assert found.message == told
    assert hint in found.hint


def test_any_other_error_stays_what_it_is() -> None:
    assert _fault(Failed("java.lang.OutOfMemoryError: SSL, JAAS and keystores have no part in it"), "a:1", []) is None


# --- what passes -----------------------------------------------------------------------------------------------------


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
