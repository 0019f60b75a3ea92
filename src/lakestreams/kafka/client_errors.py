"""What Kafka's clients say when they do not get through, as errors that name the options to look at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from lakestreams.errors import BrokerUnreachable, LakestreamsError, RightsMissing, SignInFailed, TopicMissing

# Errors of Kafka's Java client that is not let in, and the options to look at.
_NOT_LET_IN: Final = {
    "UnsupportedSaslMechanismException": "use a sasl.mechanism that the listener offers, and its login module in sasl.jaas.config",
    "IllegalSaslStateException": "that listener has no SASL sign-in: check security.protocol and the port in bootstrap_servers",
    "SaslAuthenticationException": "check user name and password, or token, in sasl.jaas.config, the secrets it refers to, and sasl.mechanism",
    "SslAuthenticationException|SSLHandshakeException": "check ssl.truststore.* (the trusted certificates), "
    "bootstrap_servers (its names must be in the certificate), and ssl.keystore.* if clients need a certificate",
}
# Why there is no client, as the causes of _NO_CLIENT tell it, and the options to look at; first match first.
_NO_CLIENT: Final = re.compile("Failed to (?:create new KafkaAdminClient|construct kafka)")
_NOT_CREATED: Final = {
    "No LoginModule found|nable to find LoginModule class": "check the login module in sasl.jaas.config: on "
    "Databricks its name begins with kafkashaded., elsewhere it does not",
    "LoginException|(?i:jaas)": "check sasl.jaas.config, sasl.mechanism and, for tokens, sasl.oauthbearer.* and sasl.login.*",
    "(?i:keystore|truststore)|SSL|PEM": "check ssl.*: driver and executors must be able to read the files; their types and passwords must be right",
}
_NOT_ALLOWED: Final = re.compile(r"(?:Topic|Group|Cluster)AuthorizationException.*")
_CAUSE: Final = re.compile(r"(?m)^Caused by: (.*)$")
_PACKAGES: Final = re.compile(r"\b(?:[a-z]\w*\.)+(?=[A-Z]\w*(?:Exception|Error)\b)")


def fault(error: Exception, servers: str, topics: Sequence[str]) -> LakestreamsError | None:
    """What the Java client's error, wrapped by Spark, comes to; None where it is neither the network nor a right."""
    text = str(error)
    found = not_let_in(error, servers) or rights_missing(text, topics)
    if found is None and ("TimeoutException" in text or "Timed out" in text or "timed out" in text):
        return unreachable(servers, "no answer in time")
    return found


def not_let_in(error: Exception, servers: str) -> LakestreamsError | None:
    """What keeps the Java client out, as its error, wrapped by Spark, says; None where it says nothing of the kind."""
    text = str(error)
    if _NO_CLIENT.search(text):
        causes = _causes(error)
        if any("bootstrap" in cause for cause in causes):
            return unreachable(servers, causes[-1])
        hints = (hint for pattern, hint in _NOT_CREATED.items() if re.search(pattern, "\n".join(causes)))
        why = ": ".join(causes[-2:])
        return SignInFailed(f"Kafka's client cannot start with these options: {why}", hint=next(hints, None))
    for pattern, hint in _NOT_LET_IN.items():
        found = re.search(rf"(?:{pattern}).*", text)
        if found:
            said = found[0].partition(" SQLSTATE: ")[0]
            return SignInFailed(f"Kafka at {servers} refuses the sign-in: {said}", hint=hint)
    return None


def rights_missing(text: str, topics: Sequence[str]) -> RightsMissing | None:
    """What Kafka's Java client says is not allowed, which mostly names no topic; None where it says nothing of the kind."""
    found = _NOT_ALLOWED.search(text)
    return None if found is None else denied(topics, found[0].partition(" SQLSTATE: ")[0])


def denied(topics: Sequence[str], said: str) -> RightsMissing:
    """The error of topics that may not be used; where there are several, Kafka does not say which."""
    which = topics[0] if len(topics) == 1 else f"one of {', '.join(topics)}"
    return RightsMissing(f"Kafka does not allow the pipeline to use {which}: {said}")


def _causes(error: Exception) -> list[str]:
    """The causes in the JVM's trace, outermost first, which the error's own text leaves out; each once, without packages."""
    trace = getattr(error, "_stackTrace", None) or getattr(error, "_stacktrace", None) or ""  # classic, Spark Connect
    found = [_PACKAGES.sub("", cause) for cause in _CAUSE.findall(trace) or [str(error).partition("\n")[0]]]
    return [
        cause for cause, inner in zip(found, [*found[1:], ""], strict=True) if not inner or not cause.endswith(inner)
    ]


def topics_missing(topics: list[str], servers: str) -> TopicMissing:
    """The error of topics that do not exist."""
    one = len(topics) == 1
    return TopicMissing(f"topic{'' if one else 's'} {', '.join(topics)} do{'es' if one else ''} not exist on {servers}")


def unreachable(servers: str, why: str) -> BrokerUnreachable:
    """The error of brokers that do not answer."""
    return BrokerUnreachable(f"no broker answers at {servers}: {why}")
