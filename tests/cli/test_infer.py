"""`lakestreams infer` on a real broker: what it prints is read by `check`, and names what it cannot read."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.engine.secured import PLAIN, secured_broker
from tests.formats.avro.judge import framed
from tests.formats.avro.judge import written as avro
from tests.registry.fake import fake
from typer.testing import CliRunner

from lakestreams.cli.app import app
from lakestreams.config import load_pipeline

if TYPE_CHECKING:
    from lakestreams.local.broker import Broker

pytestmark = pytest.mark.broker
AT = 1_700_000_000_000
PAID = {"type": "record", "name": "Paid", "fields": [
    {"name": "id", "type": "long"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
]}  # fmt: skip


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
    records = [framed(avro(PAID, {"id": n, "at": AT}), 7) for n in range(5)]
    broker.produce(topic, [("a", raw, AT + n) for n, raw in enumerate([*records, records[0][:-1]])])
    with fake() as server:
        schema = {"schema": json.dumps(PAID)}
        server.says("GET /schemas/ids/7", (200, schema))
        newest = {"subject": f"{topic}-value", "version": 4, "id": 7, **schema}
        server.says(f"GET /subjects/{topic}-value/versions/latest", (200, newest))
        sources = {"kafka": {"bootstrap_servers": broker.bootstrap_servers}, "registry": {"url": server.url}}
        (tmp_path / "sources.yml").write_text(yaml.safe_dump(sources))
        code, said = inferred(topic, "--sources", str(tmp_path / "sources.yml"))
        assert code == 0, said
        ((name, declared),) = source_of(said).items()
        assert declared["value"] == {"registry_avro": PAID}
        assert f"lakestreams registry pull {topic}-value" in said
        assert "1 of 6 values are not read: at: the record ends within it" in said
        (tmp_path / "sources.yml").write_text(yaml.safe_dump({**sources, "topics": {name: declared}}))
        (tmp_path / "p.yml").write_text(f"pipeline: p\noutputs: {{silver.paid: {{from: {name}}}}}\n")
        (source,) = load_pipeline(tmp_path / "p.yml").topology.sources
        assert {one.name: one.type for one in source.value.fields} == {"id": "bigint", "at": "timestamp"}

        # a registry that does not let one in says so; what it says is no secret of ours
        server.says("GET /schemas/ids/7", (401, {"error_code": 40101, "message": "Unauthorized"}))
        server.asked.clear()
        code, said = inferred(topic, "--sources", str(tmp_path / "sources.yml"))
        assert (code, "LS309" in said, "Unauthorized" in said) == (1, True, True), said
        assert len(server.asked) == 1, "a wrong password is not tried again"
    code, said = inferred(topic, "--sources", str(tmp_path / "sources.yml"))
    assert (code, "LS308" in said) == (1, True), said


@pytest.mark.slow
def test_a_wrong_password_of_kafka_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is not let in would try until its time is over: the options below give it ten minutes."""
    options = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="ada" password="secret://kafka/password";',
        "default.api.timeout.ms": "600000",
        "request.timeout.ms": "600000",
    }
    with secured_broker({"ada": "right-7Qz4"}) as (running, address):
        running.create_topic("locked", 1)
        running.produce("locked", [("a", '{"id": 5}', AT)])
        sources = {"kafka": {"bootstrap_servers": address, "options": options}}
        (tmp_path / "sources.yml").write_text(yaml.safe_dump(sources))
        for password, expected in (("wrong-5Hw9", 1), ("right-7Qz4", 0)):
            monkeypatch.setenv("LAKESTREAMS_SECRET_KAFKA_PASSWORD", password)
            code, said = inferred("locked", "--sources", str(tmp_path / "sources.yml"))
            assert (code, "LS306" in said, password in said) == (expected, bool(expected), False), said


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
