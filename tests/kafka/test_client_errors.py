"""What errors of Kafka's clients come to: decided by their texts, so no test here needs Spark or a broker."""

from __future__ import annotations

import pytest

from lakestreams.errors import BrokerUnreachable, LakestreamsError, RightsMissing, SignInFailed
from lakestreams.kafka.client_errors import fault

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
                "Kafka at a:1 refuses the sign-in: SaslAuthenticationException: Authentication failed: "
                "Invalid username or password"
            ),
            "password, or token, in sasl.jaas.config",
        ),
        (
            Failed(
                f"{ERRORS}UnsupportedSaslMechanismException: Client SASL mechanism 'PLAIN' not enabled in the server"
            ),
            SignInFailed,
            (
                "Kafka at a:1 refuses the sign-in: UnsupportedSaslMechanismException: Client SASL mechanism 'PLAIN' "
                "not enabled in the server"
            ),
            "a sasl.mechanism that the listener offers",
        ),
        (
            Failed(f"{ERRORS}IllegalSaslStateException: Unexpected handshake request with client mechanism PLAIN"),
            SignInFailed,
            (
                "Kafka at a:1 refuses the sign-in: IllegalSaslStateException: Unexpected handshake request with "
                "client mechanism PLAIN"
            ),
            "security.protocol",
        ),
        (
            Failed(f"{ERRORS}SslAuthenticationException: SSL handshake failed"),
            SignInFailed,
            "Kafka at a:1 refuses the sign-in: SslAuthenticationException: SSL handshake failed",
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
                f"Kafka's client cannot start with these options: KafkaException: {NO_CLIENT}: LoginException: No LoginModule "
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
                "Kafka's client cannot start with these options: KafkaException: Failed to load SSL keystore /nowhere of type "
                "JKS: NoSuchFileException: /nowhere"
            ),
            "check ssl.*",
        ),
        (
            Failed(NO_CLIENT),  # of a server that keeps its traces to itself
            SignInFailed,
            f"Kafka's client cannot start with these options: {STARTED}{NO_CLIENT} SQLSTATE: XXKST",
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
    found = fault(error, "a:1", ["a", "b"])
    assert type(found) is kind
    assert found.message == told
    assert hint in found.hint


def test_any_other_error_stays_what_it_is() -> None:
    assert fault(Failed("java.lang.OutOfMemoryError: SSL, JAAS and keystores have no part in it"), "a:1", []) is None
