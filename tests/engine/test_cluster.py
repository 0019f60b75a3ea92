"""Which adapter looks at the cluster, and what errors come to: decided by options and texts, so no test here needs Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from lakestreams.config.kafka import KafkaOptions
from lakestreams.engine import cluster
from lakestreams.engine.cluster import AdminCluster, Cluster, ClusterView, ProbeCluster, _fault, connect
from lakestreams.errors import BrokerUnreachable, LakestreamsError, RightsMissing, SignInFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def connected(options: dict[str, str]) -> Cluster:
    """The adapter for these options; no session is needed to choose it."""
    return connect(cast("SparkSession", None), options, Path("scratch"))


def test_an_admin_client_takes_what_means_the_same_to_it() -> None:
    options = KafkaOptions("a:1", {"client.id": "me"}).spark_options()
    assert connected(options) == AdminCluster("a:1")


@pytest.mark.parametrize("option", ["security.protocol", "sasl.mechanism", "ssl.truststore.location"])
def test_other_options_of_kafkas_clients_are_left_to_sparks_source(option: str) -> None:
    values = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "ssl.truststore.location": "/a"}
    options = KafkaOptions("a:1", {option: values[option]}).spark_options()
    probe = connected(options)
    assert isinstance(probe, ProbeCluster)
    assert probe.options == options


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
    monkeypatch.setattr(cluster, "_TIMEOUT_S", 0.3)
    monkeypatch.setattr(AdminCluster, "_asked", refuse(KafkaError.NOT_LEADER_FOR_PARTITION))
    with pytest.raises(BrokerUnreachable):
        AdminCluster("127.0.0.1:1").view(["t"])
    assert len(asked) > 2
