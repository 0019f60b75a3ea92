"""References to secrets and environment variables inside of values, what they resolve to, and how secrets are spelt in texts."""

from __future__ import annotations

import base64
import importlib
import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn, TypeAlias
from urllib.parse import quote, quote_plus

SecretResolver: TypeAlias = Callable[[str, str], str | None]
"""From a secret's scope and key to its value, or None where there is none."""


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


_SECRET = r"secret://(?P<scope>[A-Za-z0-9_.-]+)/(?P<key>[A-Za-z0-9_.-]+)"  # noqa: S105 - a pattern
_VARIABLE = r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}"
REFERENCE = re.compile(f"{_SECRET}|{_VARIABLE}")


@dataclass(frozen=True)
class InScope:
    """A resolver that looks all keys up in one scope; a class, since options are pickled with their resolver."""

    scope: str
    resolver: SecretResolver

    def __call__(self, _scope: str, key: str) -> str | None:
        """The secret of this key, whatever scope its reference names."""
        return self.resolver(self.scope, key)


def secrets_in(values: Iterable[str]) -> list[tuple[str, str]]:
    """Scope and key of every secret that values refer to, each once."""
    found = [match for value in values for match in REFERENCE.finditer(value) if match["scope"]]
    return list(dict.fromkeys((match["scope"], match["key"]) for match in found))


def resolve_locally(scope: str, key: str) -> str | None:
    """The secret from the environment: `LAKESTREAMS_SECRET_<SCOPE>_<KEY>`, other signs than letters and digits as _."""
    return os.environ.get(secret_variable(scope, key))


def secret_variable(scope: str, key: str) -> str:
    """The environment variable that holds a secret outside of Databricks."""
    return "LAKESTREAMS_SECRET_" + re.sub(r"[^A-Za-z0-9]", "_", f"{scope}_{key}").upper()


def resolve_on_databricks(scope: str, key: str) -> str | None:
    """The secret from the workspace's scope; None where there is none, or where it may not be read."""
    try:
        runtime = importlib.import_module("databricks.sdk.runtime")  # signs in when it is imported
        return str(runtime.dbutils.secrets.get(scope, key))
    except Exception:  # noqa: BLE001 - dbutils raises JVM and SDK errors of many types, some with the request in them
        return None


def default_resolver(scope: str, key: str) -> str | None:
    """The environment first, so that a test can stand in; then the workspace, on Databricks."""
    value = resolve_locally(scope, key)
    if value is None and "DATABRICKS_RUNTIME_VERSION" in os.environ:
        return resolve_on_databricks(scope, key)
    return value


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
