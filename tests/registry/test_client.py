"""The registry's client: what it asks, how often, and what answers and their absence mean."""

from __future__ import annotations

import base64
import contextlib
import pickle
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Self

import pytest
from tests.formats.cases import told as read_by
from tests.registry.fake import Fake, fake

from lakestreams import RegistryAvro
from lakestreams.engine.ingest.writer_schemas import WriterSchemas
from lakestreams.errors import (
    KafkaOptionRefused,
    LakestreamsError,
    RegistryRefused,
    RegistryUnreachable,
    SchemaMissing,
    SecretUnresolved,
    TopologyInvalid,
)
from lakestreams.formats.writers import Written, with_known_schemas
from lakestreams.registry import Registered, Registry, RegistryOptions, Schema, client

LONG = '"long"'


@pytest.fixture
def server() -> Iterator[Fake]:
    with fake() as server:
        yield server


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_WAIT_S", 0.001)


def asked(server: Fake) -> list[str]:
    return [question for question, _, _ in server.asked]


def test_schemas_by_id(server: Fake) -> None:
    server.says("GET /schemas/ids/7", (200, {"schema": LONG}))
    server.says("GET /schemas/ids/8", (200, {"schema": "syntax = 'proto3';", "schemaType": "PROTOBUF"}))
    registry = Registry(RegistryOptions(server.url + "/"))
    assert registry.by_id(7) == Schema(LONG)
    assert registry.by_id(8) == Schema("syntax = 'proto3';", "PROTOBUF")
    assert registry.by_id(9) is None


def test_schemas_by_guid(server: Fake) -> None:
    guid, other = "7f0c1d1e-0000-4000-8000-00000000002a", "00000000-0000-0000-0000-000000000005"
    server.says(f"GET /schemas/guids/{guid}", (200, {"schema": "{}", "schemaType": "JSON", "guid": guid}))
    registry = Registry(RegistryOptions(server.url))
    assert registry.by_guid(guid) == Schema("{}", "JSON")
    assert registry.by_guid(other) is None
    assert registry.looks_up_guids()


def test_a_registry_that_looks_nothing_up_by_guid_is_told_from_an_address_that_is_no_registry(server: Fake) -> None:
    guid, none = "7f0c1d1e-0000-4000-8000-00000000002a", "00000000-0000-0000-0000-000000000000"
    for one in (guid, none):
        server.says(f"GET /schemas/guids/{one}", (404, {"error_code": 404, "message": "HTTP 404 Not Found"}))
    registry = Registry(RegistryOptions(server.url))
    assert registry.by_guid(guid) is None
    assert not registry.looks_up_guids()
    server.says("GET /schemas/ids/2147483647", (404, b"<html>"))
    with pytest.raises(RegistryRefused, match="is no schema registry"):
        registry.looks_up_guids()


def test_a_schema_comes_with_what_it_refers_to_each_text_once_and_behind_its_own(server: Fake) -> None:
    def refers(*to: str) -> list[dict[str, object]]:
        return [{"name": one, "subject": one, "version": 1} for one in to]

    server.says("GET /schemas/ids/1", (200, {"schema": "order", "references": refers("customer", "address")}))
    server.says("GET /subjects/customer/versions/1", (200, {"schema": "customer", "references": refers("address")}))
    server.says("GET /subjects/address/versions/1", (200, {"schema": "address"}))
    registry = Registry(RegistryOptions(server.url))
    assert registry.by_id(1) == Schema("order", references=("address", "customer"))
    assert len(server.asked) == 3
    server.says("GET /schemas/ids/2", (200, {"schema": "order", "references": refers("lost")}))
    with pytest.raises(SchemaMissing, match="version 1 of subject lost"):
        registry.by_id(2)


def _referring(text: str, *to: str) -> dict[str, object]:
    return {"schema": text, "references": [{"name": one, "subject": one, "version": 1} for one in to]}


def test_schemas_that_refer_to_each_other_in_a_circle_are_asked_for_once(server: Fake) -> None:
    server.says("GET /schemas/ids/1", (200, _referring("a", "b")))
    server.says("GET /subjects/b/versions/1", (200, _referring("b", "c", "b")))
    server.says("GET /subjects/c/versions/1", (200, _referring("c", "b")))
    assert Registry(RegistryOptions(server.url)).by_id(1) == Schema("a", references=("c", "b"))
    assert len(server.asked) == 3


def test_a_reference_to_a_version_that_was_deleted_is_still_read(server: Fake) -> None:
    server.says("GET /schemas/ids/1", (200, _referring("a", "b/c")))
    server.says("GET /subjects/b%2Fc/versions/1", (404, {"error_code": 40402, "message": "not found"}))
    server.says("GET /subjects/b%2Fc/versions/1?deleted=true", (200, {"schema": "b"}))
    assert Registry(RegistryOptions(server.url)).by_id(1) == Schema("a", references=("b",))
    server.says("GET /subjects/b%2Fc/versions/1?deleted=true", (404, b"<html>"))  # one that knows no such question
    with pytest.raises(SchemaMissing, match="version 1 of subject b/c, which the registry lacks"):
        Registry(RegistryOptions(server.url)).by_id(1)


NO_SCHEMA: dict[str, object] = {
    "nothing": {},
    "no text": {"schema": 5},
    "half of a character": {"schema": "\ud800"},
    "references that are none": {"schema": LONG, "references": 5},
    "a reference that is none": {"schema": LONG, "references": ["a"]},
    "a reference to nothing": {"schema": LONG, "references": [{"name": "a"}]},
    "a version that is none": {"schema": LONG, "references": [{"subject": "a", "version": "new"}]},
    "levels without end": b'{"schema": "a", "x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "a reference to no schema": _referring("a", "broken"),
    "a reference that is lost": _referring("a", "lost"),
    "a reference that is lost behind others": _referring("a", "good", "far"),
    "references without end": {
        "schema": "a",
        "references": [{"subject": "good", "version": one} for one in range(2_000)],
    },
}


@pytest.mark.parametrize("name", NO_SCHEMA)
def test_an_answer_that_is_no_schema_refuses_the_records_of_this_schema_alone(
    server: Fake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_MOST_REFERENCES", 5)
    server.says("GET /schemas/ids/7", (200, NO_SCHEMA[name]))
    server.says("GET /schemas/ids/8", (200, {"schema": LONG}))
    server.says("GET /subjects/broken/versions/1", (200, {}))
    for version in range(10):
        server.says(f"GET /subjects/good/versions/{version}", (200, {"schema": LONG}))
    server.says("GET /subjects/far/versions/1", (200, _referring("b", "lost")))
    options = RegistryOptions(server.url)
    with pytest.raises(SchemaMissing):
        Registry(options).by_id(7)
    assert len(server.asked) < 10
    schemas = WriterSchemas(options)
    said = schemas._asked(7)
    assert isinstance(said, str)
    assert schemas._asked(8) == Written("AVRO", (LONG,))
    how = with_known_schemas(RegistryAvro(LONG, "id"), {7: said, 8: Written("AVRO", (LONG,))}, strict=True)
    found = read_by(how, [b"\0\0\0\0\7\x0a", b"\0\0\0\0\x08\x0a"])
    assert found == [(None, f"schema 7 cannot be used: {said}"), ({"id": 5}, None)]


def test_a_long_chain_of_references_is_no_schema(server: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(RegistryOptions(server.url))
    monkeypatch.setattr(client, "_MOST_REFERENCES", 10**9)
    monkeypatch.setattr(registry, "_ask", lambda _, path: _referring("a", f"{path.count('n')}n" + "n" * len(path)))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)  # as in a worker; some library raises it
    try:
        with pytest.raises(SchemaMissing, match="too many levels"):
            registry.by_id(1)
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize("answer", [{}, {"id": "x", "version": None}, {"id": True, "version": 1.5}])
def test_an_answer_without_its_number_is_refused(server: Fake, answer: dict[str, object]) -> None:
    for question in ("GET /subjects/s/versions/1", "POST /subjects/s", "POST /subjects/s/versions"):
        server.says(question, (200, {"schema": LONG, **answer}))
    registry, schema = Registry(RegistryOptions(server.url)), Schema(LONG)
    for ask in (
        lambda: registry.version("s", 1),
        lambda: registry.id_of("s", schema),
        lambda: registry.version_of("s", schema),
        lambda: registry.register("s", schema),
    ):
        with pytest.raises(RegistryRefused, match="an answer has no number"):
            ask()


def test_versions_registration_and_compatibility(server: Fake) -> None:
    answer = {"subject": "a/b-value", "version": 3, "id": 7, "schema": LONG}
    server.says("GET /subjects/a%2Fb-value/versions/3", (200, answer))
    server.says("POST /subjects/a%2Fb-value", (200, answer))
    server.says("POST /subjects/a%2Fb-value/versions", (200, {"id": 8}), (409, {"error_code": 409, "message": "unfit"}))
    verdict = "POST /compatibility/subjects/a%2Fb-value/versions/latest?verbose=true"
    server.says(verdict, (200, {"is_compatible": False, "messages": ["no default"]}), (200, {"is_compatible": True}))
    registry, schema = Registry(RegistryOptions(server.url)), Schema(LONG)
    assert registry.version("a/b-value", 3) == Registered("a/b-value", 3, 7, schema)
    assert registry.id_of("a/b-value", schema) == 7
    assert registry.id_of("other", schema) is None
    assert registry.register("a/b-value", schema) == 8
    with pytest.raises(RegistryRefused, match=r"409.*unfit"):
        registry.register("a/b-value", schema)
    assert registry.incompatibilities("a/b-value", schema) == ["no default"]
    assert registry.incompatibilities("a/b-value", schema) == []
    assert registry.incompatibilities("new", schema) == []
    assert [body for _, _, body in server.asked if body] == [{"schema": LONG}] * 7
    with pytest.raises(SchemaMissing, match="no version 9 of subject s"):
        registry.version("s", 9)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_an_answer_that_may_be_another_one_soon_is_asked_for_again(server: Fake, status: int) -> None:
    server.says("GET /schemas/ids/7", (status, b"busy"), (200, b"{torn"), (200, {"schema": LONG}))
    assert Registry(RegistryOptions(server.url)).by_id(7) == Schema(LONG)
    assert len(server.asked) == 3


def test_after_the_last_try_the_registry_is_unreachable(server: Fake) -> None:
    server.says("GET /schemas/ids/7", (503, b"busy"))
    with pytest.raises(RegistryUnreachable, match=r"GET /schemas/ids/7: 503 busy \(2 tries\)"):
        Registry(RegistryOptions(server.url, {"max.retries": "1"})).by_id(7)
    assert len(server.asked) == 2


def test_nobody_there_and_nobody_answering() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        options = {"request.timeout.ms": "50", "max.retries": "0"}
        with pytest.raises(RegistryUnreachable, match="timed out"):
            Registry(RegistryOptions(f"http://127.0.0.1:{port}", options)).by_id(7)
    with pytest.raises(RegistryUnreachable, match=r"refused \(1 tries\)"):
        Registry(RegistryOptions(f"http://127.0.0.1:{port}", options)).by_id(7)


class Mute:
    """A server that takes connections and gives no whole answer; counts them.

    Args:
        again: what it says, a byte now and then without end, so that no read of a socket takes long.
        once: what it says before it breaks the connection off; None: it does not.
    """

    def __init__(self, again: bytes = b"", once: bytes | None = None) -> None:
        self.connections = 0
        self._again, self._once, self._over = again, once, threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._socket.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = self._socket.accept()
                self.connections += 1
                self._threads.append(threading.Thread(target=self._hold, args=(accepted,), daemon=True))
                self._threads[-1].start()

    def _hold(self, accepted: socket.socket) -> None:
        with accepted, contextlib.suppress(OSError):
            accepted.recv(65_536)
            if self._once is not None:
                accepted.sendall(self._once)
                return
            while not self._over.wait(0.01):
                accepted.sendall(self._again)


@pytest.mark.parametrize("drip", [b"", b"H"])
def test_a_registry_that_never_ends_an_answer_is_waited_for_once(drip: bytes) -> None:
    with Mute(drip) as mute:
        registry = Registry(RegistryOptions(mute.url, {"request.timeout.ms": "80", "max.retries": "2"}))
        with pytest.raises(RegistryUnreachable, match=r"timed out \(3 tries\)"):
            registry.by_id(1)
        for number in range(2, 200):  # each would take three times as long
            with pytest.raises(RegistryUnreachable, match="not asked, since no answer came before: TimeoutError"):
                registry.by_id(number)
        with pytest.raises(RegistryUnreachable, match="not asked"):
            registry.register("s", Schema(LONG))
        assert mute.connections == 3


def test_questions_of_other_threads_end_with_the_first_one_that_had_no_answer() -> None:
    with Mute() as mute:
        registry = Registry(RegistryOptions(mute.url, {"request.timeout.ms": "200", "max.retries": "3"}))
        said: list[str] = []

        def ask(number: int) -> None:
            with pytest.raises(RegistryUnreachable) as told:
                registry.by_id(number)
            said.append(str(told.value))

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
        threads[0].start()
        while mute.connections < 4:  # the first one is at its last try, and the others have their waits before them
            time.sleep(0.01)
        for one in threads[1:]:
            one.start()
        for one in threads:
            one.join()
        assert sum("(4 tries)" in one for one in said) == 1
        assert sum("not asked" in one for one in said) == 2
        assert mute.connections < 3 * 4


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"
BROKEN_OFF = {
    "at once": b"",
    "in the head": HEAD[:20],
    "behind the head": HEAD,
    "in the body": HEAD + b'{"schema": ',
    "in a chunk": b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n63\r\n{"schema": ',
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n",
    "a code that is none": b"HTTP/1.1 abc\r\n\r\n",
    "a code of another kind": b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 99\r\n\r\n<ht",
}


@pytest.mark.parametrize("name", BROKEN_OFF)
def test_a_registry_that_is_killed_while_it_answers_is_unreachable(name: str) -> None:
    with Mute(once=BROKEN_OFF[name]) as mute:
        with pytest.raises(RegistryUnreachable, match=r"\(2 tries\)"):
            Registry(RegistryOptions(mute.url, {"max.retries": "1"})).by_id(1)
        assert mute.connections == 2


def test_waits_between_tries_are_bounded(server: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(client, "_WAIT_S", 0.2)
    monkeypatch.setattr(client, "sleep", waited.append)  # its own name: other threads of this process sleep on
    server.says("GET /schemas/ids/7", (503, b"busy"))
    with pytest.raises(RegistryUnreachable, match="100 tries"):
        Registry(RegistryOptions(server.url, {"max.retries": "99"})).by_id(7)
    assert (waited[:3], max(waited), len(waited)) == ([0.2, 0.4, 0.8], 5.0, 99)


@pytest.mark.parametrize(
    ("status", "said", "message"),
    [(401, {"message": "Unauthorized"}, "401"), (403, b"no", "403 no"), (404, b"<html>", "no schema registry"),
     (404, {"error_code": 404, "message": "HTTP 404 Not Found"}, "no schema registry"),
     (302, b"", "302"), (200, [1], "no JSON object")],
)  # fmt: skip
def test_what_is_refused_is_not_asked_again(server: Fake, status: int, said: object, message: str) -> None:
    server.says("GET /schemas/ids/7", (status, said))
    with pytest.raises(RegistryRefused, match=message):
        Registry(RegistryOptions(server.url)).by_id(7)
    assert len(server.asked) == 1


def test_signing_in(server: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {("sr", "user"): "ada", ("sr", "password"): "pa:ss", ("sr", "token"): "t0ken-t0ken"}
    server.says("GET /schemas/ids/7", (200, {"schema": LONG}))

    def header(options: dict[str, str]) -> str | None:
        given = RegistryOptions(server.url, options, lambda scope, key: secrets.get((scope, key)))
        assert "pa:ss" not in repr(given) + str(pickle.dumps(RegistryOptions(server.url, options)))
        Registry(given).by_id(7)
        return server.asked[-1][1].get("Authorization")

    basic = "Basic " + base64.b64encode(b"ada:pa:ss").decode()
    assert header({"basic.auth.user.info": "secret://sr/user:secret://sr/password"}) == basic
    monkeypatch.setenv("SR_LOGIN", "ada:pa:ss")
    assert header({"basic.auth.user.info": "${SR_LOGIN}"}) == basic
    assert (
        header({"bearer.auth.token": "secret://sr/token", "bearer.auth.logical.cluster": "lsrc-1"})
        == "Bearer t0ken-t0ken"
    )
    assert server.asked[-1][1]["Target-Sr-Cluster"] == "lsrc-1"
    assert header({}) is None
    with pytest.raises(SecretUnresolved, match="LAKESTREAMS_SECRET_SR_LOST"):
        header({"bearer.auth.token": "secret://sr/lost"})
    server.says("GET /schemas/ids/7", (401, b"who is t0ken-t0ken?"))
    with pytest.raises(RegistryRefused) as told:
        header({"bearer.auth.token": "secret://sr/token"})
    assert "t0ken" not in str(told.value)


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("registry:8081", {}, "http"),
        ("ftp://registry", {}, "http"),
        ("https://user:pw@registry", {}, "http"),
        ("https://registry", {"basic.auth.user.info": "ada:pw"}, "written out"),
        ("https://registry", {"bearer.auth.token": "${TOKEN:-abc}"}, "written out"),
        ("https://registry", {"bearer.auth.token": "x${TOKEN}"}, "written out"),
        ("https://registry", {"basic.auth.userinfo": "${X}"}, "did you mean basic.auth.user.info"),
        ("https://registry", {"request.timeout.ms": "soon"}, "milliseconds"),
        ("https://registry", {"ssl.ca.location": "ca.pem"}, "absolute path"),
        ("https://registry", {"ssl.key.location": "/k.pem"}, "belong together"),
        ("http://registry", {"bearer.auth.token": "${TOKEN}"}, "https"),
        ("https://registry", {"bearer.auth.token": "${A}", "basic.auth.user.info": "${B}"}, "exclude each other"),
        ("https://registry", {"a": "b", "c": "d"}, "'c'"),
    ],
)
def test_options_that_are_refused(url: str, options: dict[str, str], message: str) -> None:
    with pytest.raises((KafkaOptionRefused, TopologyInvalid)) as told:
        RegistryOptions(url, options)
    assert message in str(told.value)


def test_a_certificate_that_is_not_there_is_told_before_anything_is_asked() -> None:
    options = {"ssl.certificate.location": "/nowhere/c.pem", "ssl.key.location": "/nowhere/k.pem"}
    with pytest.raises(LakestreamsError, match=r"ssl.*cannot be used"):
        Registry(RegistryOptions("https://127.0.0.1:1", options))
