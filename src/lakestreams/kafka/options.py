"""Kafka client options: an allow-list of names, secrets by reference, and the scrubbing of what was resolved.

Client options are an attack surface: `*.class` options, interceptors and config providers load code, login modules
look names up over the network (CVE-2023-25194, CVE-2025-27818), token endpoints read files (CVE-2025-27817). Entries of
login modules hold options of their own, which Kafka takes for the connection to a token endpoint. So what is not listed
here does not get through, whoever wrote it and however deep inside a value it stands.
"""

from __future__ import annotations

import base64
import difflib
import importlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Literal, NoReturn, TypeAlias, get_args
from urllib.parse import quote, quote_plus

from lakestreams.errors import KafkaOptionRefused, LakestreamsError, SecretUnresolved, TopologyInvalid

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
IsolationLevel = Literal["read_committed", "read_uncommitted"]

SecretResolver: TypeAlias = Callable[[str, str], str | None]
"""From a secret's scope and key to its value, or None where there is none."""

_NUMBER = re.compile(r"-?\d{1,18}\Z")
_WORDS = re.compile(r"[A-Za-z0-9._:, @/+-]*\Z")
_PATH = re.compile(r"/[^\x00-\x1f]*\Z")
_HTTPS = re.compile(r"https://[A-Za-z0-9.-]+(:\d{1,5})?(/[^\s]*)?\Z")
_CREDENTIAL = re.compile(r"[A-Za-z0-9_-]{1,255}\Z")
_ANY = re.compile(r"[^\x00]*\Z", re.DOTALL)

_HANDLER: Final = "sasl.login.callback.handler.class"
_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
_PACKAGES: Final = ("org.apache.kafka.common.security.", "kafkashaded.org.apache.kafka.common.security.")
_MODULES: Final = ("scram.ScramLoginModule", "plain.PlainLoginModule", "oauthbearer.OAuthBearerLoginModule")
# One class under two names: the first came with Kafka 3.4, the second, which Databricks' pages show, went with 4.0.
_HANDLERS: Final = (
    "oauthbearer.OAuthBearerLoginCallbackHandler",
    "oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
LOGIN_MODULES: Final = tuple(package + module for package in _PACKAGES for module in _MODULES)
CALLBACK_HANDLERS: Final = tuple(package + handler for package in _PACKAGES for handler in _HANDLERS)
# Options of Spark's source and sink on Databricks, which therefore have no `kafka.` in front.
SERVICE_CREDENTIAL: Final = "databricks.serviceCredential"
SERVICE_CREDENTIAL_SCOPE: Final = "databricks.serviceCredential.scope"


def _one_of(choices: tuple[str, ...]) -> re.Pattern[str]:
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


def _options() -> dict[str, AllowedOption]:
    number = AllowedOption("a whole number", _NUMBER)
    words = AllowedOption("letters, digits and . _ : , @ / + -", _WORDS)
    path = AllowedOption("an absolute path", _PATH)
    secret = AllowedOption("a reference to a secret", _ANY, secret=True)

    def choice(choices: tuple[str, ...]) -> AllowedOption:
        return AllowedOption(" or ".join(choices), _one_of(choices))

    return {
        "security.protocol": choice(get_args(SecurityProtocol)),
        "isolation.level": choice(get_args(IsolationLevel)),
        "sasl.mechanism": choice(get_args(SaslMechanism)),
        "sasl.jaas.config": AllowedOption(
            "one login module of Kafka's own, its secrets by reference", _ANY, secret=True
        ),
        # the one option that names a class: without that handler Kafka's clients ask no token endpoint
        _HANDLER: AllowedOption("Kafka's own handler for token endpoints", _one_of(CALLBACK_HANDLERS)),
        _ENDPOINT: AllowedOption("an https:// address", _HTTPS),
        "sasl.oauthbearer.scope.claim.name": words,
        "sasl.oauthbearer.sub.claim.name": words,
        "ssl.endpoint.identification.algorithm": choice(("https",)),
        "ssl.protocol": choice(("TLSv1.2", "TLSv1.3")),
        "ssl.enabled.protocols": choice(("TLSv1.2", "TLSv1.3", "TLSv1.2,TLSv1.3", "TLSv1.3,TLSv1.2")),
        "ssl.cipher.suites": words,
        "ssl.truststore.type": choice(("JKS", "PKCS12", "PEM")),
        "ssl.truststore.location": path,
        "ssl.truststore.certificates": AllowedOption("PEM certificates", _ANY),
        "ssl.truststore.password": secret,
        "ssl.keystore.type": choice(("JKS", "PKCS12", "PEM")),
        "ssl.keystore.location": path,
        "ssl.keystore.certificate.chain": AllowedOption("PEM certificates", _ANY),
        "ssl.keystore.key": secret,
        "ssl.keystore.password": secret,
        "ssl.key.password": secret,
        "client.dns.lookup": choice(("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
        "client.id": words,
        "client.rack": words,
        "check.crcs": choice(("true", "false")),
        **dict.fromkeys(
            (
                "batch.size",
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
            number,
        ),
    }


OPTIONS: Final[Mapping[str, AllowedOption]] = MappingProxyType(_options())
DEFAULTS: Final[Mapping[str, str]] = MappingProxyType({"isolation.level": "read_committed"})

_WHY_NOT: Final = (
    (re.compile(r".*(\.|^)(class|classes)\Z|.*(interceptor|config\.providers|reporters|deserializer|assignment)"),
     "options that name classes load code"),
    (re.compile(r".*(callback|engine\.factory|provider)"), "options that name classes load code"),
    (re.compile(r"(group\.id|auto\.offset\.reset|enable\.auto\.commit|group\.|.*\.assign|subscribe.*|bootstrap\.servers)"),
     "lakestreams sets it itself"),
)  # fmt: skip


class Secret:
    """A resolved secret. However it is printed, it prints `***`; `reveal()` is the one way to its value."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value, for the one place that needs it."""
        return self._value

    def __repr__(self) -> str:
        """Never the value."""
        return "***"

    __str__ = __repr__

    def __format__(self, _spec: str) -> str:
        """Never the value, and never its length."""
        return "***"

    def __eq__(self, other: object) -> bool:
        """By value."""
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        """By value."""
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        """Refuses to be pickled: a pickle is a place where secrets are found."""
        msg = "a resolved secret is not pickled; pickle the reference"
        raise TypeError(msg)


# --- references ----------------------------------------------------------------------------------------------------

_SECRET = r"secret://(?P<scope>[A-Za-z0-9_.-]+)/(?P<key>[A-Za-z0-9_.-]+)"  # noqa: S105 - a pattern
_VARIABLE = r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}"
_REFERENCE = re.compile(f"{_SECRET}|{_VARIABLE}")


def resolve_locally(scope: str, key: str) -> str | None:
    """The secret from the environment: `LAKESTREAMS_SECRET_<SCOPE>_<KEY>`, other signs than letters and digits as _."""
    return os.environ.get(secret_variable(scope, key))


def secret_variable(scope: str, key: str) -> str:
    """The environment variable that holds a secret outside of Databricks."""
    return "LAKESTREAMS_SECRET_" + re.sub(r"[^A-Za-z0-9]", "_", f"{scope}_{key}").upper()


def resolve_on_databricks(scope: str, key: str) -> str | None:
    """The secret from the workspace's scope; None where there is none, or where it may not be read."""
    runtime = importlib.import_module("databricks.sdk.runtime")
    try:
        return str(runtime.dbutils.secrets.get(scope, key))
    except Exception:  # noqa: BLE001 - dbutils raises JVM and SDK errors of many types, some with the request in them
        return None


def default_resolver(scope: str, key: str) -> str | None:
    """The environment first, so that a test can stand in; then the workspace, on Databricks."""
    value = resolve_locally(scope, key)
    if value is None and "DATABRICKS_RUNTIME_VERSION" in os.environ:
        return resolve_on_databricks(scope, key)
    return value


# --- JAAS ----------------------------------------------------------------------------------------------------------

# Kafka's clients read an entry by Java's StreamTokenizer: a line's end ends a quoted value, // and /* begin comments, and
# only ASCII white space parts words. What is let through here is what both read in one way.
_JAAS_QUOTED = r"\"(?:[^\"\\\x00-\x1f\x7f]|\\[\\\"'nrt])*\"|'(?:[^'\\\x00-\x1f\x7f]|\\[\\\"'nrt])*'"
_JAAS_VALUE = rf"{_JAAS_QUOTED}|[A-Za-z_][A-Za-z0-9_$.-]*"


def _jaas_patterns(value: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The patterns of a whole entry and of one option in it, for values of this pattern."""
    option = rf"[ \t\r\n]+({{name}}[A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*({{value}}{value})"
    entry = (
        r"[ \t\r\n]*(?P<module>[A-Za-z_][A-Za-z0-9_.$]*)[ \t\r\n]+(?:required|requisite|sufficient|optional)"
        rf"(?P<options>(?:{option.replace('{name}', '?:').replace('{value}', '?:')})*)[ \t\r\n]*;[ \t\r\n]*\Z"
    )
    return re.compile(entry), re.compile(option.replace("{name}", "?P<name>").replace("{value}", "?P<value>"))


_JAAS, _JAAS_OPTION = _jaas_patterns(_JAAS_VALUE)
# as the user writes it a value may be a reference without quotes
_JAAS_AS_WRITTEN, _JAAS_OPTION_AS_WRITTEN = _jaas_patterns(
    rf"{_JAAS_VALUE}|(?:{re.sub(r'[?]P<[a-z]+>', '?:', _REFERENCE.pattern)})"
)
_JAAS_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}
_JAAS_WRITTEN: Final = {"\\": "\\\\", '"': '\\"', "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_JAAS_SECRET = re.compile(r"(?i)password|secret|token|assertion|private|jwt")
# A provider of values as Kafka's clients know them, ${provider:path:key}; it would read files, variables or the network.
_PROVIDED = re.compile(r"\$\{[^}]*:")


@dataclass(frozen=True)
class _JaasOptions:
    """What may be set inside the entry of a login module: each name with what its value looks like."""

    allowed: Mapping[str, AllowedOption]
    extensions: bool = False  # SASL extensions, extension_<name>, which go to the broker as they are

    def of(self, name: str) -> AllowedOption | None:
        """What a name takes; None: it is not let through."""
        if self.extensions and _EXTENSION.match(name):
            return _PLAIN
        return self.allowed.get(name)


_EXTENSION = re.compile(r"extension_[A-Za-z]{1,64}\Z")
_PLAIN: Final = AllowedOption("text", re.compile(r"[^\x00-\x1f\x7f]*\Z"))
_SECRET_PART: Final = AllowedOption("a reference to a secret", _ANY, secret=True)
# Of the connection to the token endpoint; the names that do not name classes, files of providers or algorithms to trust.
_TLS_NAMES: Final = (
    "ssl.cipher.suites", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm", "ssl.key.password",
    "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type", "ssl.protocol", "ssl.truststore.location",
    "ssl.truststore.password", "ssl.truststore.type",
)  # fmt: skip
_OF_MODULE: Final[Mapping[str, _JaasOptions]] = MappingProxyType(
    {
        "PlainLoginModule": _JaasOptions({"username": _PLAIN, "password": _SECRET_PART}),
        "ScramLoginModule": _JaasOptions(
            {
                "username": _PLAIN,
                "password": _SECRET_PART,
                "tokenauth": AllowedOption("true or false", _one_of(("true", "false"))),
            }
        ),
        "OAuthBearerLoginModule": _JaasOptions(
            {
                "clientId": _PLAIN,
                "clientSecret": _SECRET_PART,
                "scope": _PLAIN,
                **{name: OPTIONS[name] for name in _TLS_NAMES},
            },
            extensions=True,
        ),
    }
)


def jaas_names(module: str) -> tuple[str, ...]:
    """The names of the options that an entry of a login module may set."""
    known = _OF_MODULE[module.rpartition(".")[2]]
    return (*sorted(known.allowed), *(("extension_<name>",) if known.extensions else ()))


def _jaas_fault(text: str, *, written: bool = False) -> str | None:
    """What is wrong with a JAAS entry, never quoting its values.

    Args:
        text: the entry.
        written: whether it is as the user wrote it, so that secrets must be references.
    """
    entry = _JAAS_AS_WRITTEN if written else _JAAS
    match = entry.match(text)
    if match is None:
        return (
            'it is not one login module with its options, such as: ...ScramLoginModule required username="u" password="..."; '
            "(values with other signs than letters, digits, _ . and - stand in quotes)"
        )
    module = match["module"]
    if module not in LOGIN_MODULES:
        return f"the login module {module!r} is not let through"
    options = [*_jaas_options(match["options"], written=written)]
    names = [name for name, _ in options]
    for name, value in options:
        fault = _jaas_option_fault(module, name, value, written=written)
        if fault is not None:
            return fault
        if names.count(name) > 1:
            return f"{name} stands twice in the entry of {module}"
    return None


def _jaas_option_fault(module: str, name: str, value: str, *, written: bool) -> str | None:
    allowed = _OF_MODULE[module.rpartition(".")[2]].of(name)
    if allowed is None:
        return f"the option {name!r} of {module} is not let through; it takes {', '.join(jaas_names(module))}"
    if written and allowed.secret and not _REFERENCE.fullmatch(value):
        return f"{name} is a secret written out"
    resolved = not written or not _REFERENCE.search(value)
    if resolved and not allowed.pattern.match(value):
        return f"the option {name} of {module} takes {allowed.what}"
    return None


def _jaas_options(text: str, *, written: bool = False) -> Iterator[tuple[str, str]]:
    """The options of a JAAS entry, as Kafka's clients get them."""
    for match in (_JAAS_OPTION_AS_WRITTEN if written else _JAAS_OPTION).finditer(text):
        value = match["value"]
        if value[:1] in ("'", '"'):
            value = re.sub(r"\\(.)", lambda found: _JAAS_ESCAPED.get(found[1], found[1]), value[1:-1])
        yield match["name"], value


def jaas_entry(text: str) -> tuple[str, dict[str, str]]:
    """The login module of an entry that was let through, and the options in it as Kafka's clients get them."""
    match = _JAAS.match(text)
    if match is None:
        raise KafkaOptionRefused(f"the option sasl.jaas.config is refused: {_jaas_fault(text)}")
    return match["module"], dict(_jaas_options(match["options"]))


# --- the options ---------------------------------------------------------------------------------------------------

_SERVERS = re.compile(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+):\d{1,5}\Z")


@dataclass(frozen=True)
class _InScope:
    """A resolver that looks all keys up in one scope; a class, since options are pickled with their resolver."""

    scope: str
    resolver: SecretResolver

    def __call__(self, _scope: str, key: str) -> str | None:
        return self.resolver(self.scope, key)


@dataclass(frozen=True)
class KafkaOptions:
    """How the pipeline reaches its Kafka. Holds references, never a secret.

    Attributes:
        bootstrap_servers: `host:port`, several joined by commas; None where no topic is read.
        options: options of consumer and producer by their Kafka names (no `kafka.` prefix); values may hold `secret://scope/key` and
            `${NAME}`, which are resolved when `spark_options()` is called.
        service_credential: on Databricks, the Unity Catalog service credential that the runtime signs in with, in place
            of the options that do so; an option of Spark's source and sink, not of Kafka's clients.
        service_credential_scope: the OAuth scope that it asks for, where the runtime cannot infer it.
        resolver: where `secret://` is looked up.

    Raises:
        KafkaOptionRefused: for an option that is not on the allow-list, or a value that is refused or is a secret
            written out.
        TopologyInvalid: if there are several such faults.
    """

    bootstrap_servers: str | None
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    service_credential: str | None = None
    service_credential_scope: str | None = None
    resolver: SecretResolver = field(default=default_resolver, compare=False, repr=False)
    _resolved: set[Secret] = field(default_factory=set, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Checks every option, so that a refused one never gets further."""
        object.__setattr__(self, "options", MappingProxyType(dict(sorted(self.options.items()))))
        faults = [] if self.bootstrap_servers is None else [*server_faults(self.bootstrap_servers)]
        for name, value in self.options.items():
            faults.extend(option_faults(name, value))
        faults.extend(fault for _, fault in credential_faults(self.service_credential, self.service_credential_scope))
        if not faults:
            faults.extend(fault for _, fault in together_faults(self.options, self.service_credential))
        if len(faults) == 1:
            raise faults[0]
        if faults:
            raise TopologyInvalid(faults)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles by what was written; what was resolved stays in this process."""
        written = (self.bootstrap_servers, dict(self.options), self.service_credential, self.service_credential_scope)
        return (type(self), (*written, self.resolver))

    def with_scope(self, scope: str) -> KafkaOptions:
        """The same options, every secret looked up in this scope whatever scope its reference names."""
        return replace(self, resolver=_InScope(scope, self.resolver))

    def secrets(self) -> list[tuple[str, str]]:
        """Scope and key of every secret that the options refer to, each once."""
        found = [match for value in self.options.values() for match in _REFERENCE.finditer(value) if match["scope"]]
        return list(dict.fromkeys((match["scope"], match["key"]) for match in found))

    def spark_options(self) -> dict[str, str]:
        """Options for Spark's Kafka source, secrets resolved: for `.options(**...)` and no other place; none without servers.

        Raises:
            SecretUnresolved: if a reference leads nowhere.
            KafkaOptionRefused: if a resolved value is refused; for a service credential outside of Databricks.
        """
        if self.bootstrap_servers is None:
            return {}
        spark = {"kafka.bootstrap.servers": self.bootstrap_servers}
        for name, value in {**DEFAULTS, **self.options}.items():
            resolved = self._resolve(name, value)
            fault = _value_fault(name, resolved)
            if fault:
                msg = f"the value that {name} resolves to is refused: {fault}"
                raise KafkaOptionRefused(msg)
            spark[f"kafka.{name}"] = resolved
        return spark | self._credential()

    def _credential(self) -> dict[str, str]:
        if self.service_credential is None:
            return {}
        if "DATABRICKS_RUNTIME_VERSION" not in os.environ:
            msg = f"the service credential {self.service_credential!r} is known on Databricks only, and this is not a run there"
            hint = "here: sources of your own (--sources), with sasl.* options or none; check: --no-broker"
            raise KafkaOptionRefused(msg, hint=hint)
        scope = self.service_credential_scope
        return {SERVICE_CREDENTIAL: self.service_credential} | ({SERVICE_CREDENTIAL_SCOPE: scope} if scope else {})

    def redact(self, text: str) -> str:
        """The text with every secret of these options replaced by `***`; also base64, URL, JSON and JAAS spellings."""
        for name, value in self.options.items():
            try:
                self._resolve(name, value)
            except SecretUnresolved:
                continue
        spelt_so = {spelt for secret in self._resolved for spelt in spellings(secret.reveal())}
        for spelt in sorted(spelt_so, key=len, reverse=True):
            text = text.replace(spelt, "***")
        return text

    def _resolve(self, name: str, value: str) -> str:
        def one(match: re.Match[str]) -> str:
            found = self._look_up(match, name)
            if match["scope"] or OPTIONS[name].secret:
                self._remember(found)
            # inside a JAAS entry a quote in a password would end the password and begin something else
            inside = name == "sasl.jaas.config" and match[0] != value
            return "".join(_JAAS_WRITTEN.get(sign, sign) for sign in found) if inside else found

        resolved = _REFERENCE.sub(one, value)
        if resolved != value and OPTIONS[name].secret:
            self._remember(resolved)
        if name == "sasl.jaas.config":
            for option, part in _jaas_options(" " + resolved):
                if _JAAS_SECRET.search(option):
                    self._remember(part)
        return resolved

    def _remember(self, value: str) -> None:
        if value:
            self._resolved.add(Secret(value))

    def _look_up(self, match: re.Match[str], name: str) -> str:
        if match["scope"]:
            scope, key = match["scope"], match["key"]
            found = self.resolver(scope, key)
            if found is None:
                msg = f"kafka option {name}: there is no secret {key!r} in scope {scope!r}"
                hint = f"locally: set {secret_variable(scope, key)}; on Databricks: put the secret into the scope"
                raise SecretUnresolved(msg, hint=hint)
            return found
        value = os.environ.get(match["name"]) or match["default"]
        if value is None:
            msg = f"kafka option {name}: the environment variable {match['name']} is not set"
            raise SecretUnresolved(msg)
        return value


def server_faults(servers: str) -> list[LakestreamsError]:
    """What is wrong with a list of bootstrap servers."""
    wrong = [server for server in servers.split(",") if not _SERVERS.match(server.strip(" "))]
    if not wrong:
        return []
    return [
        KafkaOptionRefused(
            f"bootstrap_servers: {wrong[0]!r} is not host:port", hint="such as broker-1:9092,broker-2:9092"
        )
    ]


def option_faults(name: str, value: str) -> list[LakestreamsError]:
    """What is wrong with one option as it is written, before any reference is resolved."""
    allowed = OPTIONS.get(name)
    if allowed is None:
        return [_refused(name)]
    if _is_provided(value):
        msg = f"the option {name} is refused: it holds a ${{...}} that is no reference of lakestreams"
        hint = "refer to the environment as ${NAME} or ${NAME:-default}; config providers (${provider:path:key}) are not let through"
        return [KafkaOptionRefused(msg, hint=hint)]
    if allowed.secret and name != "sasl.jaas.config" and _REFERENCE.fullmatch(value) is None:
        return [KafkaOptionRefused(f"the option {name} is a secret written out", hint=_BY_REFERENCE)]
    if any(match["default"] for match in _REFERENCE.finditer(value)) and allowed.secret:
        return [
            KafkaOptionRefused(
                f"the option {name} has a default, which would be a secret written out", hint=_BY_REFERENCE
            )
        ]
    if _REFERENCE.search(value) is None or name == "sasl.jaas.config":
        fault = _written_fault(name, value)
        if fault:
            hint = _BY_REFERENCE if "written out" in fault else f"it takes {allowed.what}"
            return [KafkaOptionRefused(f"the option {name} is refused: {fault}", hint=hint)]
    return []


def _is_provided(value: str) -> bool:
    """Whether a value holds, beside references, what Kafka's clients would ask a config provider for."""
    defaults = "".join(match["default"] or "" for match in _REFERENCE.finditer(value))
    return "${" in _REFERENCE.sub("", value) or "$" in defaults


def credential_faults(name: str | None, scope: str | None) -> Iterator[tuple[str, LakestreamsError]]:
    """What is wrong with a service credential's name and scope, each with the key that it is under."""
    if name is not None and not _CREDENTIAL.match(name):
        msg = f"service_credential: {name!r} is no credential's name"
        yield "service_credential", KafkaOptionRefused(msg, hint="letters, digits, _ and -, such as kafka-prod")
    if scope is not None and not _HTTPS.match(scope):
        msg = f"service_credential_scope: {scope!r} is not an https:// address"
        hint = "such as https://my-hub.servicebus.windows.net/.default"
        yield "service_credential_scope", KafkaOptionRefused(msg, hint=hint)
    if scope is not None and name is None:
        msg = "service_credential_scope is given without service_credential"
        hint = "name the credential that asks for this scope"
        yield "service_credential_scope", KafkaOptionRefused(msg, hint=hint)


def together_faults(
    options: Mapping[str, str], service_credential: str | None
) -> Iterator[tuple[str, LakestreamsError]]:
    """What is wrong with options, each of them right, beside each other and beside a credential; with the option's name."""
    if service_credential is not None:
        for name in options:
            if name == "security.protocol" or name.startswith("sasl."):
                msg = f"the option {name} is refused beside service_credential: Databricks sets it"
                yield (
                    name,
                    KafkaOptionRefused(msg, hint="leave out security.protocol and sasl.*, or service_credential"),
                )
    elif _ENDPOINT in options and _HANDLER not in options:
        msg = f"the option {_ENDPOINT} is refused without {_HANDLER}: Kafka's clients would not ask it"
        yield _ENDPOINT, KafkaOptionRefused(msg, hint=f"{_HANDLER}: {CALLBACK_HANDLERS[0]}")


_BY_REFERENCE: Final = "refer to it: secret://scope/key or ${NAME}"


def _written_fault(name: str, value: str) -> str | None:
    if name != "sasl.jaas.config":
        return _value_fault(name, value)
    # a reference stands for one value, whatever signs it has; its own content is checked once it is resolved
    return None if _REFERENCE.fullmatch(value) else _jaas_fault(value, written=True)


def _value_fault(name: str, value: str) -> str | None:
    """Why a value, with nothing left to resolve, is refused; never quotes a secret."""
    allowed = OPTIONS[name]
    if _PROVIDED.search(value):
        return "it holds ${...:...}, which Kafka's clients would ask a config provider for"
    if name == "sasl.jaas.config":
        return _jaas_fault(value)
    if not allowed.pattern.match(value):
        return f"it takes {allowed.what}" + ("" if allowed.secret else f", not {value!r}")
    return None


def _refused(name: str) -> LakestreamsError:
    bare = name.removeprefix("kafka.")
    if bare != name and bare in OPTIONS:
        return KafkaOptionRefused(f"the option {name!r} is not known", hint=f"leave the prefix out: {bare}")
    for pattern, why in _WHY_NOT:
        if pattern.match(bare):
            return KafkaOptionRefused(f"the option {name!r} is refused: {why}")
    near = difflib.get_close_matches(bare, OPTIONS, n=1)
    hint = f"did you mean {near[0]}? The allow-list: docs/kafka-options.md" if near else None
    return KafkaOptionRefused(f"the option {name!r} is not on the allow-list", hint=hint)


def spellings(value: str) -> Iterable[str]:
    """The ways a secret shows up in logs and errors: plain, quoted, base64 (at each offset) and URL-encoded."""
    raw = value.encode()
    yield value
    if value.strip():
        yield value.strip()
    yield json.dumps(value)[1:-1]
    yield value.replace("\\", "\\\\").replace('"', '\\"')
    for encoded in (quote(value, safe=""), quote(value), quote_plus(value)):
        yield encoded
        yield re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), encoded)
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(raw).decode()
        yield whole
        yield whole.rstrip("=")
        # inside a longer base64 text, such as that of user:password, its first and last signs mix with the neighbours
        for offset in range(3):
            inner = encode(b"\0" * offset + raw).decode().rstrip("=")
            start, end = (offset * 8 + 5) // 6, (offset + len(raw)) * 8 // 6
            if end - start >= 8:
                yield inner[start:end]
    yield raw.hex()
