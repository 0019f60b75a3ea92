"""A real registry with what Confluent's has since 8.0, and Apicurio has not: schemas have GUIDs, and are looked up by them.

It stands before the real one. What is asked under `/schemas/guids/` is answered as Confluent's REST interface documents it,
and answers that name a schema's id name its GUID as well. Everything else is the real registry's.
"""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

from tests.registry.gate import Gate, Passing
from tests.registry.serving import serving

_BY_GUID = re.compile(r"/schemas/guids/([0-9a-fA-F-]{36})(\?.*)?\Z")
_SAYS_ID = re.compile(r"/subjects/[^/]+(/versions(/\w+)?)?(\?.*)?\Z")
_NOT_FOUND = (404, b'{"error_code":40403,"message":"Schema not found"}')


class Guids(Gate):
    """The registry.

    Attributes:
        ids: the id of each GUID that was given out.
    """

    def __init__(self, behind: str) -> None:
        super().__init__(behind, _Answering)
        self.ids: dict[str, int] = {}


class _Answering(Passing):
    server: Guids

    def answered(self, path: str, body: bytes | None) -> tuple[int, bytes]:
        asked = _BY_GUID.match(path)
        if asked is not None:
            number = self.server.ids.get(asked[1].lower())
            if number is None:
                return _NOT_FOUND
            code, text = self.passed_on("GET", f"/schemas/ids/{number}")
            return code, json.dumps({**json.loads(text), "guid": asked[1]}).encode()
        code, text = self.passed_on(self.command, path, body)
        if code != 200 or _SAYS_ID.match(path) is None:
            return code, text
        found = json.loads(text)
        return code, json.dumps({**found, "guid": self._guid(int(found["id"]))}).encode()

    def _guid(self, number: int) -> str:
        """The GUID of an id: made of the schema alone, so that equal ones have the same."""
        found: dict[str, Any] = json.loads(self.passed_on("GET", f"/schemas/ids/{number}")[1])
        content = json.dumps([found.get("schemaType", "AVRO"), found["schema"], found.get("references")])
        guid = str(UUID(bytes=hashlib.md5(content.encode(), usedforsecurity=False).digest()))
        self.server.ids[guid] = number
        return guid


def guids(behind: str) -> AbstractContextManager[Guids]:
    return serving(Guids(behind))
