"""What is wrong with Kafka options: as they are written, next to each other, and once a value is resolved."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from lakestreams.errors import KafkaOptionRefused, LakestreamsError
from lakestreams.kafka import jaas
from lakestreams.kafka.allowed_options import CALLBACK_HANDLERS, ENDPOINT, HANDLER, HTTPS, OPTIONS, refused
from lakestreams.kafka.references import REFERENCE

_CREDENTIAL = re.compile(r"[A-Za-z0-9_-]{1,255}\Z")
# A provider of values as Kafka's clients know them, ${provider:path:key}; it would read files, variables or the network.
_PROVIDED = re.compile(r"\$\{[^}]*:")
_SERVERS = re.compile(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+):\d{1,5}\Z")


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
        return [refused(name)]
    if _is_provided(value):
        msg = f"the option {name} is refused: it has a ${{...}} that is not a reference of lakestreams"
        hint = "refer to the environment as ${NAME} or ${NAME:-default}; config providers (${provider:path:key}) are not allowed"
        return [KafkaOptionRefused(msg, hint=hint)]
    if allowed.secret and name != "sasl.jaas.config" and REFERENCE.fullmatch(value) is None:
        return [KafkaOptionRefused(f"the option {name} is a secret in plain text", hint=_BY_REFERENCE)]
    if any(match["default"] for match in REFERENCE.finditer(value)) and allowed.secret:
        return [
            KafkaOptionRefused(
                f"the option {name} has a default, which would be a secret in plain text", hint=_BY_REFERENCE
            )
        ]
    if REFERENCE.search(value) is None or name == "sasl.jaas.config":
        fault = _written_fault(name, value)
        if fault:
            hint = _BY_REFERENCE if "written out" in fault else f"it takes {allowed.what}"
            return [KafkaOptionRefused(f"the option {name} is refused: {fault}", hint=hint)]
    return []


def _is_provided(value: str) -> bool:
    """Whether a value holds, besides references, what Kafka's clients would ask a config provider for."""
    defaults = "".join(match["default"] or "" for match in REFERENCE.finditer(value))
    return "${" in REFERENCE.sub("", value) or "$" in defaults


def credential_faults(name: str | None, scope: str | None) -> Iterator[tuple[str, LakestreamsError]]:
    """What is wrong with a service credential's name and scope, each with the key that it is under."""
    if name is not None and not _CREDENTIAL.match(name):
        msg = f"service_credential: {name!r} is not a valid credential name"
        yield "service_credential", KafkaOptionRefused(msg, hint="letters, digits, _ and -, such as kafka-prod")
    if scope is not None and not HTTPS.match(scope):
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
    """What is wrong with options, each of them right, next to each other and next to a credential; with the option's name."""
    if service_credential is not None:
        for name in options:
            if name == "security.protocol" or name.startswith("sasl."):
                msg = f"the option {name} is refused together with service_credential: Databricks sets it"
                yield (
                    name,
                    KafkaOptionRefused(msg, hint="leave out security.protocol and sasl.*, or service_credential"),
                )
    elif ENDPOINT in options and HANDLER not in options:
        msg = f"the option {ENDPOINT} is refused without {HANDLER}: Kafka's clients would not ask it"
        yield ENDPOINT, KafkaOptionRefused(msg, hint=f"{HANDLER}: {CALLBACK_HANDLERS[0]}")


_BY_REFERENCE: Final = "refer to it: secret://scope/key or ${NAME}"


def _written_fault(name: str, value: str) -> str | None:
    if name != "sasl.jaas.config":
        return value_fault(name, value)
    # a reference stands for one value, whatever signs it has; its own content is checked once it is resolved
    return None if REFERENCE.fullmatch(value) else jaas.fault(value, written=True)


def value_fault(name: str, value: str) -> str | None:
    """Why a value, with nothing left to resolve, is refused; never quotes a secret."""
    allowed = OPTIONS[name]
    if _PROVIDED.search(value):
        return "it holds ${...:...}, which Kafka's clients would ask a config provider for"
    if name == "sasl.jaas.config":
        return jaas.fault(value)
    if not allowed.pattern.match(value):
        return f"it takes {allowed.what}" + ("" if allowed.secret else f", not {value!r}")
    return None
