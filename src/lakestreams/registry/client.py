"""A client of schema registries with Confluent's REST interface: schemas by id, subjects, registration, compatibility."""

from __future__ import annotations

import json
import re
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from http.client import HTTPException
from time import sleep
from typing import Any, Final, Literal, TypeAlias, TypeVar
from urllib.parse import quote, urlsplit
from uuid import UUID

from lakestreams.errors import RegistryRefused, RegistryUnreachable, SchemaMissing
from lakestreams.registry.options import RETRIES, TIMEOUT, RegistryOptions

_MEDIA: Final = "application/vnd.schemaregistry.v1+json"
_MOST_BYTES: Final = 16 << 20
_WAIT_S: Final = 0.2
_MOST_WAIT_S: Final = 5.0
_AGAIN: Final = (408, 429, 500, 502, 503, 504)
_NOT_FOUND: Final = 404
_NOBODYS: Final = 2**31 - 1  # an id
_SHOWN: Final = 300
_MOST_REFERENCES: Final = 1_000  # of a schema, those of what it refers to counted
_BROKEN: Final = "look at the schema and at what it refers to in the registry"
_T = TypeVar("_T")
_Place: TypeAlias = tuple[str, int]  # a subject and a version


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
        refers_to: where the registry has those that it names itself, if requests are to name them.
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
    """One schema registry. Safe to use from several threads; keeps no answer.

    A question takes `max.retries` + 1 tries of `request.timeout.ms` at most, and the waits between them. If no answer came,
    this object asks nothing more, in no thread: a run has one, and ends. So a registry that is gone is waited for once,
    however many schemas are missing.

    Raises:
        RegistryUnreachable: by each question, if no answer came, however often it was put; and by each one after that.
        RegistryRefused: by each question, if the registry does not let the pipeline in, or takes the question for wrong.
    """

    def __init__(self, options: RegistryOptions) -> None:
        self._options = options
        self._base = options.url.rstrip("/")
        self._gone = ""  # what was said of it when no answer came
        handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
        if urlsplit(options.url).scheme == "https":
            handlers.append(urllib.request.HTTPSHandler(context=options.tls()))
        self._opener = urllib.request.build_opener(*handlers)

    def by_id(self, number: int) -> Schema | None:
        """The schema of an id; None if the registry does not know it.

        Raises:
            SchemaMissing: if the answer is no schema, or one refers to another that cannot be had: others may be read.
        """
        found = self._ask("GET", f"/schemas/ids/{number}")
        return None if found is None else self._schema(found)

    def by_guid(self, guid: str) -> Schema | None:
        """The schema of a GUID; None if the registry does not know it, or does not look schemas up by GUID.

        Raises:
            SchemaMissing: as by `by_id`.
        """
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
            SchemaMissing: if there is no such subject or version, or as by `by_id`.
        """
        found = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/{version}")
        if found is None:
            raise SchemaMissing(f"the registry has no version {version} of subject {subject}")
        return Registered(subject, self._number(found, "version"), self._number(found, "id"), self._schema(found))

    def id_of(self, subject: str, schema: Schema) -> int | None:
        """The id under which a subject holds exactly this schema; None if it does not."""
        return self._held(subject, schema, "id")

    def version_of(self, subject: str, schema: Schema) -> int | None:
        """The version under which a subject holds exactly this schema; None if it does not."""
        return self._held(subject, schema, "version")

    def register(self, subject: str, schema: Schema) -> int:
        """Registers a schema unless it is there, and gives its id.

        Raises:
            RegistryRefused: if it is not compatible with the subject's versions.
        """
        found = self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", _body(schema))
        if found is None:
            raise RegistryRefused(f"subject {subject}: the registry takes no schema for it")
        return self._number(found, "id")

    def incompatibilities(self, subject: str, schema: Schema) -> list[str]:
        """What keeps a schema from being the subject's next version; empty if nothing does, or there is no subject."""
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        found = self._ask("POST", path, _body(schema))
        if found is None or found.get("is_compatible", True):
            return []
        said = found.get("messages") or ["the registry gives no reason"]
        return [str(one) for one in (said if isinstance(said, list) else [said])]

    def _held(self, subject: str, schema: Schema, what: Literal["id", "version"]) -> int | None:
        found = self._ask("POST", f"/subjects/{quote(subject, safe='')}", _body(schema))
        return None if found is None else self._number(found, what)

    def _number(self, answer: Mapping[str, Any], what: str) -> int:
        found = answer.get(what)
        if type(found) is not int:
            raise RegistryRefused(f"{self._base}: an answer has no number {what}")
        return found

    def _schema(self, answer: Mapping[str, Any]) -> Schema:
        """The schema of an answer with all that it refers to.

        Raises:
            SchemaMissing: if the answer is none, or one refers to another that cannot be had.
        """
        texts: dict[_Place, tuple[str, str]] = {}
        try:
            text, kind = _text(answer), str(answer.get("schemaType") or "AVRO")
            self._collect(answer, texts, set())
        except (KeyError, TypeError, ValueError) as error:
            msg = f"what the registry answers is no schema: {type(error).__name__}: {str(error)[:_SHOWN]}"
            raise SchemaMissing(msg, hint=_BROKEN) from None
        except RecursionError:
            raise SchemaMissing("a schema refers to others through too many levels", hint=_BROKEN) from None
        references = (part for one in texts.values() for part in (one if kind == "PROTOBUF" else one[1:]))
        return Schema(text, kind, tuple(references))

    def _collect(self, answer: Mapping[str, Any], texts: dict[_Place, tuple[str, str]], begun: set[_Place]) -> None:
        """Puts the texts of all that an answer refers to into `texts`, each behind those that it refers to itself.

        Args:
            begun: what is asked for already, so that schemas that refer to each other in a circle are asked for once.
        """
        for one in answer.get("references") or ():
            at = (str(one["subject"]), int(one["version"]))
            if at in begun:
                continue
            begun.add(at)
            if len(begun) > _MOST_REFERENCES:
                raise SchemaMissing(f"a schema refers to more than {_MOST_REFERENCES} others", hint=_BROKEN)
            referred = self._referred(*at)
            self._collect(referred, texts, begun)
            texts[at] = (str(one.get("name") or at[0]), _text(referred))

    def _referred(self, subject: str, version: int) -> Mapping[str, Any]:
        """A version to which a schema refers; one that was deleted is still there for those who read what it wrote."""
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        found = self._ask("GET", path) or self._ask("GET", f"{path}?deleted=true", may_lack=True)
        if not found:
            raise SchemaMissing(f"a schema refers to version {version} of subject {subject}, which the registry lacks")
        return found

    def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, may_lack: bool = False
    ) -> dict[str, Any] | None:
        """The answer; None if what was asked for is not there.

        Args:
            may_lack: whether a registry may not know such questions. Then its answer is taken for an empty one.
        """
        tries, within = 1 + self._options.number(RETRIES), self._options.number(TIMEOUT) / 1000
        said = ""
        for number in range(tries):
            if number:
                sleep(min(_WAIT_S * 2 ** (number - 1), _MOST_WAIT_S))
            if self._gone:  # another question has found out, before this one or while it waited
                msg = f"{self._base}: {method} {path}: not asked, since no answer came before: {self._gone}"
                raise RegistryUnreachable(msg)
            try:
                return self._once(method, path, body, within)
            except _NoSuchQuestion as error:
                if may_lack:
                    return {}
                msg = f"{self._base} answers, but is no schema registry: {method} {path}: 404"
                raise RegistryRefused(msg, hint="is the path of its REST interface part of the url?") from error
            except _Failed as error:
                said = error.said
            except ssl.SSLError as error:
                raise RegistryRefused(f"{self._base}: {error.reason}") from None
            except urllib.error.URLError as error:
                if isinstance(error.reason, ssl.SSLError):
                    raise RegistryRefused(f"{self._base}: {error.reason.reason}") from None
                said = self._options.redact(str(error.reason))
            except (OSError, ValueError, HTTPException) as error:  # a connection that breaks, no HTTP, no JSON
                said = f"{type(error).__name__}: {self._options.redact(str(error))[:_SHOWN]}"
        self._gone = said
        msg = f"{self._base}: {method} {path}: {said} ({tries} tries)"
        raise RegistryUnreachable(msg)

    def _once(self, method: str, path: str, body: Mapping[str, Any] | None, within: float) -> dict[str, Any] | None:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, method=method)  # noqa: S310 - http(s), see RegistryOptions
        request.add_header("Accept", f"{_MEDIA}, application/json")
        if data is not None:
            request.add_header("Content-Type", _MEDIA)
        for name, value in self._options.headers().items():
            request.add_unredirected_header(name, value.reveal())
        code, text = _within(within, lambda: self._answered(request, within))
        if code is not None:
            self._judge(code, self._options.redact(text.decode(errors="replace")).strip(), f"{method} {path}")
            return None
        if len(text) > _MOST_BYTES:
            raise RegistryRefused(f"{self._base}: {method} {path}: an answer of more than {_MOST_BYTES} bytes")
        try:
            found = json.loads(text)
        except RecursionError:  # no registry nests so deeply, but what it answers for one schema harms no other
            msg = f"{self._base}: {method} {path}: the answer nests too deeply"
            raise SchemaMissing(msg, hint=_BROKEN) from None
        if not isinstance(found, dict):
            raise RegistryRefused(f"{self._base}: {method} {path}: the answer is no JSON object")
        return found

    def _answered(self, request: urllib.request.Request, within: float) -> tuple[int | None, bytes]:
        """The text of an answer, behind its code if that is none of a good one."""
        try:
            with self._opener.open(request, timeout=within) as answer:
                return None, answer.read(_MOST_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(_MOST_BYTES) or str(error.reason).encode()

    def _judge(self, code: int, said: str, question: str) -> None:
        """What another answer than a good one means; nothing where it says that something is not there.

        Raises:
            _Failed: if the next try may have another answer.
            _NoSuchQuestion: if nobody knows the address.
            RegistryRefused: if it would not.
        """
        shown = said[:_SHOWN]
        if code in _AGAIN:
            raise _Failed(f"{code} {shown}")
        if code != _NOT_FOUND:
            raise RegistryRefused(f"{self._base}: {question}: {code} {shown}")
        if not _is_answer(said):
            raise _NoSuchQuestion


class _NoSuchQuestion(Exception):
    """A 404 that does not say that something is not there."""


class _Failed(Exception):
    """An answer that says no more than that there is none now."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said


def _within(seconds: float, ask: Callable[[], _T]) -> _T:
    """What a call gives, if it ends in time.

    A socket's own limit is for each read alone, and none is for looking up a name: so a registry that sends a byte now
    and then would be waited for without end. The thread of such a call is left alone.

    Raises:
        TimeoutError: if it does not.
    """
    answer: Future[_T] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            answer.set_exception(error)

    threading.Thread(target=run, name="lakestreams-registry", daemon=True).start()
    try:
        return answer.result(seconds)
    except TimeoutError:
        raise TimeoutError("timed out") from None


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


def _text(answer: Mapping[str, Any]) -> str:
    """The text of an answer's schema.

    Raises:
        KeyError, TypeError, ValueError: if it has none, also none of characters, which the ledger could not keep.
    """
    found = answer["schema"]
    if not isinstance(found, str):
        raise TypeError("the schema is no text")
    found.encode()
    return found


def _body(schema: Schema) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.text}
    if schema.kind != "AVRO":
        body["schemaType"] = schema.kind
    if schema.refers_to:
        body["references"] = [asdict(one) for one in schema.refers_to]
    return body


__all__ = ["Reference", "Registered", "Registry", "Schema"]
