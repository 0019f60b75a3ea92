"""How a pipeline reaches its Kafka: checked options, resolved at the last moment, their secrets scrubbed from texts."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from lakestreams.errors import KafkaOptionRefused, SecretUnresolved, TopologyInvalid
from lakestreams.kafka import jaas
from lakestreams.kafka.allowed_options import DEFAULTS, OPTIONS
from lakestreams.kafka.option_faults import (
    credential_faults,
    option_faults,
    server_faults,
    together_faults,
    value_fault,
)
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

# Options of Spark's source and sink on Databricks, which therefore have no `kafka.` in front.
SERVICE_CREDENTIAL: Final = "databricks.serviceCredential"
SERVICE_CREDENTIAL_SCOPE: Final = "databricks.serviceCredential.scope"


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
        return replace(self, resolver=InScope(scope, self.resolver))

    def secrets(self) -> list[tuple[str, str]]:
        """Scope and key of every secret that the options refer to, each once."""
        return secrets_in(self.options.values())

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
            fault = value_fault(name, resolved)
            if fault:
                msg = f"the value that {name} resolves to is refused: {fault}"
                raise KafkaOptionRefused(msg)
            spark[f"kafka.{name}"] = resolved
        return spark | self._credential()

    def _credential(self) -> dict[str, str]:
        if self.service_credential is None:
            return {}
        if "DATABRICKS_RUNTIME_VERSION" not in os.environ:
            msg = f"the service credential {self.service_credential!r} exists on Databricks only, and this run is elsewhere"
            hint = "use another sources file here (--sources), with sasl.* options or none; for check: --no-broker"
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
            return jaas.escaped(found) if inside else found

        resolved = REFERENCE.sub(one, value)
        if resolved != value and OPTIONS[name].secret:
            self._remember(resolved)
        if name == "sasl.jaas.config":
            for part in jaas.secrets_in(resolved):
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
