"""Options of Spark's Kafka source as librdkafka has them, so that an admin client signs in wherever Spark does.

Kafka's Java client and librdkafka mean the same by many options, name some differently, and keep keys and certificates in
other files. What has no counterpart is left to Spark alone: then nobody can ask for topic ids (decision 0029).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from lakestreams.kafka import jaas

Conf = dict[str, Any]
_KAFKA: Final = "kafka."
_SERVERS: Final = "bootstrap.servers"
SECRETS: Final = (
    "sasl.password",
    "sasl.oauthbearer.client.secret",
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.key.pem",
)

# Options that decide how records are read and written, and no others; an admin client does neither.
_NOT_FOR_ADMINS: Final = frozenset({
    "batch.size", "buffer.memory", "check.crcs", "client.rack", "default.api.timeout.ms", "delivery.timeout.ms",
    "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes", "heartbeat.interval.ms", "isolation.level",
    "max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records", "max.request.size", "request.timeout.ms",
    "session.timeout.ms", "socket.connection.setup.timeout.max.ms",
    # how often Java's own login tries again; librdkafka has its own timing
    "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    # the one handler that is let through is Java's for token endpoints; the endpoint's address says the same to librdkafka
    "sasl.login.callback.handler.class",
    "sasl.oauthbearer.scope.claim.name",
    # TLS versions: OpenSSL takes 1.2 and 1.3; a choice of one of them is left to Spark, see _tls_versions
    "ssl.protocol",
})  # fmt: skip
_SAME: Final = frozenset({
    "client.id", "client.dns.lookup", "sasl.mechanism", "security.protocol", "ssl.endpoint.identification.algorithm",
})  # fmt: skip
# Numbers: librdkafka's name and the bounds outside of which it makes no client.
_NUMBERS: Final[Mapping[str, tuple[str, int, int]]] = MappingProxyType({
    "connections.max.idle.ms": ("connections.max.idle.ms", 0, 2_147_483_647),
    "metadata.max.age.ms": ("metadata.max.age.ms", 1, 86_400_000),
    "receive.buffer.bytes": ("socket.receive.buffer.bytes", 0, 100_000_000),
    "reconnect.backoff.max.ms": ("reconnect.backoff.max.ms", 0, 3_600_000),
    "reconnect.backoff.ms": ("reconnect.backoff.ms", 0, 3_600_000),
    "retry.backoff.max.ms": ("retry.backoff.max.ms", 1, 300_000),
    "retry.backoff.ms": ("retry.backoff.ms", 1, 300_000),
    "send.buffer.bytes": ("socket.send.buffer.bytes", 0, 100_000_000),
    "socket.connection.setup.timeout.ms": ("socket.connection.setup.timeout.ms", 1_000, 2_147_483_647),
})  # fmt: skip
# Options that stand together; each group is translated as one.
_SIGN_IN: Final = frozenset({"sasl.jaas.config", "sasl.oauthbearer.token.endpoint.url"})
_TRUSTED: Final = frozenset({
    "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.certificates", "ssl.truststore.password",
})  # fmt: skip
_SHOWN: Final = frozenset({
    "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.keystore.key",
    "ssl.keystore.password", "ssl.key.password",
})  # fmt: skip
_VERSIONS: Final = "ssl.enabled.protocols"
TRANSLATED: Final = frozenset({*_NOT_FOR_ADMINS, *_SAME, *_NUMBERS, *_SIGN_IN, *_TRUSTED, *_SHOWN, _VERSIONS, _SERVERS})
"""The names, without `kafka.`, that an admin client can do with; every other one is of Spark alone."""


class OfSparkAlone(Exception):
    """Why options make no admin client; never holds a value that may be secret."""


def translated(options: Mapping[str, str]) -> Conf:
    """The configuration of an admin client that means the same.

    Args:
        options: of Spark's Kafka source, secrets resolved; those of Kafka's clients have `kafka.` in front.

    Raises:
        OfSparkAlone: if librdkafka has no counterpart.
    """
    own = {name.removeprefix(_KAFKA): value for name, value in options.items() if name.startswith(_KAFKA)}
    others = [name for name in options if not name.startswith(_KAFKA)]
    others += [name for name in own if name not in TRANSLATED]
    if others:
        raise OfSparkAlone(f"only Spark's client understands {', '.join(others)}")
    conf: Conf = {name: own[name] for name in (_SERVERS, *sorted(_SAME)) if name in own}
    for name, (there, least, most) in _NUMBERS.items():
        if name in own:
            conf[there] = min(max(int(own[name]), least), most)
    _tls_versions(own)
    return conf | _signed_in(own) | _trusting(own) | _showing(own)


def timeout_s(options: Mapping[str, str], most_s: float) -> float:
    """How long to wait for answers: what the options say for a whole call, or for a request, and no more than this."""
    told = [options.get(f"{_KAFKA}{name}") for name in ("default.api.timeout.ms", "request.timeout.ms")]
    return min([most_s, *(max(int(one) / 1_000, 1.0) for one in told if one is not None)])


def scrubbed(text: str, conf: Mapping[str, Any]) -> str:
    """A text of librdkafka's without the secrets of its configuration."""
    for name in SECRETS:
        if conf.get(name):
            text = text.replace(str(conf[name]), "***")
    return text


def _tls_versions(own: Mapping[str, str]) -> None:
    """Refuses a choice of TLS versions that librdkafka would not keep to."""
    if len(set(own.get(_VERSIONS, "TLSv1.2,TLSv1.3").split(","))) == 1:
        raise OfSparkAlone(f"{_VERSIONS} names one version of TLS, which librdkafka cannot be held to")


# --- signing in ------------------------------------------------------------------------------------------------------


def _signed_in(own: Mapping[str, str]) -> Conf:
    if "sasl.jaas.config" not in own:
        return {}
    module, entry = jaas.parsed(own["sasl.jaas.config"])
    if module.startswith("kafkashaded.") and "DATABRICKS_RUNTIME_VERSION" not in os.environ:
        raise OfSparkAlone("the login module's name begins with kafkashaded., which is a name of Databricks alone")
    return _MODULES[module.rpartition(".")[2]](entry, own)


def _by_password(entry: Mapping[str, str], _: Mapping[str, str]) -> Conf:
    if entry.get("tokenauth") == "true":
        raise OfSparkAlone("librdkafka cannot sign in by delegation token (tokenauth)")
    return {f"sasl.{name}": entry[name] for name in ("username", "password") if name in entry}


def _by_token(entry: Mapping[str, str], own: Mapping[str, str]) -> Conf:
    endpoint = own.get("sasl.oauthbearer.token.endpoint.url")
    if endpoint is None or not {"clientId", "clientSecret"} <= entry.keys():
        raise OfSparkAlone("librdkafka asks a token endpoint with client id and secret, and these options have none")
    others = sorted(name for name in entry if name.startswith("ssl."))
    if others:
        raise OfSparkAlone(
            f"librdkafka takes {', '.join(others)} for all connections, not for the token endpoint alone"
        )
    extensions = ",".join(
        f"{name.removeprefix('extension_')}={value}" for name, value in entry.items() if name.startswith("extension_")
    )
    conf = {
        "method": "oidc",
        "client.id": entry["clientId"],
        "client.secret": entry["clientSecret"],
        "token.endpoint.url": endpoint,
    }
    more = {"scope": entry.get("scope"), "extensions": extensions or None}
    told = conf | {name: value for name, value in more.items() if value is not None}
    return {f"sasl.oauthbearer.{name}": value for name, value in told.items()}


_MODULES: Final[Mapping[str, Callable[[Mapping[str, str], Mapping[str, str]], Conf]]] = MappingProxyType({
    "PlainLoginModule": _by_password, "ScramLoginModule": _by_password, "OAuthBearerLoginModule": _by_token,
})  # fmt: skip


# --- certificates ----------------------------------------------------------------------------------------------------


def _trusting(own: Mapping[str, str]) -> Conf:
    if "ssl.truststore.certificates" in own:
        return {"ssl.ca.pem": own["ssl.truststore.certificates"]}
    location = own.get("ssl.truststore.location")
    if location is None:
        return {}
    if own.get("ssl.truststore.type") == "PEM":
        _content(location, "truststore")
        return {"ssl.ca.location": location}
    return {"ssl.ca.pem": _certificates(_pkcs12(location, "truststore"), own.get("ssl.truststore.password"))}


def _showing(own: Mapping[str, str]) -> Conf:
    password = {"ssl.key.password": own["ssl.key.password"]} if "ssl.key.password" in own else {}
    if "ssl.keystore.certificate.chain" in own:
        key = {"ssl.key.pem": own["ssl.keystore.key"]} if "ssl.keystore.key" in own else {}
        return {"ssl.certificate.pem": own["ssl.keystore.certificate.chain"]} | key | password
    location = own.get("ssl.keystore.location")
    if location is None:
        return {}
    if (
        own.get("ssl.keystore.type") == "PEM"
    ):  # one file with key and certificates: librdkafka takes of it what it looks for
        _content(location, "keystore")
        return {"ssl.certificate.location": location, "ssl.key.location": location} | password
    _pkcs12(location, "keystore")
    with_password = {"ssl.keystore.password": own["ssl.keystore.password"]} if "ssl.keystore.password" in own else {}
    return {"ssl.keystore.location": location} | with_password


def _content(location: str, what: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise OfSparkAlone(f"the {what} cannot be read here: {type(error).__name__}") from error


def _pkcs12(location: str, what: str) -> bytes:
    """A store's content, if it is PKCS #12: what Java's keytool makes since Java 9, also under the name JKS."""
    content = _content(location, what)
    if content[:1] != b"\x30":  # DER's sign for a sequence; a JKS store begins with FE ED FE ED
        raise OfSparkAlone(f"the {what} is no PKCS12 store and not of type PEM, and librdkafka reads no other")
    return content


def _certificates(store: bytes, password: str | None) -> str:
    """The certificates of a PKCS #12 truststore as PEM text."""
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, pkcs12  # noqa: PLC0415 - not on all compute

        loaded = pkcs12.load_pkcs12(store, None if password is None else password.encode())
        found = [one.certificate.public_bytes(Encoding.PEM).decode() for one in loaded.additional_certs]
    except ImportError as error:
        raise OfSparkAlone(
            "the truststore is PKCS12, which the package cryptography would read: it is not installed"
        ) from error
    except Exception as error:
        raise OfSparkAlone("the PKCS12 truststore cannot be read with its password") from error
    if not found:
        raise OfSparkAlone("the PKCS12 truststore holds no certificate that librdkafka could trust")
    return "".join(found)
