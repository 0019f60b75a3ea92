"""What a run asks of the registry before it writes a topic: the schema's subject, and of Protobuf those of its imports."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.registry.fake import Fake, fake

from lakestreams import RegistryProtobuf, StreamsBuilder, Topology
from lakestreams.engine.publish import subjects
from lakestreams.errors import RegistryRefused, SchemaMissing
from lakestreams.registry import RegistryOptions

HEAD = 'syntax = "proto3"; '
MONEY = HEAD + "message Money { int64 cents = 1; }"
ITEM = HEAD + 'import "shop/money.proto"; message Item { Money price = 1; }'
ORDER = HEAD + 'import "shop/item.proto"; import "shop/money.proto"; message Order { Item item = 1; Money sum = 2; }'
MONEYS, ITEMS = "shop%2Fmoney.proto", "shop%2Fitem.proto"


@pytest.fixture
def server() -> Iterator[Fake]:
    with fake() as server:
        yield server


def topology(*, register: bool) -> Topology:
    builder = StreamsBuilder("orders")
    imports = (("shop/money.proto", MONEY), ("shop/item.proto", ITEM))
    how = RegistryProtobuf(ORDER, "Order", imports=imports, register=register)
    builder.stream("Orders", key=RegistryProtobuf(MONEY), value=how).to_kafka("Out", value=how)
    return builder.build()


def reference(name: str, version: int) -> dict[str, object]:
    return {"name": name, "subject": name, "version": version}


def test_imports_are_registered_first_and_referred_to_by_their_versions(server: Fake) -> None:
    missing = (404, {"error_code": 40403, "message": "not found"})
    server.says(f"POST /subjects/{MONEYS}", (200, {"id": 3, "version": 2}))  # it is there
    server.says(f"POST /subjects/{ITEMS}", missing, (200, {"id": 4, "version": 1}))
    server.says(f"POST /subjects/{ITEMS}/versions", (200, {"id": 4}))
    server.says("POST /subjects/Out-value/versions", (200, {"id": 7}))
    found = subjects.prefixes(topology(register=True), RegistryOptions(server.url))
    assert found == {"Out": {"value": b"\0\0\0\0\7"}}
    bodies = {question: body for question, _, body in server.asked}
    assert bodies[f"POST /subjects/{MONEYS}"] == {"schema": MONEY, "schemaType": "PROTOBUF"}
    item = {"schema": ITEM, "schemaType": "PROTOBUF", "references": [reference("shop/money.proto", 2)]}
    assert bodies[f"POST /subjects/{ITEMS}"] == bodies[f"POST /subjects/{ITEMS}/versions"] == item
    both = [reference("shop/item.proto", 1), reference("shop/money.proto", 2)]
    order = {"schema": ORDER, "schemaType": "PROTOBUF", "references": both}
    assert bodies["POST /subjects/Out-value/versions"] == bodies["POST /subjects/Out-value"] == order
    assert bodies["POST /compatibility/subjects/Out-value/versions/latest?verbose=true"] == order


def test_an_import_that_is_not_there_or_does_not_fit_is_told(server: Fake) -> None:
    options = RegistryOptions(server.url)
    with pytest.raises(SchemaMissing, match=r"value: subject shop/money.proto does not have the declared schema"):
        subjects.prefixes(topology(register=False), options)
    verdict = f"POST /compatibility/subjects/{MONEYS}/versions/latest?verbose=true"
    server.says(verdict, (200, {"is_compatible": False, "messages": ["a field is gone"]}))
    with pytest.raises(RegistryRefused, match=r"not compatible with subject shop/money.proto\s+a field is gone"):
        subjects.prefixes(topology(register=True), options)
    server.says(verdict, (200, {"is_compatible": True}))
    server.says(f"POST /subjects/{MONEYS}/versions", (200, {"id": 3}))
    with pytest.raises(RegistryRefused, match="has taken a schema, and does not find it"):
        subjects.prefixes(topology(register=True), options)
