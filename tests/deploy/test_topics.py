"""`check --target` and Kafka: the topics of each task on the broker that it is told of, or why they were not looked at."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.deploy.fake_workspace import Workspace, serving
from tests.deploy.planted import Mistake, plant
from typer.testing import CliRunner

from lakestreams.cli.app import app
from lakestreams.deploy import files, topics
from lakestreams.deploy.read import load
from lakestreams.errors import BrokerUnreachable
from lakestreams.kafka.admin_cluster import AdminCluster

if TYPE_CHECKING:
    from lakestreams.local.broker import Broker

ALL = {"PageViews": 12, "UserProfiles": 12, "Orders": 6, "Payments": 6, "Customers": 3}
SOURCES, JOB = "conf/sources.yml", "resources/enrichment.job.yml"
runner = CliRunner()


def looked(root: Path, target: str = "prod", **variables: str) -> topics.Topics:
    bundle = load(root, target, variables)
    used, faults = files.pipelines(bundle)
    readings, unfit = files.readings(bundle, used)
    assert [*faults, *unfit] == []
    return topics.examine(readings)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return plant(Mistake("databricks.yml", "", "", ""), tmp_path / "bundle")


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, int]]:
    """Broker to topic to partition count; a broker that is not in it does not answer."""
    brokers: dict[str, dict[str, int]] = {"kafka:9092": dict(ALL)}

    def partitions(self: AdminCluster, _timeout_s: float) -> dict[str, int]:
        if self.bootstrap_servers not in brokers:
            raise BrokerUnreachable(f"no broker answers at {self.bootstrap_servers}: no answer in time")
        return brokers[self.bootstrap_servers]

    monkeypatch.setattr(AdminCluster, "partitions", partitions)
    return brokers


def test_topics_that_are_there_are_told_with_their_counts(bundle: Path, there: dict[str, dict[str, int]]) -> None:
    found = looked(bundle)
    assert {one.what: (one.state, one.note) for one in found.requirements} == {
        f"topic {topic} at kafka:9092": ("there", f"{count} partitions") for topic, count in ALL.items()
    }
    assert (found.faults, found.warnings, found.unchecked) == ([], [], [])
    there["kafka:9092"]["Somebody"] = 1
    assert len(looked(bundle).requirements) == len(ALL), "what no pipeline names is nobody's business"


def test_a_missing_topic_comes_with_the_command_that_makes_it_fit(
    bundle: Path, there: dict[str, dict[str, int]]
) -> None:
    for topic in ("UserProfiles", "Customers"):
        del there["kafka:9092"][topic]
    found = looked(bundle)
    create = "kafka-topics --bootstrap-server kafka:9092 --create --topic"
    assert (
        {one.what: one.fix for one in found.requirements if one.state == "lacking"}
        == {
            "topic UserProfiles at kafka:9092": f"{create} UserProfiles --partitions 12",  # as PageViews, which it is joined with
            "topic Customers at kafka:9092": f"{create} Customers",  # by foreign key: any count will do
        }
    )
    assert [(one.code, one.where) for one in found.faults] == [
        ("LS302", f"{JOB}  jobs.enrichment"),
        ("LS302", "resources/fk_join.job.yml  jobs.fk_join"),
    ]
    there["kafka:9092"].clear()
    commands = [one.fix for one in looked(bundle).requirements]
    assert commands == [
        f"{create} {topic}" for topic in ("Orders", "Payments", "PageViews", "UserProfiles", "Customers")
    ]


def test_unequal_counts_are_a_fault_of_the_step_in_its_file(bundle: Path, there: dict[str, dict[str, int]]) -> None:
    there["kafka:9092"]["UserProfiles"] = 6
    (fault,) = looked(bundle).faults
    assert (fault.code, fault.where) == ("LS104", f'{bundle}/conf/enrichment.yml:6  step "enriched"')
    assert '"PageViews" (12), right = "UserProfiles" (6)' in fault.message
    file = bundle / "conf" / "enrichment.yml"
    text = file.read_text(encoding="utf-8")
    said = text.replace("right: UserProfiles}", "right: UserProfiles, co_partitioning: warn}")
    assert said != text
    file.write_text(said, encoding="utf-8")
    found = looked(bundle)
    assert (found.faults, len(found.warnings)) == ([], 1)


def test_each_task_is_looked_at_on_its_own_broker(tmp_path: Path, there: dict[str, dict[str, int]]) -> None:
    root = plant(Mistake(JOB, "${var.kafka_bootstrap}", "other:9092", ""), tmp_path)
    there["other:9092"] = {"PageViews": 1, "UserProfiles": 1}
    found = looked(root)
    assert (found.faults, found.unchecked) == ([], [])
    assert {one.what for one in found.requirements if "Views" in one.what} == {"topic PageViews at other:9092"}
    del there["other:9092"]
    (reason,) = looked(root).unchecked
    assert reason.startswith("topics of page_views at other:9092: no broker answers at other:9092")
    assert reason.endswith("lakestreams check FILE --bootstrap-servers other:9092")


def test_an_address_that_is_none_is_a_fault(bundle: Path) -> None:
    resolved = load(bundle, "prod", {"kafka_bootstrap": "kafka"})
    readings, faults = files.readings(resolved, files.pipelines(resolved)[0])
    assert readings == []
    assert {(fault.message, fault.where) for fault in faults} == {
        ("bootstrap_servers: 'kafka' is not host:port", f"resources/{job}.job.yml  jobs.{job}")
        for job in ("correlation", "enrichment", "fk_join")
    }


@pytest.mark.parametrize(
    ("options", "at_hand", "reason"),
    [
        ("  options: {ssl.key.password: 'secret://kafka/key'}", {}, "secrets that are not at hand here: kafka/key"),
        ("  options: {ssl.key.password: 'secret://kafka/key'}", {"LAKESTREAMS_SECRET_LAKESTREAMS_PROD_KEY": "hunter2"}, "only Spark's client understands ssl.key.password;"),
        ("  options: {security.protocol: SSL}", {}, "only Spark's client understands security.protocol;"),
        ("  service_credential: kafka-prod", {}, "the service credential kafka-prod exists on Databricks only"),
    ],
)  # fmt: skip
def test_clients_that_sign_in_are_not_imitated(
    options: str, at_hand: dict[str, str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = plant(Mistake(SOURCES, "\ntopics:", f"\n{options}\n\ntopics:", ""), tmp_path)
    for name, value in at_hand.items():
        monkeypatch.setenv(name, value)
    found = looked(root)
    assert (found.requirements, found.faults, len(found.unchecked)) == ([], [], 3)
    assert all(reason in one for one in found.unchecked)
    assert "hunter2" not in str(found)


def test_a_client_option_that_changes_nothing_here_is_no_reason(
    tmp_path: Path, there: dict[str, dict[str, int]]
) -> None:
    root = plant(Mistake(SOURCES, "\ntopics:", "\n  options: {client.id: me}\n\ntopics:", ""), tmp_path)
    assert there
    assert len(looked(root).requirements) == len(ALL)


@pytest.fixture(autouse=True)
def _broker_soon_given_up() -> None:
    """Here it is waited for as users wait for it."""


@pytest.mark.slow
def test_a_broker_that_does_not_answer_takes_seconds_and_is_no_fault(bundle: Path) -> None:
    began = time.monotonic()
    found = looked(bundle, kafka_bootstrap="127.0.0.1:9")
    assert (found.requirements, found.faults, len(found.unchecked)) == ([], [], 3)
    assert time.monotonic() - began < 15, "it is asked once"


# --- through the command ---------------------------------------------------------------------------------------------


@pytest.fixture
def asked(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def check(*more: str) -> Any:
        with serving(Workspace(tmp_path / "workspace")) as host:
            monkeypatch.setenv("DATABRICKS_HOST", host)
            monkeypatch.setenv("DATABRICKS_TOKEN", "token-of-the-fake")
            monkeypatch.setenv("DATABRICKS_CONFIG_FILE", str(tmp_path / "none.cfg"))
            monkeypatch.setenv("COLUMNS", "200")
            return runner.invoke(app, ["check", "-t", "prod", "--bundle", str(bundle), *more])

    return check


@pytest.mark.slow
def test_the_command_tells_what_kafka_lacks(asked: Any, there: dict[str, dict[str, int]]) -> None:
    there["kafka:9092"]["Payments"] = 4
    del there["kafka:9092"]["Customers"]
    done = asked()
    assert done.exit_code == 1
    assert re.search(r"topic Customers at kafka:9092 +LACKING", done.stdout)
    assert "  kafka-topics --bootstrap-server kafka:9092 --create --topic Customers\n" in done.stdout
    assert "LS104 CO_PARTITIONING_REQUIRED" in done.stderr
    told = json.loads(asked("--json").stdout)["target"]
    assert {one["state"] for one in told["topics"]} == {"there", "lacking"}
    assert {"LS104", "LS302"} <= {fault["code"] for fault in told["faults"]}
    told = json.loads(asked("--json", "--no-broker").stdout)["target"]
    assert (told["topics"], told["unchecked"][-1]) == ([], "topics and their partition counts: --no-broker")


@pytest.mark.broker
def test_a_real_broker_is_asked(broker: Broker, bundle: Path) -> None:
    from tests.engine.harness import fresh_topics

    views, users = fresh_topics(broker, 2)
    text = (bundle / SOURCES).read_text(encoding="utf-8")
    for name, topic in (("PageViews", views), ("UserProfiles", users)):
        text = re.sub(rf"(?m)^(  {name}:\n    kind: \w+\n)", rf"\1    topic: {topic}\n", text)
    text = re.sub(r"(?m)^(  Customers:\n    kind: \w+\n)", rf"\1    topic: {views}-nowhere\n", text)
    (bundle / SOURCES).write_text(text, encoding="utf-8")
    states = {one.what: one.state for one in looked(bundle, kafka_bootstrap=broker.bootstrap_servers).requirements}
    at = f"at {broker.bootstrap_servers}"
    assert (states[f"topic {views} {at}"], states[f"topic {views}-nowhere {at}"]) == ("there", "lacking")
