"""`lakestreams infer` on a real broker: what it prints is read by `check`, and names what it cannot read."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.registry.fake import fake
from typer.testing import CliRunner

from lakestreams.cli.app import app
from lakestreams.config import load_pipeline

if TYPE_CHECKING:
    from lakestreams.local.broker import Broker

pytestmark = pytest.mark.broker
AT = 1_700_000_000_000


def inferred(*arguments: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, ["infer", *arguments])
    return found.exit_code, found.output


def source_of(said: str) -> dict[str, Any]:
    """The lines below `topics:`."""
    found: dict[str, Any] = yaml.safe_load(said.partition("under topics:")[2])
    return found


def test_the_printed_lines_make_a_pipeline(broker: Broker, tmp_path: Path) -> None:
    topic = f"shop.orders-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, 3)
    rows = [{"id": n, "user-id": f"u{n % 7}", "amount": n / 4, "placed": "2024-03-01T12:00:00Z"} for n in range(60)]
    broker.produce(topic, [(f"o{row['id']}", json.dumps(row), AT + row["id"]) for row in rows])
    broker.produce(topic, [("o61", "{broken", AT)])
    code, said = inferred(
        topic, "--bootstrap-servers", broker.bootstrap_servers, "--sources", str(tmp_path / "none.yml")
    )
    assert code == 0, said
    assert "the newest 61 records of 3 partitions" in said
    assert "1 of 61 values are not read: " in said
    sources = {"kafka": {"bootstrap_servers": broker.bootstrap_servers}, "topics": source_of(said)}
    (tmp_path / "sources.yml").write_text(yaml.safe_dump(sources))
    ((name, declared),) = sources["topics"].items()
    assert declared["value"]["fields"] == {"user_id": "user-id"}
    (tmp_path / "p.yml").write_text(f"pipeline: p\noutputs: {{silver.orders: {{from: {name}}}}}\n")
    (source,) = load_pipeline(tmp_path / "p.yml").topology.sources
    assert {one.name: one.type for one in source.value.fields} == {
        "id": "bigint", "user_id": "string", "amount": "double", "placed": "timestamp",
    }  # fmt: skip

    # by the sources' file that there is now, a few records of it
    code, said = inferred(topic, "--sources", str(tmp_path / "sources.yml"), "-n", "9", "--json")
    told = json.loads(said)
    assert (code, told["records"]) == (0, 9)
    assert [one["records"] for one in told["not_read"]] == [1], "the broken one is the newest of its partition"
    assert told["source"] == {name: declared}


def test_the_page_shows_what_is_printed(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    tag = f"t{uuid.uuid4().hex[:8]}"
    topic = f"{tag}.shop.orders"
    broker.create_topic(topic, 3)
    rows = [{"id": n, "user-id": None if n % 25 == 0 else f"u{n % 7}", "placed_at": AT + n} for n in range(100)]
    broker.produce(topic, [(f"o{row['id']}", json.dumps(row), AT) for row in rows])
    code, said = inferred(
        topic, "--bootstrap-servers", broker.bootstrap_servers, "--sources", str(tmp_path / "none.yml")
    )
    assert code == 0, said
    said = said.replace(f"{tag}.", "").replace(f"{tag}_", "")
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    shown = page.partition("\n## infer\n")[2].partition("```text\n")[2].partition("```")[0]
    own, page_lines = ([line.rstrip() for line in text.strip().splitlines()] for text in (said, shown))
    assert own == page_lines


def test_behind_a_registry(broker: Broker, tmp_path: Path) -> None:
    topic = f"paid-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, 1)
    broker.produce(topic, [("a", b"\0\0\0\0\7\2", AT + n) for n in range(5)])
    with fake() as server:
        server.says("GET /schemas/ids/7", (200, {"schema": '"long"'}))
        server.says(
            f"GET /subjects/{topic}-value/versions/latest",
            (200, {"subject": f"{topic}-value", "version": 4, "id": 7, "schema": '"long"'}),
        )
        sources = {"kafka": {"bootstrap_servers": broker.bootstrap_servers}, "registry": {"url": server.url}}
        (tmp_path / "sources.yml").write_text(yaml.safe_dump(sources))
        code, said = inferred(topic, "--sources", str(tmp_path / "sources.yml"))
    assert code == 0, said
    ((_, declared),) = source_of(said).items()
    assert declared["value"] == {"registry_avro": f"schemas/{topic}-value.v4.avsc"}
    assert f"lakestreams registry pull {topic}-value" in said


def test_what_cannot_be_looked_at_is_said(broker: Broker, tmp_path: Path) -> None:
    none = ("--sources", str(tmp_path / "none.yml"))
    code, said = inferred("nowhere", "--bootstrap-servers", broker.bootstrap_servers, *none)
    assert (code, "LS302" in said or "does not exist" in said) == (1, True), said
    code, said = inferred("nowhere", *none)
    assert (code, "none.yml" in said) == (1, True), said
    empty = f"empty-{uuid.uuid4().hex[:8]}"
    broker.create_topic(empty, 2)
    code, said = inferred(empty, "--bootstrap-servers", broker.bootstrap_servers, *none)
    assert (code, f"topic {empty} has no record" in said) == (1, True), said
    binary = f"binary-{uuid.uuid4().hex[:8]}"
    broker.create_topic(binary, 1)
    broker.produce(binary, [("k", bytes([200, n, 255]), AT) for n in range(5)])
    code, said = inferred(binary, "--bootstrap-servers", broker.bootstrap_servers, *none)
    assert (code, "# value: which format?" in said) == (1, True), said
