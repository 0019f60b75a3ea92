"""A secret that Kafka is given, and takes, is in no file, table, log or message, however the run ends.

The broker of this module has a listener at which clients sign in (SASL, PLAIN): the canary is the password. Runs and commands
share one process (`commands.py`); what they leave behind is searched whole (`searching.py`), and so is what the broker keeps.
A second text, the beacon, is where anybody may see it: it must be found in each kind of place that the search goes through.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.engine.searching import found_in, holds
from tests.engine.secured import PLAIN, quoted, secured_broker

from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]
ROOT = Path(__file__).parents[2]

CANARY = "canary-7Qz4vXk"
BEACON = "beacon-5Hw9tRm"
PASSWORD = f'{CANARY}-of "signing" in\\'
IN_JAAS = quoted(PASSWORD)[1:-1]
SECRETS = {
    "LAKESTREAMS_SECRET_KAFKA_PASSWORD": PASSWORD,
    "LAKESTREAMS_SECRET_KAFKA_WRONG": f"{CANARY}-of-somebody-else",
    "LAKESTREAMS_SECRET_KAFKA_KEY": f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----",
    "LAKESTREAMS_SECRET_KAFKA_TRUSTSTORE": f"{CANARY}-of-the-truststore",
    "LAKESTREAMS_SECRET_KAFKA_NO_MODULE": f"{CANARY} is not a login module",
}
OPTIONS = f"""\
    client.id: {BEACON}
    security.protocol: SASL_PLAINTEXT
    sasl.mechanism: PLAIN
    sasl.jaas.config: >-
      {PLAIN} required
      username="lakestreams" password="secret://kafka/password";
    ssl.keystore.key: secret://kafka/key
    default.api.timeout.ms: 3000
    request.timeout.ms: 2000
    reconnect.backoff.max.ms: 100
"""
SOURCES = """\
kafka:
  bootstrap_servers: {servers}
  options:
{options}
topics:
  Views:
    kind: stream
    topic: {BEACON}-views
    key: {{text: user}}
    value: {{json: "page string, seconds int"}}
  Users:
    kind: table
    topic: {BEACON}-users
    key: {{text: user}}
    value: {{text: region}}
"""
PIPELINE = f"""\
pipeline: page_views
steps:
  enriched:
    left_join: {{left: Views, right: Users}}
    select:
      page: Views.page
      region: coalesce(Users.region, 'nowhere')
outputs:
  silver.enriched: {{from: enriched}}
  {BEACON}-enriched: {{from: enriched, to: kafka, key: {{text: user}}}}
"""
PARTITIONS = {"views": 2, "users": 2, "enriched": 2, "three": 3, "many": 2, "unseen": 2, "unread": 2, "unwritten": 2}


@dataclass(frozen=True)
class Run:
    """One run of the job, or of a command.

    Attributes:
        name: of its files.
        told: what is on stdout or stderr, which shows that it ended as it was meant to.
        code: its exit code; None where it is killed.
        options: of Kafka, in the place of OPTIONS.
        change: of the two files' texts: what is replaced, and by what.
        servers: Kafka's address, in the place of the listener where clients sign in.
        command: of `lakestreams`, instead of the job; `{pipeline}` and `{root}` stand for file and folder of tables.
        lake: the folder of tables, by default one of its own.
        environment: what is in it beside the secrets.
        arguments: of the job, beside its file and the folder of its tables.
    """

    name: str
    told: str
    code: int | None = 1
    options: str = OPTIONS
    change: tuple[tuple[str, str], ...] = ()
    servers: str | None = None
    command: str | None = None
    lake: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()


def changed(old: str, new: str) -> str:
    assert old in OPTIONS
    return OPTIONS.replace(old, new)


def command(name: str, text: str, told: str, *, lake: str = "success") -> Run:
    """A command that has nothing to find fault with."""
    return Run(name, told, 0, command=text, lake=lake)


SUCCESSES = (
    Run("success", r"page_views: 1 cycles, 4 records, 0 unreadable", 0),
    command("check", "check {pipeline} --root {root} --explain", f"{BEACON}-views"),
    command("status", "status {pipeline} --root {root} --json", f"{BEACON}-views"),
    command("report", "report {pipeline} --root {root} --out {root}/report.html", "report.html"),
)
FILES = (
    Run("bad-yaml", "LS201", change=((f"topic: {BEACON}-views", f'topic: "{BEACON}-views'),)),
    Run("unknown-key", "LS202", change=(("kind: stream", "knd: stream"),)),
    Run("expression", "LS204", change=(("page: Views.page", "page: java_method('java.lang.System', 'getenv')"),)),
    Run("refused-option", "LS205", options=f"{OPTIONS}    sasl.client.callback.handler.class: {BEACON}\n"),
    Run("written-out", "LS205", options=changed("secret://kafka/password", IN_JAAS)),
    Run("written-out-in-bad-yaml", "LS201", options=changed("secret://kafka/key", f'"{CANARY}')),
    Run("one-of-two-is-missing", "LS206", options=changed("secret://kafka/key", "secret://kafka/none")),
    Run("no-module-in-a-secret", "LS205",
        options=re.sub(r"config: >-\n.*\n.*", "config: secret://kafka/no-module", OPTIONS)),
)  # fmt: skip
# Kafka's clients, and not we, find the fault: the options are theirs by then.
CONNECTIONS = (
    Run("nobody-there", "LS301 BROKER_UNREACHABLE", servers="127.0.0.1:9"),
    Run("wrong-password", r"LS306(?s:.*)SaslAuthenticationException", options=changed("secret://kafka/password", "secret://kafka/wrong")),
    Run("truststore-that-is-none", r"LS306(?s:.*)Failed to load SSL keystore",
        options=changed("SASL_PLAINTEXT", "SASL_SSL").replace("    ssl.keystore.key: secret://kafka/key\n", "") +
        "    ssl.truststore.location: {sources}\n    ssl.truststore.password: secret://kafka/truststore\n"),
)  # fmt: skip
RIGHTS = (
    Run("right-to-read", f"LS307(?s:.*){BEACON}-unread", change=((f"topic: {BEACON}-views", f"topic: {BEACON}-unread"),)),
    Run("right-to-write", "LS305(?s:.*)TopicAuthorizationException", change=((f"{BEACON}-enriched:", f"{BEACON}-unwritten:"),)),
)  # fmt: skip
# Only in `make soak`: "right-to-write" gets as far, and fails where the topic is written.
IN_DOUBT = Run("in-doubt", "failpoint kafka.after", environment={"LAKESTREAMS_FAILPOINT": "kafka.after:1:raise"})
DATA = (
    Run("unknown-topic", f"topic {BEACON}-nowhere does not exist", change=((f"topic: {BEACON}-views", f"topic: {BEACON}-nowhere"),)),
)  # fmt: skip
KILLED = Run("killed", "", None, lake="success", environment={"LAKESTREAMS_FAILPOINT": "epoch.after:1:kill"})
RUNS = (*SUCCESSES, *FILES, *CONNECTIONS, *RIGHTS, *DATA, KILLED)
LONGER = (
    Run("success", r"page_views: 1 cycles, 4 records, 0 unreadable", 0),
    command("check", "check {pipeline} --root {root} --explain --json", f"{BEACON}-views"),
    command("verify", "verify {pipeline} --root {root} --json", '"ok": true'),
    command("why", "why {pipeline} --root {root} --key alice", f"{BEACON}-page"),
    Run("wrong-mechanism", r"LS306(?s:.*)UnsupportedSaslMechanismException", options=changed("mechanism: PLAIN", "mechanism: SCRAM-SHA-512")
        .replace(PLAIN, "org.apache.kafka.common.security.scram.ScramLoginModule")),
    Run("listener-without-sasl", r"LS306(?s:.*)IllegalSaslStateException", servers="plaintext"),
    Run("class-that-is-not-there", r"LS306(?s:.*)No LoginModule found", options=changed(PLAIN, f"kafkashaded.{PLAIN}")),
    Run("right-to-see", f"LS307(?s:.*){BEACON}-unseen", change=((f"topic: {BEACON}-views", f"topic: {BEACON}-unseen"),)),
    Run("unequal-partitions", "LS104", change=((f"topic: {BEACON}-views", f"topic: {BEACON}-three"),)),
    Run("other-columns", "LS512(?s:.*)enriched", change=(("region: coalesce", "other: coalesce"),), lake="success"),
    Run("unreadable-records", "LS401", change=(
        ("page string, seconds int", "page int, seconds int"), (f"{BEACON}-views", f"{BEACON}-many"))),
    Run("unreadable-records-are-kept", "3 of them unreadable", 0, arguments=("--max-bad-share=1",),
        change=(("page string, seconds int", "page int, seconds int"),)),
    command("quarantine", "quarantine show {pipeline} --root {root}", f"{BEACON}-page", lake="unreadable-records-are-kept"),
    Run("expectation", "LS402", change=(("kind: stream", "kind: stream\n    expect_or_fail: {long: seconds > 1000}"),)),
    IN_DOUBT,
    Run("other-configuration", "LS504", change=(("kind: stream", "kind: stream\n    expect_or_drop: {long: seconds > 1}"),), lake="in-doubt"),
    Run("crash", "LS000", environment={"LAKESTREAMS_FAILPOINT": "publish.after:1:raise"}),
    Run("after-the-crash", "1 cycles", 0, lake="crash"),
    Run("killed", "epoch 1", None, environment={"LAKESTREAMS_FAILPOINT": "ingest.after:1:kill"}),
)  # fmt: skip


@pytest.fixture(scope="module")
def broker() -> Iterator[tuple[Broker, str]]:
    """A broker, and its second address, at which clients sign in."""
    rules = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
    rules += "super.users=User:ANONYMOUS\nallow.everyone.if.no.acl.found=true\n"  # of the other listeners
    with secured_broker({"lakestreams": PASSWORD}, rules) as (running, address):
        for name, count in PARTITIONS.items():
            running.create_topic(f"{BEACON}-{name}", count)
        page = json.dumps({"page": f"{BEACON}-page", "seconds": 7})
        _deny(running, {"unseen": AclOperation.DESCRIBE, "unread": AclOperation.READ, "unwritten": AclOperation.WRITE})
        running.produce(f"{BEACON}-users", [("alice", "us-east", 1_000)])
        running.produce(f"{BEACON}-views", [(user, page, 2_000) for user in ("alice", "bob", "carol")])
        running.produce(f"{BEACON}-unread", [("alice", page, 2_000)])
        running.produce(f"{BEACON}-many", [(f"user-{number}", page, 2_000) for number in range(1_200)])
        yield running, address


def _deny(running: Broker, rights: dict[str, AclOperation]) -> None:
    """Takes a right of a topic away from whoever signs in as the pipelines do."""

    def rule(name: str, right: AclOperation, what: AclPermissionType) -> AclBinding:
        topic = ResourceType.TOPIC, f"{BEACON}-{name}", ResourcePatternType.LITERAL
        return AclBinding(*topic, "User:lakestreams", "*", right, what)

    # once a topic has a rule, nobody may do with it what no rule allows
    bindings = [rule(name, AclOperation.ALL, AclPermissionType.ALLOW) for name in rights]
    bindings += [rule(name, right, AclPermissionType.DENY) for name, right in rights.items()]
    admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
    for done in admin.create_acls(bindings).values():
        done.result(10)


@pytest.fixture(scope="module")
def place(broker: tuple[Broker, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all runs, which have ended, have left what they leave."""
    return _left_by(RUNS, broker, tmp_path_factory.mktemp("canary"))


def _left_by(runs: Sequence[Run], broker: tuple[Broker, str], folder: Path) -> Path:
    laid = [_laid(run, folder, broker) for run in runs]
    (folder / "runs.json").write_text(json.dumps(laid), encoding="utf-8")
    (folder / "tmp").mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKESTREAMS_")}
    environment |= {name: os.environ[name] for name in ("LAKESTREAMS_CACHE", "LAKESTREAMS_SPARK") if name in os.environ}
    environment |= SECRETS | {
        "PYTHONPATH": str(ROOT / "src"),
        "LAKESTREAMS_LOG_DIR": str(folder / "logs"),
        "TMPDIR": str(folder / "tmp"),
        "COLUMNS": "200",
    }
    command = [sys.executable, str(Path(__file__).with_name("commands.py")), str(folder / "runs.json"), "--talkative"]
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        done = subprocess.run(command, cwd=folder, env=environment, stdout=out, stderr=err, timeout=500, check=False)
    _, going_on = psutil.wait_procs([psutil.Process(pid) for pid in _jvm(folder)], 60)  # it removes what it has open
    assert not going_on
    assert done.returncode == -signal.SIGKILL, (folder / "stderr").read_text(encoding="utf-8")[-3_000:]
    return folder


def _jvm(folder: Path) -> list[int]:
    """The process of the JVM, which outlives the job that is killed by a moment."""
    pid = int((folder / "jvm").read_text())
    return [pid] if psutil.pid_exists(pid) else []


def _laid(run: Run, folder: Path, broker: tuple[Broker, str]) -> dict[str, object]:
    """The run's files, where they are not searched: a secret that is written out is in them; and what is to be run."""
    conf = folder.parent / f"{folder.name}-conf" / run.name
    conf.mkdir(parents=True)
    running, signing_in = broker
    servers = running.bootstrap_servers if run.servers == "plaintext" else run.servers or signing_in
    options = run.options.replace("{sources}", str(conf / "sources.yml"))
    texts = {"sources.yml": SOURCES.format(servers=servers, options=options, BEACON=BEACON), "views.yml": PIPELINE}
    for old, new in run.change:
        assert any(old in text for text in texts.values()), f"{run.name}: {old} is nowhere"
        texts = {name: text.replace(old, new) for name, text in texts.items()}
    for name, text in texts.items():
        (conf / name).write_text(text, encoding="utf-8")
    root = folder / "lakes" / (run.lake or run.name)
    argv = ["job:pipeline", f"--pipeline={conf / 'views.yml'}", f"--root={root}", *run.arguments]
    if run.command is not None:
        argv = run.command.format(pipeline=conf / "views.yml", root=root).split()
    return {"name": run.name, "argv": argv, "environment": run.environment}


def _assert_ended(run: Run, place: Path) -> None:
    said = "".join((place / f"{run.name}.{ending}").read_text(encoding="utf-8") for ending in ("out", "err"))
    code = place / f"{run.name}.code"
    assert (int(code.read_text()) if code.exists() else None) == run.code, said
    assert re.search(run.told, said), said


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_each_run_ends_as_it_was_meant_to(run: Run, place: Path) -> None:
    _assert_ended(run, place)


def test_the_canary_is_nowhere(place: Path) -> None:
    assert found_in(place, CANARY) == set()


@pytest.mark.soak
def test_the_canary_is_nowhere_after_longer_runs(broker: tuple[Broker, str], tmp_path: Path) -> None:
    place = _left_by(LONGER, broker, tmp_path)
    for run in LONGER:
        _assert_ended(run, place)
    assert found_in(place, CANARY) == set()
    assert any("/quarantine/" in str(path) for path in found_in(place / "lakes", BEACON))


def test_the_canary_has_reached_kafka(place: Path, broker: tuple[Broker, str]) -> None:
    """The listener lets nobody in without it, and the broker itself keeps it in its settings alone."""
    assert [path.name for path in found_in(broker[0].data_dir, CANARY)] == ["server.properties"]
    (log,) = (place / "logs").glob("spark-*.log")
    assert "sasl.jaas.config = [hidden]" in log.read_text(encoding="utf-8")


def test_the_search_sees_each_kind_of_place(place: Path) -> None:
    found = {str(path.relative_to(place)) for path in found_in(place, BEACON)}
    kinds = {
        "what a command tells": r"check\.out",
        "what a command tells in JSON": r"status\.out",
        "what a failure tells": r"unknown-topic\.err",
        "the trace of a failure": r"logs/error-.*\.log",
        "Spark's log": r"logs/spark-.*\.log",
        "Spark's event log": r"spark-events/.*",
        "the page": r"lakes/success/report\.html",
        "bronze": r"lakes/success/bronze/.*\.parquet",
        "silver": r"lakes/success/silver/.*\.parquet",
        "the ledger": r"lakes/success/_lakestreams/ledger/.*\.parquet",
        "the event log": r"lakes/success/_lakestreams/events/.*\.parquet",
        "a log of Delta": r"lakes/success/.*/_delta_log/.*\.json",
        "a checkpoint": r"lakes/success/.*/offsets/.*",
    }
    assert {kind for kind, pattern in kinds.items() if not any(re.fullmatch(pattern, one) for one in found)} == set()


def test_the_search_sees_each_spelling(tmp_path: Path) -> None:
    told = f"user:{CANARY}:rest"
    planted = {
        "plain": told.encode(),
        "utf-16": told.encode("utf-16"),
        "hex": told.encode().hex().encode(),
        "zipped": gzip.compress(told.encode()),
        **{f"base64-{n}": base64.b64encode(b"x" * n + told.encode()) for n in range(3)},
        **{f"url64-{n}": base64.urlsafe_b64encode(b"\xff\xfe" * n + told.encode()) for n in range(3)},
    }
    for name, data in planted.items():
        (tmp_path / name).write_bytes(data)
    parts = [CANARY[:9] * 9, CANARY[6:] * 9]  # what comes later is compressed to references to them
    columns = {"t": [*parts, told], "b": [[part.encode()] for part in (*parts, told)], "n": [{"m": told}, {"m": None}]}
    for column, values in columns.items():
        table = pa.table({column: pa.array(values)})
        file = tmp_path / f"{column}.parquet"
        pq.write_table(table, file, compression="zstd", use_dictionary=False, write_statistics=False)
    pq.write_table(pa.table({"t": [1]}).replace_schema_metadata({"options": told}), tmp_path / "metadata.parquet")
    (tmp_path / CANARY).write_text("")
    (tmp_path / "other").write_text(f"{CANARY[:-1]} {BEACON}")
    expected = {*planted, *(f"{column}.parquet" for column in columns), "metadata.parquet", CANARY}
    assert {path.name for path in found_in(tmp_path, CANARY)} == expected
    assert not holds((tmp_path / "t.parquet").read_bytes(), CANARY), "compressed, it is not seen without being read"
