"""A client of schema registries with Confluent's REST interface: schemas by id, subjects, registration, compatibility."""

from __future__ import annotations

import json
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit
from uuid import UUID

from lakestreams.errors import RegistryRefused, RegistryUnreachable, SchemaMissing
from lakestreams.registry.options import RETRIES, TIMEOUT, RegistryOptions

_MEDIA: Final = "application/vnd.schemaregistry.v1+json"
_MOST_BYTES: Final = 16 << 20
_WAIT_S: Final = 0.2
_AGAIN: Final = (408, 429, 500, 502, 503, 504)
_NOT_FOUND: Final = 404
_NOBODYS: Final = 2**31 - 1  # an id
_SHOWN: Final = 300


@dataclass(frozen=True)
class Reference:
    """A schema that another one refers to.

    Attributes:
        name: by which it refers to it; of Protobuf the name of the import.
        subject, version: where the registry has it.
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class Schema:
    """A schema as a registry holds it.

    Attributes:
        text: as it was registered.
        kind: `AVRO`, `PROTOBUF` or `JSON`.
        references: the texts of the schemas that it refers to, each behind those that it refers to itself; of Protobuf
            each text behind the name by which it is imported.
        refers_to: where the registry has those that it names itself, if it is to be told or asked so.
    """

    text: str
    kind: str = "AVRO"
    references: tuple[str, ...] = ()
    refers_to: tuple[Reference, ...] = ()


@dataclass(frozen=True)
class Registered:
    """A version of a subject."""

    subject: str
    version: int
    id: int
    schema: Schema


class Registry:
    """One schema registry. Safe to use from several threads; keeps nothing.

    Raises:
        RegistryUnreachable: by each question, if no answer came, however often it was put.
        RegistryRefused: by each question, if the registry does not let the pipeline in, or takes the question for wrong.
    """

    def __init__(self, options: RegistryOptions) -> None:
        self._options = options
        self._base = options.url.rstrip("/")
        handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
        if urlsplit(options.url).scheme == "https":
            handlers.append(urllib.request.HTTPSHandler(context=options.tls()))
        self._opener = urllib.request.build_opener(*handlers)

    def by_id(self, number: int) -> Schema | None:
        """The schema of an id; None if the registry does not know it."""
        found = self._ask("GET", f"/schemas/ids/{number}")
        return None if found is None else self._schema(found)

    def by_guid(self, guid: str) -> Schema | None:
        """The schema of a GUID; None if the registry does not know it, or does not look schemas up by GUID."""
        found = self._ask("GET", f"/schemas/guids/{guid}", may_lack=True)
        return self._schema(found) if found else None

    def looks_up_guids(self) -> bool:
        """Whether there are answers to questions for a GUID, as Confluent's registry has since 8.0; Apicurio has none.

        Raises:
            RegistryRefused: if it is no registry at all that answers.
        """
        if self._ask("GET", f"/schemas/guids/{UUID(int=0)}", may_lack=True) != {}:
            return True
        self.by_id(_NOBODYS)
        return False

    def version(self, subject: str, version: int | str = "latest") -> Registered:
        """A version of a subject, its schema with all that it refers to.

        Raises:
            SchemaMissing: if there is no such subject or version.
        """
        found = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/{version}")
        if found is None:
            raise SchemaMissing(f"the registry has no version {version} of subject {subject}")
        return Registered(subject, int(found["version"]), int(found["id"]), self._schema(found))

    def id_of(self, subject: str, schema: Schema) -> int | None:
        """The id under which a subject holds exactly this schema; None if it does not."""
        found = self._ask("POST", f"/subjects/{quote(subject, safe='')}", _body(schema))
        return None if found is None else int(found["id"])

    def version_of(self, subject: str, schema: Schema) -> int | None:
        """The version under which a subject holds exactly this schema; None if it does not."""
        found = self._ask("POST", f"/subjects/{quote(subject, safe='')}", _body(schema))
        return None if found is None else int(found["version"])

    def register(self, subject: str, schema: Schema) -> int:
        """Registers a schema unless it is there, and gives its id.

        Raises:
            RegistryRefused: if it is not compatible with the subject's versions.
        """
        found = self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", _body(schema))
        if found is None:
            raise RegistryRefused(f"subject {subject}: the registry takes no schema for it")
        return int(found["id"])

    def incompatibilities(self, subject: str, schema: Schema) -> list[str]:
        """What keeps a schema from being the subject's next version; empty if nothing does, or there is no subject."""
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        found = self._ask("POST", path, _body(schema))
        if found is None or found.get("is_compatible", True):
            return []
        return [str(one) for one in found.get("messages") or ["the registry gives no reason"]]

    def _schema(self, found: Mapping[str, Any]) -> Schema:
        seen: dict[tuple[str, int], tuple[str, str]] = {}
        self._collect(found, seen)
        kind = str(found.get("schemaType") or "AVRO")
        references = (part for one in seen.values() for part in (one if kind == "PROTOBUF" else one[1:]))
        return Schema(str(found["schema"]), kind, tuple(references))

    def _collect(self, found: Mapping[str, Any], seen: dict[tuple[str, int], tuple[str, str]]) -> None:
        for one in found.get("references") or ():
            at = (str(one["subject"]), int(one["version"]))
            if at in seen:
                continue
            path = f"/subjects/{quote(at[0], safe='')}/versions/{at[1]}"
            referred = self._ask("GET", path)
            if referred is None:
                raise SchemaMissing(f"a schema refers to version {at[1]} of subject {at[0]}, which the registry lacks")
            self._collect(referred, seen)
            seen.setdefault(at, (str(one.get("name") or at[0]), str(referred["schema"])))

    def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, may_lack: bool = False
    ) -> dict[str, Any] | None:
        """The answer; None if what was asked for is not there.

        Args:
            may_lack: whether a registry may not know such questions. Then its answer is taken for an empty one.
        """
        tries = 1 + self._options.number(RETRIES)
        said = ""
        for number in range(tries):
            if number:
                time.sleep(_WAIT_S * 2 ** (number - 1))
            try:
                return self._once(method, path, body)
            except urllib.error.HTTPError as error:
                with error:
                    said = self._said(error)
                if error.code == _NOT_FOUND:
                    if not _is_answer(said) and may_lack:
                        return {}
                    if not _is_answer(said):
                        msg = f"{self._base} answers, but is no schema registry: {method} {path}: 404"
                        raise RegistryRefused(msg, hint="is the path of its REST interface part of the url?") from None
                    return None
                if error.code not in _AGAIN:
                    raise RegistryRefused(f"{self._base}: {method} {path}: {error.code} {said}") from None
                said = f"{error.code} {said}"
            except ssl.SSLError as error:
                raise RegistryRefused(f"{self._base}: {error.reason}") from None
            except urllib.error.URLError as error:
                if isinstance(error.reason, ssl.SSLError):
                    raise RegistryRefused(f"{self._base}: {error.reason.reason}") from None
                said = self._options.redact(str(error.reason))
            except (OSError, ValueError) as error:  # a connection that breaks, an answer that is no JSON
                said = f"{type(error).__name__}: {self._options.redact(str(error))[:_SHOWN]}"
        msg = f"{self._base}: {method} {path}: {said} ({tries} tries)"
        raise RegistryUnreachable(msg)

    def _once(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, method=method)  # noqa: S310 - http(s), see RegistryOptions
        request.add_header("Accept", f"{_MEDIA}, application/json")
        if data is not None:
            request.add_header("Content-Type", _MEDIA)
        for name, value in self._options.headers().items():
            request.add_unredirected_header(name, value.reveal())
        with self._opener.open(request, timeout=self._options.number(TIMEOUT) / 1000) as answer:
            text = answer.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise RegistryRefused(f"{self._base}: {method} {path}: an answer of more than {_MOST_BYTES} bytes")
        found = json.loads(text)
        if not isinstance(found, dict):
            raise RegistryRefused(f"{self._base}: {method} {path}: the answer is no JSON object")
        return found

    def _said(self, error: urllib.error.HTTPError) -> str:
        text = self._options.redact(error.read(_MOST_BYTES).decode(errors="replace")).strip()
        return text[:_SHOWN] or str(error.reason)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows nobody elsewhere: what is sent is meant for the registry alone."""

    def redirect_request(self, *_args: Any, **_more: Any) -> None:
        """None: the answer that redirects is the answer."""
        return


def _is_answer(said: str) -> bool:
    """Whether a 404 says that a subject, version or schema is not there, not that nobody knows the address.

    Then it has a code of five digits, 40401 and so on; a wrong path would let every record go to quarantine.
    """
    return re.search(r'"error_code"\s*:\s*404\d\d\b', said) is not None


def _body(schema: Schema) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.text}
    if schema.kind != "AVRO":
        body["schemaType"] = schema.kind
    if schema.refers_to:
        body["references"] = [asdict(one) for one in schema.refers_to]
    return body


__all__ = ["Reference", "Registered", "Registry", "Schema"]
