"""`lakestreams local`: topics by hand, JSON lines in and out of a real broker; ports. Lines alone need no broker."""

from __future__ import annotations

import json
import socket
import uuid

import pytest
from typer.testing import CliRunner

from lakestreams.cli.app import app
from lakestreams.errors import BrokerUnreachable, InvalidOption, PortTaken
from lakestreams.local import topics as local_topics
from lakestreams.local import user_broker
from lakestreams.local.broker import Record
from lakestreams.local.jars import broker_jars, jar_dir
from lakestreams.local.pins import BROKER_PINS
from lakestreams.local.topics import parsed
from lakestreams.local.user_broker import BrokerInfo

runner = CliRunner()


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """The user's own broker is not looked at; the jars are those of the real cache, if it has them."""
    jars = jar_dir(BROKER_PINS)
    monkeypatch.setenv("LAKESTREAMS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / jars.name).symlink_to(jars)
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))


# --- lines -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "key", "value", "at_ms"),
    [
        ('{"value": "a"}', None, b"a", None),
        ('{"key": "k", "value": null, "at": 5}', b"k", None, 5),
        ('{"key": 7, "value": {"page": "ü"}}', b"7", '{"page": "ü"}'.encode(), None),
        ('{"value": [1, true]}', None, b"[1, true]", None),
        ('{"key": {"$long": -2}, "value": {"$int": 5}}', b"\xff" * 7 + b"\xfe", b"\0\0\0\5", None),
        ('{"value": {"$base64": "/w=="}}', None, b"\xff", None),
        ('{"value": "a", "at": "2023-11-14T22:22:20.5Z"}', None, b"a", 1_700_000_540_500),
        ('{"value": "a", "at": "2023-11-14T22:22:20"}', None, b"a", 1_700_000_540_000),
        ('{"value": "a", "at": "2023-11-14T23:22:20+01:00", "offset": 3}', None, b"a", 1_700_000_540_000),
    ],
)
def test_a_line_is_a_record(line, key, value, at_ms):
    (one,) = parsed(["", line, "  "], "f")
    assert (one.key, one.value, one.timestamp_ms) == (key, value, at_ms)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "the line is not JSON"),
        ("5", "no JSON object with a value"),
        ('{"key": "a"}', "no JSON object with a value"),
        ('{"value": 1, "tme": 2}', "a record has no 'tme'"),
        ('{"value": 1, "at": "noon"}', "at is 'noon'"),
        ('{"value": 1, "at": 0}', "times begin at 1 ms"),
        ('{"value": 1, "at": true}', "at is True"),
        ('{"value": 1, "partition": -1}', "partition is -1"),
        ('{"value": 1, "headers": 5}', "headers is no mapping"),
        ('{"value": {"$int": 3000000000}}', "no whole number of 4 bytes"),
        ('{"value": {"$int": 1.7}}', "1.7 is no whole number of 4 bytes"),
        ('{"value": {"$long": true}}', "True is no whole number of 8 bytes"),
        ('{"value": {"$base64": "?"}}', "is not base64"),
        ('{"value": 1, "at": 9223372036854775808}', "a record can hold 9223372036854775807 ms at most"),
        ('{"value": ' + "[" * 100_000 + "]" * 100_000 + "}", "the line nests too deep"),
    ],
)
def test_what_is_no_record_is_told_with_its_line(line, said):
    with pytest.raises(InvalidOption) as refused:
        list(parsed(['{"value": 1}', line], "views.jsonl"))
    assert said in refused.value.message
    assert refused.value.where == "views.jsonl:2"


def test_a_record_whose_time_is_in_no_calendar_is_shown():
    """Such as one in microseconds by mistake."""

    class Stored:
        """What a consumer gives."""

        def timestamp(self):
            return 1, 1_769_860_800_000_000

        def __getattr__(self, _name):
            return lambda: None

    line = local_topics.shown(Stored())
    assert (line["at"], line["at_ms"]) == ("1769860800000000", 1_769_860_800_000_000)
    (again,) = parsed([json.dumps(line | {"partition": 0})], "f")
    assert again.timestamp_ms == 1_769_860_800_000_000


@pytest.mark.parametrize("servers", ["", "localhost", "http://localhost:9092"])
def test_an_address_that_is_none_is_refused(servers):
    result = runner.invoke(app, ["local", "topic", "--bootstrap-servers", servers])
    assert (result.exit_code, result.stderr.split()[0]) == (1, "LS205")


def test_records_that_were_not_delivered_in_time_are_told(monkeypatch):
    class Hanging:
        """A producer whose broker does not answer any more."""

        def __init__(self, _config):
            pass

        def produce(self, *_record, **_named):
            pass

        def poll(self, _seconds):
            pass

        def flush(self, _seconds):
            return 2

    monkeypatch.setattr(local_topics, "Producer", Hanging)
    monkeypatch.setattr(local_topics.Topics, "_require", lambda _self, _topic: [0])
    with pytest.raises(BrokerUnreachable, match="2 records were not delivered"):
        local_topics.Topics("127.0.0.1:1").produce("t", [Record(None, "a"), Record(None, "b")])


# --- ports -----------------------------------------------------------------------------------------------------------


def running_at(port):
    return BrokerInfo(f"127.0.0.1:{port}", 1, 2, "/d", False, "/d/log")


@pytest.mark.parametrize(
    ("arguments", "asked", "runs_at", "said"),
    [
        ([], 9092, 9092, "broker at 127.0.0.1:9092"),
        (["--port", "9192"], 9192, 9192, "export KAFKA_BOOTSTRAP=127.0.0.1:9192"),
        (["--port", "0"], None, 40_000, "export KAFKA_BOOTSTRAP=127.0.0.1:40000"),
        ([], 9092, 9192, "export KAFKA_BOOTSTRAP=127.0.0.1:9192"),
    ],
)
def test_the_port_is_the_one_in_conf_unless_another_is_asked_for(monkeypatch, arguments, asked, runs_at, said):
    seen = []
    monkeypatch.setattr(user_broker, "up", lambda *_, port, **__: seen.append(port) or running_at(runs_at))
    result = runner.invoke(app, ["local", "up", *arguments])
    assert (result.exit_code, seen) == (0, [asked])
    assert said in result.stdout
    assert ("export" in result.stdout) is (runs_at != 9092)


def test_a_broker_at_another_port_and_a_port_that_is_taken_are_told_with_what_to_do(monkeypatch):
    monkeypatch.setattr(user_broker, "up", lambda *_, **__: running_at(9092))
    other = runner.invoke(app, ["local", "up", "--port", "9192"])
    assert (other.exit_code, "lakestreams local down; then lakestreams local up --port 9192" in other.stderr) == (
        1,
        True,
    )

    def taken(*_, port, **__):
        raise PortTaken(f"port {port} on 127.0.0.1 is in use")

    monkeypatch.setattr(user_broker, "up", taken)
    result = runner.invoke(app, ["local", "up"])
    assert (result.exit_code, "--port 9192; --port 0 takes any" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--keep"], "and its data go when it ends"), (["--data-dir", "elsewhere"], "on the data in /d")],
)
def test_what_a_broker_that_runs_already_does_not_do_is_told(monkeypatch, arguments, said):
    monkeypatch.setattr(user_broker, "up", lambda *_, **__: running_at(9092))
    result = runner.invoke(app, ["local", "up", *arguments])
    assert (result.exit_code, f"a broker runs already, {said}" in result.stderr) == (1, True), result.output


@pytest.mark.parametrize("arguments", [["topic"], ["produce", "t"], ["consume", "t"]])
def test_without_a_broker_the_command_that_starts_one_is_named(arguments):
    result = runner.invoke(app, ["local", *arguments])
    assert result.exit_code == 1
    assert "LS301" in result.stderr
    assert "lakestreams local up" in result.stderr


# --- a real broker ---------------------------------------------------------------------------------------------------


@pytest.mark.broker
def test_records_go_in_and_come_out_as_json_lines(broker, tmp_path):
    def local(*arguments, **given):
        return runner.invoke(app, ["local", *arguments, "--bootstrap-servers", broker.bootstrap_servers], **given)

    topic = f"views-{uuid.uuid4().hex}"
    assert local("topic", topic, "--partitions", "2").exit_code == 0
    again = local("topic", topic)
    assert (again.exit_code, "is there already" in again.stderr) == (1, True)
    lines = [
        {"key": "alice", "value": {"page": "/"}, "at": "2023-11-14T22:22:20.000Z", "partition": 0},
        {
            "key": None,
            "value": "plain",
            "at_ms": 1_700_000_540_001,
            "partition": 1,
            "headers": {"h": "1", "n": ["a", None]},
        },
        {"key": {"$base64": "/w=="}, "value": None, "at_ms": 1_700_000_540_002, "partition": 0},
    ]
    text = "\n".join(map(json.dumps, lines))
    assert "3 records written" in local("produce", topic, input=text).stdout

    records = json.loads(local("consume", topic, "--json").stdout)["records"]
    by_place = {(one["partition"], one["offset"]): one for one in records}
    assert by_place[0, 0] == {
        "topic": topic, "partition": 0, "offset": 0, "key": "alice", "value": {"page": "/"},
        "at": "2023-11-14T22:22:20.000Z", "at_ms": 1_700_000_540_000,
    }  # fmt: skip
    assert (by_place[1, 0]["headers"], by_place[1, 0]["key"]) == ({"h": "1", "n": ["a", None]}, None)
    assert (by_place[0, 1]["key"], by_place[0, 1]["value"]) == ({"$base64": "/w=="}, None)
    assert len(local("consume", topic, "--limit", "2").stdout.splitlines()) == 2

    copied = tmp_path / "copied.jsonl"
    copied.write_text(local("consume", topic).stdout)
    copy = f"copy-{uuid.uuid4().hex}"
    assert local("topic", copy, "--partitions", "2").exit_code == 0
    assert local("produce", copy, str(copied)).exit_code == 0
    same = json.loads(local("consume", copy, "--json").stdout)["records"]
    assert {(one["partition"], one["offset"]): {**one, "topic": topic} for one in same} == by_place

    counts = json.loads(local("topic", "--json").stdout)["topics"]
    assert (counts[topic], counts[copy]) == ([2, 1], [2, 1])
    refused = local("produce", topic, input='{"value": "a"}\n{"value": "b", "at": "noon"}')
    assert (refused.exit_code, "stdin:2" in refused.stderr) == (1, True)
    far = local("produce", topic, input='{"value": "a", "partition": 2}')
    assert (far.exit_code, "has no partition 2" in far.stderr) == (1, True)
    assert sum(json.loads(local("topic", "--json").stdout)["topics"][topic]) == 3, "nothing of them was written"
    missing = local("consume", "nowhere-to-be-found")
    assert (missing.exit_code, "LS302 TOPIC_MISSING" in missing.stderr) == (1, True)
    assert local("topic", topic, "--delete").exit_code == 0
    assert local("consume", topic).exit_code == 1


@pytest.fixture
def free_port():
    """A port that nobody listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.broker
def test_the_broker_runs_at_its_port_and_is_the_one_that_other_commands_mean(free_port):
    def local(*arguments, **given):
        result = runner.invoke(app, ["local", *arguments, "--json"], **given)
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    broker_jars()
    try:
        assert local("up", "--port", str(free_port))["bootstrap_servers"] == f"127.0.0.1:{free_port}"
        local("topic", "views")
        local("produce", "views", input='{"value": "a"}')
        assert local("topic")["topics"] == {"views": [1]}
        assert [one["value"] for one in local("consume", "views")["records"]] == ["a"]
    finally:
        assert local("down") == {"ended": True}
