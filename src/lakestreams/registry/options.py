"""How a schema registry is reached: an allow-list of options by the names that its clients use, secrets by reference."""

from __future__ import annotations

import base64
import difflib
import os
import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from lakestreams.errors import KafkaOptionRefused, LakestreamsError, SecretUnresolved, TopologyInvalid
from lakestreams.kafka.references import (
    REFERENCE,
    InScope,
    Secret,
    SecretResolver,
    default_resolver,
    secret_variable,
    secrets_in,
    spellings,
)

BASIC, BEARER = "basic.auth.user.info", "bearer.auth.token"
CLUSTER, POOL = "bearer.auth.logical.cluster", "bearer.auth.identity.pool.id"
CA, CERTIFICATE, KEY, KEY_PASSWORD = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)
TIMEOUT, RETRIES = "request.timeout.ms", "max.retries"

_PATH: Final = (re.compile(r"/[^\x00-\x1f]*\Z"), "an absolute path")
_TEXT: Final = (re.compile(r"[\x20-\x7e]+\Z"), "text without line breaks")
_WORD: Final = (re.compile(r"[A-Za-z0-9._-]+\Z"), "letters, digits and . _ -")
# Names are those of Confluent's clients.
OPTIONS: Final[Mapping[str, tuple[re.Pattern[str], str]]] = MappingProxyType(
    {
        BASIC: (re.compile(r"[^:\x00-\x1f]+:[^\x00-\x1f]*\Z"), "user:password, by reference"),
        BEARER: _TEXT,
        CLUSTER: _WORD,
        POOL: _WORD,
        CA: _PATH,
        CERTIFICATE: _PATH,
        KEY: _PATH,
        KEY_PASSWORD: _TEXT,
        TIMEOUT: (re.compile(r"[1-9][0-9]{0,6}\Z"), "milliseconds"),
        RETRIES: (re.compile(r"[0-9]{1,2}\Z"), "a whole number below 100"),
    }
)
SECRETS: Final = frozenset({BASIC, BEARER, KEY_PASSWORD})
_DEFAULTS: Final = {TIMEOUT: "10000", RETRIES: "3"}
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class RegistryOptions:
    """How the pipeline reaches its schema registry. Holds references, never a secret.

    Attributes:
        url: of the registry's REST interface, such as `https://registry:8081`; with a path where it has one.
        options: by the names of `OPTIONS`; values may hold `secret://scope/key` and `${NAME}`.
        resolver: where `secret://` is looked up.

    Raises:
        KafkaOptionRefused: for an address or option that is refused, or a secret written out.
        TopologyInvalid: if there are several such faults.
    """

    url: str
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    resolver: SecretResolver = field(default=default_resolver, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Checks every option, so that a refused one never gets further."""
        object.__setattr__(self, "options", MappingProxyType(dict(sorted(self.options.items()))))
        faults = list(self._faults())
        if len(faults) == 1:
            raise faults[0]
        if faults:
            raise TopologyInvalid(faults)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles by what was written; what is resolved stays in this process."""
        return (type(self), (self.url, dict(self.options), self.resolver))

    def _faults(self) -> Iterator[LakestreamsError]:
        address = urlsplit(self.url)
        if address.scheme not in ("http", "https") or not address.hostname or address.query or address.username:
            msg = "the registry's url is not http(s)://host:port"
            hint = (
                f"user and password are the option {BASIC}, by reference"
                if address.username
                else "url: https://host:8081"
            )
            yield KafkaOptionRefused(msg, hint=hint)
        for name, value in self.options.items():
            if name not in OPTIONS:
                near = difflib.get_close_matches(name, OPTIONS, n=1)
                hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(OPTIONS)}"
                yield KafkaOptionRefused(f"the registry option {name!r} is not known", hint=hint)
            elif name in SECRETS and not _is_reference(value):
                hint = "refer to it: secret://scope/key or ${NAME}"
                yield KafkaOptionRefused(f"the registry option {name} is a secret written out", hint=hint)
            elif not REFERENCE.search(value) and not OPTIONS[name][0].match(value):
                yield KafkaOptionRefused(f"the registry option {name} takes {OPTIONS[name][1]}")
        signs_in = {BASIC, BEARER} & self.options.keys()
        if len(signs_in) == 2:
            yield KafkaOptionRefused(f"the registry options {BASIC} and {BEARER} exclude each other")
        if signs_in and address.scheme == "http" and address.hostname not in _LOOPBACK:
            yield KafkaOptionRefused(
                "a registry that is signed in to has an https:// url", hint="http:// shows secrets"
            )
        if (CERTIFICATE in self.options) != (KEY in self.options):
            yield KafkaOptionRefused(f"the registry options {CERTIFICATE} and {KEY} belong together")

    def with_scope(self, scope: str) -> RegistryOptions:
        """The same options, every secret looked up in this scope whatever scope its reference names."""
        return replace(self, resolver=InScope(scope, self.resolver))

    def secrets(self) -> list[tuple[str, str]]:
        """Scope and key of every secret that the options refer to, each once."""
        return secrets_in(self.options.values())

    def number(self, name: str) -> int:
        """The value of an option that is a whole number."""
        return int(self._resolved(name) or _DEFAULTS[name])

    def headers(self) -> dict[str, Secret]:
        """The headers by which requests sign in.

        Raises:
            SecretUnresolved: if a reference leads nowhere.
            KafkaOptionRefused: if a resolved value is refused.
        """
        found = {}
        basic, bearer = self._resolved(BASIC), self._resolved(BEARER)
        if basic is not None:
            encoded = base64.b64encode(basic.encode()).decode()
            found["Authorization"] = Secret(f"Basic {encoded}")
        if bearer is not None:
            found["Authorization"] = Secret(f"Bearer {bearer}")
        for header, name in (("target-sr-cluster", CLUSTER), ("Confluent-Identity-Pool-Id", POOL)):
            value = self._resolved(name)
            if value is not None:
                found[header] = Secret(value)
        return found

    def tls(self) -> ssl.SSLContext:
        """What a connection trusts, and the certificate that it shows.

        Raises:
            KafkaOptionRefused: if a file cannot be read as what it should be.
        """
        try:
            context = ssl.create_default_context(cafile=self._resolved(CA))
            certificate = self._resolved(CERTIFICATE)
            if certificate is not None:
                context.load_cert_chain(certificate, self._resolved(KEY), self._resolved(KEY_PASSWORD) or "")
        except (OSError, ssl.SSLError) as error:
            msg = f"the registry options ssl.* cannot be used: {type(error).__name__}: {error.args[-1]}"
            raise KafkaOptionRefused(
                msg, hint="files are PEM; a key that is encrypted needs ssl.key.password"
            ) from None
        return context

    def redact(self, text: str) -> str:
        """The text with every secret of these options replaced by `***`."""
        for name in SECRETS & self.options.keys():
            try:
                value = self._resolved(name)
            except (SecretUnresolved, KafkaOptionRefused):
                continue
            for spelt in sorted(spellings(value), key=len, reverse=True) if value else ():
                text = text.replace(spelt, "***")
        return text

    def _resolved(self, name: str) -> str | None:
        written = self.options.get(name)
        if written is None:
            return None
        value = REFERENCE.sub(lambda match: self._look_up(match, name), written)
        if not OPTIONS[name][0].match(value):
            raise KafkaOptionRefused(f"the registry option {name} resolves to what is not {OPTIONS[name][1]}")
        return value

    def _look_up(self, match: re.Match[str], name: str) -> str:
        if match["scope"]:
            found = self.resolver(match["scope"], match["key"])
            hint = f"locally: set {secret_variable(match['scope'], match['key'])}; on Databricks: put it into the scope"
            said = f"there is no secret {match['key']!r} in scope {match['scope']!r}"
        else:
            found = os.environ.get(match["name"]) or match["default"]
            hint, said = None, f"the environment variable {match['name']} is not set"
        if found is None:
            raise SecretUnresolved(f"registry option {name}: {said}", hint=hint)
        return found


def _is_reference(value: str) -> bool:
    """Whether a value is one reference, or two around a colon, and none has a default, which would be written out."""
    parts = [match for match in REFERENCE.finditer(value) if not match["default"]]
    return bool(parts) and REFERENCE.sub("", value) in ("", ":")


__all__ = ["OPTIONS", "SECRETS", "RegistryOptions"]
