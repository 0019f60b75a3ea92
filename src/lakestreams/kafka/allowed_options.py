"""The Kafka client options that may be set, each with what its values look like, and why others may not.

Client options are an attack surface: `*.class` options, interceptors and config providers load code, login modules
look names up over the network (CVE-2023-25194, CVE-2025-27818), token endpoints read files (CVE-2025-27817). So what is
not listed here does not get through, whoever wrote it and however deep inside a value it stands (`jaas.py`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, get_args

from lakestreams.errors import KafkaOptionRefused

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
IsolationLevel = Literal["read_committed", "read_uncommitted"]
HTTPS = re.compile(r"https://[A-Za-z0-9.-]+(:\d{1,5})?(/[^\s]*)?\Z")
ANY = re.compile(r"[^\x00]*\Z", re.DOTALL)
HANDLER: Final = "sasl.login.callback.handler.class"
ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
_PACKAGES: Final = ("org.apache.kafka.common.security.", "kafkashaded.org.apache.kafka.common.security.")
_MODULES: Final = ("scram.ScramLoginModule", "plain.PlainLoginModule", "oauthbearer.OAuthBearerLoginModule")
# One class under two names: the first came with Kafka 3.4, the second, which Databricks' pages show, went with 4.0.
_HANDLERS: Final = (
    "oauthbearer.OAuthBearerLoginCallbackHandler",
    "oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
LOGIN_MODULES: Final = tuple(package + module for package in _PACKAGES for module in _MODULES)
CALLBACK_HANDLERS: Final = tuple(package + handler for package in _PACKAGES for handler in _HANDLERS)


def one_of(choices: tuple[str, ...]) -> re.Pattern[str]:
    """The pattern of these values and no others."""
    return re.compile("(?:" + "|".join(map(re.escape, choices)) + r")\Z")


@dataclass(frozen=True)
class AllowedOption:
    """An option of Kafka's consumer or producer that may be set.

    Attributes:
        what: what a value looks like, for messages and docs.
        pattern: what a resolved value must match.
        secret: whether a value is a secret, so that it must be a reference.
    """

    what: str
    pattern: re.Pattern[str]
    secret: bool = False


_NUMBER: Final = AllowedOption("a whole number", re.compile(r"-?\d{1,18}\Z"))
_WORDS: Final = AllowedOption("letters, digits and . _ : , @ / + -", re.compile(r"[A-Za-z0-9._:, @/+-]*\Z"))
_PATH: Final = AllowedOption("an absolute path", re.compile(r"/[^\x00-\x1f]*\Z"))
_CERTIFICATES: Final = AllowedOption("PEM certificates", ANY)
SECRET: Final = AllowedOption("a reference to a secret", ANY, secret=True)


def _choice(*choices: str) -> AllowedOption:
    return AllowedOption(" or ".join(choices), one_of(choices))


OPTIONS: Final[Mapping[str, AllowedOption]] = MappingProxyType(
    {
        "security.protocol": _choice(*get_args(SecurityProtocol)),
        "isolation.level": _choice(*get_args(IsolationLevel)),
        "sasl.mechanism": _choice(*get_args(SaslMechanism)),
        "sasl.jaas.config": AllowedOption(
            "one login module of Kafka's own, its secrets by reference", ANY, secret=True
        ),
        # the one option that names a class: without that handler Kafka's clients ask no token endpoint
        HANDLER: AllowedOption("Kafka's own handler for token endpoints", one_of(CALLBACK_HANDLERS)),
        ENDPOINT: AllowedOption("an https:// address", HTTPS),
        "sasl.oauthbearer.scope.claim.name": _WORDS,
        "sasl.oauthbearer.sub.claim.name": _WORDS,
        "ssl.endpoint.identification.algorithm": _choice("https"),
        "ssl.protocol": _choice("TLSv1.2", "TLSv1.3"),
        "ssl.enabled.protocols": _choice("TLSv1.2", "TLSv1.3", "TLSv1.2,TLSv1.3", "TLSv1.3,TLSv1.2"),
        "ssl.cipher.suites": _WORDS,
        "ssl.truststore.type": _choice("JKS", "PKCS12", "PEM"),
        "ssl.truststore.location": _PATH,
        "ssl.truststore.certificates": _CERTIFICATES,
        "ssl.truststore.password": SECRET,
        "ssl.keystore.type": _choice("JKS", "PKCS12", "PEM"),
        "ssl.keystore.location": _PATH,
        "ssl.keystore.certificate.chain": _CERTIFICATES,
        "ssl.keystore.key": SECRET,
        "ssl.keystore.password": SECRET,
        "ssl.key.password": SECRET,
        "client.dns.lookup": _choice("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        "client.id": _WORDS,
        "client.rack": _WORDS,
        "check.crcs": _choice("true", "false"),
        **dict.fromkeys(
            (
                "batch.size",
                "buffer.memory",
                "connections.max.idle.ms",
                "default.api.timeout.ms",
                "delivery.timeout.ms",
                "fetch.max.bytes",
                "fetch.max.wait.ms",
                "fetch.min.bytes",
                "heartbeat.interval.ms",
                "max.partition.fetch.bytes",
                "max.poll.interval.ms",
                "max.poll.records",
                "max.request.size",
                "metadata.max.age.ms",
                "receive.buffer.bytes",
                "reconnect.backoff.max.ms",
                "reconnect.backoff.ms",
                "request.timeout.ms",
                "retry.backoff.max.ms",
                "retry.backoff.ms",
                "sasl.login.connect.timeout.ms",
                "sasl.login.read.timeout.ms",
                "sasl.login.retry.backoff.max.ms",
                "sasl.login.retry.backoff.ms",
                "send.buffer.bytes",
                "session.timeout.ms",
                "socket.connection.setup.timeout.max.ms",
                "socket.connection.setup.timeout.ms",
            ),
            _NUMBER,
        ),
    }
)
"""Each name that may be set, without `kafka.` in front."""
DEFAULTS: Final[Mapping[str, str]] = MappingProxyType({"isolation.level": "read_committed"})
_WHY_NOT: Final = (
    (re.compile(r".*(\.|^)(class|classes)\Z|.*(interceptor|config\.providers|reporters|deserializer|assignment)"),
     "options that name classes load code"),
    (re.compile(r".*(callback|engine\.factory|provider)"), "options that name classes load code"),
    (re.compile(r"(group\.id|auto\.offset\.reset|enable\.auto\.commit|group\.|.*\.assign|subscribe.*|bootstrap\.servers)"),
     "lakestreams sets it itself"),
)  # fmt: skip


def refused(name: str) -> KafkaOptionRefused:
    """Why a name may not be set, with what to write in its place where that is known."""
    bare = name.removeprefix("kafka.")
    if bare != name and bare in OPTIONS:
        return KafkaOptionRefused(f"the option {name!r} is not known", hint=f"leave the prefix out: {bare}")
    for pattern, why in _WHY_NOT:
        if pattern.match(bare):
            return KafkaOptionRefused(f"the option {name!r} is refused: {why}")
    near = difflib.get_close_matches(bare, OPTIONS, n=1)
    hint = f"did you mean {near[0]}? The allow-list: lakestreams explain kafka-options" if near else None
    return KafkaOptionRefused(f"the option {name!r} is not on the allow-list", hint=hint)
