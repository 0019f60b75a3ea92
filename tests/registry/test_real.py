"""The client and a real registry (Apicurio): what both mean by a schema that is there, is not, or does not fit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakestreams.errors import RegistryRefused, SchemaMissing
from lakestreams.local.registry import LocalRegistry, down, info, program, up
from lakestreams.registry import Registry, RegistryOptions, Schema

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with LocalRegistry() as found:
        yield Registry(RegistryOptions(found.url))


def record(*fields: tuple[str, str]) -> Schema:
    told = [{"name": name, "type": kind} for name, kind in fields]
    return Schema(json.dumps({"type": "record", "name": "R", "fields": told}))


def test_registered_and_asked_for(registry: Registry) -> None:
    first, second = record(("a", "int")), record(("a", "int"), ("b", "string"))
    with pytest.raises(SchemaMissing):
        registry.version("s-value")
    assert registry.id_of("s-value", first) is None
    assert registry.by_id(4711) is None
    number = registry.register("s-value", first)
    assert registry.register("s-value", first) == registry.id_of("s-value", first) == number
    known = registry.by_id(number)
    assert known is not None
    assert (json.loads(known.text), known.kind) == (json.loads(first.text), "AVRO")
    later = registry.register("s-value", second)
    assert later != number
    found = registry.version("s-value", 2)
    assert (found.subject, found.version, found.id) == ("s-value", 2, later)
    assert registry.version("s-value").id == later
    with pytest.raises(RegistryRefused):
        registry.register("s-value", Schema("no schema"))


def test_the_users_registry_is_started_once_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = program()
    monkeypatch.setenv("LAKESTREAMS_CACHE", str(tmp_path))
    for folder in (ready, ready.with_name(ready.name.removeprefix("registry-"))):  # unpacked, and as it was resolved
        (tmp_path / folder.name).symlink_to(folder)
    assert (info(), down()) == (None, False)
    started = up()
    try:
        assert up() == started == info()
        assert Registry(RegistryOptions(started.url)).by_id(4711) is None
    finally:
        assert down() is True
    assert info() is None
    assert not Path(started.folder).exists()
