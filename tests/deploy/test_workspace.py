"""`check --target` and `status --target` against the fake workspace; and jobs deployed there and run by the wheel."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.core import Config
from databricks.sdk.errors import InvalidParameterValue
from databricks.sdk.service.catalog import AwsIamRole, CredentialPurpose, VolumeType
from tests.deploy.deploying import create, deploy, grant, show
from tests.deploy.fake_workspace import Refused, Workspace, serving
from tests.deploy.installing import installed
from tests.deploy.planted import Mistake, plant
from typer.testing import CliRunner

from lakestreams.cli.app import app
from lakestreams.deploy import workspace as workspaces
from lakestreams.deploy.bodies import job_bodies
from lakestreams.deploy.read import User, load
from lakestreams.deploy.workspace import SCHEMA_RIGHTS, VOLUME_RIGHTS, connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
SERVICE = "6f1c7d7e-0000-4000-8000-0123456789ab"
LONG = timedelta(minutes=16)  # the fake ends a task before
TOKEN = "token-of-the-fake"
WAREHOUSE = "0000000000000000"  # what the bundle says where nobody has put theirs
runner = CliRunner()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "workspace")


@pytest.fixture
def client(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkspaceClient]:
    """A client, and the environment from which the command line makes its own."""
    with serving(workspace) as host:
        monkeypatch.setenv("DATABRICKS_HOST", host)
        monkeypatch.setenv("DATABRICKS_TOKEN", TOKEN)
        monkeypatch.setenv("DATABRICKS_CONFIG_FILE", str(tmp_path / "none.cfg"))
        monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))
        yield WorkspaceClient(config=Config(host=host, token=TOKEN, retry_timeout_seconds=1))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A copy of the bundle whose Kafka wants a password."""
    options = "  options:\n    ssl.truststore.password: secret://kafka/truststore\n"
    return plant(Mistake("conf/sources.yml", "\ntopics:", f"\n{options}\ntopics:", ""), tmp_path / "bundle")


def check(bundle: Path, target: str, *more: str) -> tuple[int, dict[str, Any]]:
    arguments = ["check", "--target", target, "--bundle", str(bundle), "--var", f"runner={SERVICE}", *more, "--json"]
    done = runner.invoke(app, [*arguments, "--no-broker"])  # test_topics.py has what is asked of it
    return done.exit_code, json.loads(done.stdout)["target"]


def lacking(told: dict[str, Any]) -> dict[str, str]:
    return {one["what"]: one["fix"] for one in told["workspace"] if one["state"] == "lacking"}


# --- check -----------------------------------------------------------------------------------------------------------


def test_an_empty_workspace_is_filled_by_what_the_check_says(
    bundle: Path, workspace: Workspace, client: WorkspaceClient
) -> None:
    """Round by round, as somebody would: each command that is printed is carried out here, until nothing lacks."""
    code, told = check(bundle, "prod")
    assert code == 1
    assert lacking(told) == {
        f"service principal {SERVICE}": "databricks service-principals list; then --var runner=<application id>, or in prod's variables",
        "catalog prod": "databricks catalogs create prod",
        "group data-platform": "databricks groups create --display-name data-platform; or name another one in databricks.yml",
        "group data-readers": "databricks groups create --display-name data-readers; or name another one in databricks.yml",
        "secret scope lakestreams-prod": "databricks bundle deploy -t prod",
        "secret lakestreams-prod/truststore": "databricks secrets put-secret lakestreams-prod truststore",
        f"SQL warehouse {WAREHOUSE}": "databricks warehouses list; then --var warehouse_id=<id>, or in prod's variables",
    }
    assert [one["state"] for one in told["workspace"] if "schema" in one["what"]] == ["unknown"] * 3
    assert {fault["code"] for fault in told["faults"]} == {"LS702"}

    workspace.principals.add(SERVICE)
    workspace.groups |= {"data-platform", "data-readers"}
    workspace.warehouses.add(WAREHOUSE)
    workspace.catalogs["prod"] = {"name": "prod", "owner": "somebody@example.com"}
    workspace.scopes["lakestreams-prod"] = {"truststore"}
    code, told = check(bundle, "prod")
    me = workspace.user
    schemas = ("bronze", "silver", "_lakestreams")
    assert lacking(told) == {
        f"{SERVICE} on catalog prod: USE_CATALOG": f"GRANT USE CATALOG ON CATALOG `prod` TO `{SERVICE}`",
        f"{me} on catalog prod: USE_CATALOG, CREATE_SCHEMA": f"GRANT USE CATALOG, CREATE SCHEMA ON CATALOG `prod` TO `{me}`",
        **{f"schema prod.{name}": "databricks bundle deploy -t prod" for name in schemas},
        f"{SERVICE} on secret scope lakestreams-prod: READ": "databricks bundle deploy -t prod",
    }

    workspace.grants["prod"] = {SERVICE: {"USE_CATALOG"}, "account users": {"ALL_PRIVILEGES"}}
    workspace.acls["lakestreams-prod"] = {SERVICE: "READ"}
    resolved = load(bundle, "prod", {"runner": SERVICE}, User(me))
    for item in resolved.resources["schemas"].values():
        client.schemas.create(item["name"], "prod")
    code, told = check(bundle, "prod")
    assert lacking(told) == {"volume prod._lakestreams.checkpoints": "databricks bundle deploy -t prod"}

    client.volumes.create("prod", "_lakestreams", "checkpoints", volume_type=VolumeType.MANAGED)
    code, told = check(bundle, "prod")
    assert (code, told["ok"], lacking(told)) == (0, True, {})
    assert told["unchecked"] == ["topics and their partition counts: --no-broker"]
    assert not [call for call in workspace.asked if call.startswith("POST") and "workspace" in call], (
        "a check changes nothing"
    )


def test_rights_that_are_missing_are_named_with_the_grant_that_gives_them(
    bundle: Path, workspace: Workspace, client: WorkspaceClient
) -> None:
    workspace.principals.add(SERVICE)
    workspace.groups |= {"data-platform", "data-readers"}
    workspace.warehouses.add(WAREHOUSE)
    workspace.scopes["lakestreams-prod"] = {"truststore"}
    workspace.acls["lakestreams-prod"] = {"users": "READ"}
    workspace.catalogs["prod"] = {"name": "prod", "owner": workspace.user}
    workspace.grants["prod"] = {SERVICE: {"USE_CATALOG", "USE_SCHEMA", "SELECT"}}
    for name in ("bronze", "silver", "_lakestreams"):
        client.schemas.create(name, "prod")
    client.volumes.create("prod", "_lakestreams", "checkpoints", volume_type=VolumeType.MANAGED)
    grant(client, "schema", "prod.bronze", [{"principal": SERVICE, "privileges": list(SCHEMA_RIGHTS)}])
    grant(client, "volume", "prod._lakestreams.checkpoints", [{"principal": SERVICE, "privileges": [VOLUME_RIGHTS[0]]}])
    _, told = check(bundle, "prod")
    assert set(lacking(told).values()) == {
        f"GRANT CREATE TABLE, MODIFY ON SCHEMA `prod`.`silver` TO `{SERVICE}`",
        f"GRANT CREATE TABLE, MODIFY ON SCHEMA `prod`.`_lakestreams` TO `{SERVICE}`",
        f"GRANT WRITE VOLUME ON VOLUME `prod`.`_lakestreams`.`checkpoints` TO `{SERVICE}`",
    }


@pytest.fixture
def signing_in(tmp_path: Path) -> Path:
    """A copy of the bundle that signs in to Kafka with a service credential."""
    return plant(
        Mistake("conf/sources.yml", "\ntopics:", "\n  service_credential: kafka-prod\n\ntopics:", ""),
        tmp_path / "signing",
    )


def of_credential(told: dict[str, Any]) -> dict[str, str]:
    return {what: fix for what, fix in lacking(told).items() if "credential" in what}


@pytest.mark.slow
def test_a_service_credential_is_made_and_granted_as_the_check_says(
    signing_in: Path, workspace: Workspace, client: WorkspaceClient
) -> None:
    workspace.principals.add(SERVICE)
    code, told = check(signing_in, "prod")
    (what, fix), *more = of_credential(told).items()
    assert (code, what, more) == (1, "service credential kafka-prod", [])
    found = re.fullmatch(r"databricks credentials create-credential --json '(.*)'; or with azure_managed_identity", fix)
    assert found is not None
    client.api_client.do("POST", "/api/2.1/unity-catalog/credentials", body=json.loads(found[1]))

    granting = f"GRANT ACCESS ON SERVICE CREDENTIAL `kafka-prod` TO `{SERVICE}`"
    code, told = check(signing_in, "prod")
    assert of_credential(told) == {f"{SERVICE} on credential kafka-prod: ACCESS": granting}
    grant(client, "credential", "kafka-prod", [{"principal": SERVICE, "privileges": ["ACCESS"]}])
    _, told = check(signing_in, "prod")
    states = {one["what"]: one["state"] for one in told["workspace"] if "credential" in one["what"]}
    assert states == {"service credential kafka-prod": "there", f"{SERVICE} on credential kafka-prod: ACCESS": "there"}

    # where there is no service principal, jobs run as whoever made it
    _, told = check(signing_in, "dev")
    assert of_credential(told) == {}
    shown = runner.invoke(app, ["check", "-t", "prod", "--bundle", str(signing_in), "--var", "runner=x@example.com"])
    assert "GRANT ACCESS ON SERVICE CREDENTIAL" in shown.stdout


def test_a_credential_for_storage_is_none_to_sign_in_with(
    signing_in: Path, workspace: Workspace, client: WorkspaceClient
) -> None:
    role = AwsIamRole(role_arn="arn:aws:iam::1:role/lake")
    client.credentials.create_credential("kafka-prod", purpose=CredentialPurpose.STORAGE, aws_iam_role=role)
    _, told = check(signing_in, "prod")
    assert list(of_credential(told)) == ["service credential kafka-prod"]
    (note,) = [one["note"] for one in told["workspace"] if one["what"] == "service credential kafka-prod"]
    assert note == "there is one of this name for storage, which nobody signs in with"
    with pytest.raises(InvalidParameterValue, match="not applicable"):
        grant(client, "credential", "kafka-prod", [{"principal": workspace.user, "privileges": ["ACCESS"]}])


def test_a_credential_that_may_not_be_looked_at_is_not_said_to_lack(
    signing_in: Path, workspace: Workspace, client: WorkspaceClient
) -> None:
    del client
    workspace.credentials["kafka-prod"] = {"name": "kafka-prod", "purpose": "SERVICE", "owner": "bob@example.com"}
    _, told = check(signing_in, "prod")
    assert of_credential(told) == {}
    (reason,) = [one for one in told["unchecked"] if "credential" in one]
    assert reason.startswith("service credential kafka-prod: User does not have any permission on Credential")


def test_a_pipeline_without_a_credential_asks_for_none(
    bundle: Path, workspace: Workspace, client: WorkspaceClient
) -> None:
    del client
    check(bundle, "prod")
    assert not [call for call in workspace.asked if "credentials" in call]


def test_what_a_cluster_needs_is_looked_up(bundle: Path, workspace: Workspace, client: WorkspaceClient) -> None:
    del client
    workspace.catalogs["dev"] = {"name": "dev", "owner": workspace.user}
    _, told = check(bundle, "dev", "--var", "runtime=9.1.x-scala2.12", "--var", "node_type=huge")
    assert lacking(told)["runtime 9.1.x-scala2.12"].startswith("databricks clusters spark-versions")
    assert lacking(told)["node type huge"].startswith("databricks clusters list-node-types")


def test_what_may_not_be_looked_at_is_not_said_to_lack(
    bundle: Path, workspace: Workspace, client: WorkspaceClient
) -> None:
    del client
    workspace.catalogs["dev"] = {"name": "dev", "owner": workspace.user}
    workspace.warehouses.add(WAREHOUSE)
    workspace.broken = ("/api/2.0/secrets", "/api/2.1/unity-catalog/schemas")
    code, told = check(bundle, "dev")
    assert code == 0
    assert (
        "volume dev.ada_lakestreams.checkpoints: it is not known whether dev.ada_lakestreams is there"
        in told["unchecked"]
    )
    assert not [what for what in lacking(told) if "secret" in what or "schema" in what]
    assert [one for one in told["unchecked"] if "may not call /api/2.0/secrets" in one]


def test_a_bundle_with_faults_is_not_compared_with_a_workspace(
    tmp_path: Path, workspace: Workspace, client: WorkspaceClient
) -> None:
    del client
    broken = plant(
        Mistake("resources/verify.job.yml", "entry_point: lakestreams-verify", "entry_point: verfy", ""),
        tmp_path / "bundle",
    )
    asked = list(workspace.asked)
    code, told = check(broken, "dev")
    assert (code, [fault["code"] for fault in told["faults"]]) == (1, ["LS701"])
    assert workspace.asked == asked
    done = runner.invoke(app, ["check", "-t", "dev", "--bundle", str(broken), "--no-workspace"])
    assert "resources/verify.job.yml  jobs.verify\n  task verify: the wheel has no entry point verfy" in done.stderr


def test_faults_of_the_pipelines_that_are_deployed_are_told(tmp_path: Path) -> None:
    broken = plant(Mistake("conf/fk_join.yml", "left_join", "left_joint", ""), tmp_path / "bundle")
    done = runner.invoke(app, ["check", "-t", "dev", "--bundle", str(broken), "--no-workspace"])
    assert done.exit_code == 1
    assert "LS202 UNKNOWN_KEY" in done.stderr


def test_credentials_that_are_refused_are_told_and_not_shown(
    bundle: Path, client: WorkspaceClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    del client
    monkeypatch.setenv("DATABRICKS_TOKEN", "canary-4711")
    done = runner.invoke(app, ["check", "-t", "dev", "--bundle", str(bundle), "--no-broker"])
    assert done.exit_code == 1
    assert "LS703 WORKSPACE_UNREACHABLE" in done.stderr
    assert "canary" not in done.output + done.stderr
    monkeypatch.delenv("DATABRICKS_HOST")
    monkeypatch.delenv("DATABRICKS_TOKEN")
    done = runner.invoke(app, ["status", "-t", "dev", "--bundle", str(bundle)])
    assert (done.exit_code, "LS703" in done.stderr) == (1, True)


def test_variables_of_the_environment_count_as_they_do_for_the_cli(
    bundle: Path, workspace: Workspace, client: WorkspaceClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    del client, workspace
    monkeypatch.setenv("BUNDLE_VAR_catalog", "dev_ada")
    _, told = check(bundle, "dev")
    assert lacking(told)["catalog dev_ada"] == "databricks catalogs create dev_ada"
    assert runner.invoke(app, ["check", "-t", "dev", "--bundle", str(bundle), "--var", "catalog"]).exit_code == 2


@pytest.mark.slow
def test_a_busy_workspace_is_waited_for(
    workspace: Workspace, client: WorkspaceClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK waits for more than the first try may take."""
    del client
    monkeypatch.setattr(workspaces, "_FIRST_S", 1)
    asked: list[int] = []
    me = Workspace.me

    def busy(self: Workspace, *given: Any) -> Any:
        asked.append(1)
        if len(asked) == 1:
            raise Refused(429, "RESOURCE_EXHAUSTED", "too many requests")
        return me(self, *given)

    monkeypatch.setattr(Workspace, "me", busy)
    assert connect().current_user.me().user_name == workspace.user
    assert len(asked) == 3, "refused, let in, and asked by this test"


# --- status ----------------------------------------------------------------------------------------------------------


def status(bundle: Path, target: str, *more: str) -> dict[str, dict[str, Any]]:
    done = runner.invoke(app, ["status", "-t", target, "--bundle", str(bundle), *more, "--json"])
    assert done.exit_code == 0, done.stderr
    return {one["key"]: one for one in json.loads(done.stdout)["jobs"]}


def test_status_tells_what_is_deployed_and_how_it_last_ran(
    bundle: Path, workspace: Workspace, client: WorkspaceClient, shell_wheel: Path
) -> None:
    assert {one["job_id"] for one in status(bundle, "dev").values()} == {None}
    resolved = load(bundle, "dev", user=User(workspace.user))
    place = workspace.disk / resolved.config["workspace"]["artifact_path"].lstrip("/") / ".internal"
    place.mkdir(parents=True)
    (place / shell_wheel.name).write_bytes(shell_wheel.read_bytes())
    bodies = job_bodies(resolved)
    made = {key: create(client, bodies[key]) for key in ("correlation", "enrichment")}
    client.jobs.run_now(made["enrichment"]).result()  # fails: the wheel has nothing in it
    found = status(bundle, "dev")
    assert {key: one["job_id"] for key, one in found.items() if one["job_id"]} == made
    assert (found["enrichment"]["result"], found["correlation"]["result"]) == ("FAILED", None)
    assert (found["enrichment"]["starts"], found["enrichment"]["paused"]) == ("0 0/15 * * * ? UTC", True)
    assert found["correlation"]["starts"] == "continuous"
    shown = runner.invoke(app, ["status", "-t", "dev", "--bundle", str(bundle)], env={"COLUMNS": "200"}).stdout
    assert re.search(r"\[dev ada\] lakestreams-enrichment +\d+ +0 0/15 \* \* \* \? UTC \(paused\) +FAILED", shown)
    assert "what is not deployed: databricks bundle deploy -t dev" in shown


@pytest.mark.slow
def test_a_dashboard_is_made_published_and_found(bundle: Path, workspace: Workspace, client: WorkspaceClient) -> None:
    def told() -> dict[str, Any]:
        done = runner.invoke(app, ["status", "-t", "dev", "--bundle", str(bundle), "--json"])
        (one,) = json.loads(done.stdout)["dashboards"]
        return dict(one)

    assert (told()["dashboard_id"], told()["published_at"]) == (None, None)
    resolved = load(bundle, "dev", user=User(workspace.user))
    with pytest.raises(InvalidParameterValue, match="there is no SQL warehouse"):
        show(client, resolved)
    assert (told()["dashboard_id"] in workspace.dashboards, told()["published_at"]) == (True, None)
    workspace.dashboards.clear()
    workspace.warehouses.add(WAREHOUSE)
    made = show(client, resolved)
    assert (told()["dashboard_id"], told()["published_at"]) == (made["quality"], "2026-11-22T12:00:00Z")
    kept = json.loads(client.lakeview.get(made["quality"]).serialized_dashboard or "")
    assert {(one["catalog"], one["schema"]) for one in kept["datasets"]} == {("dev", "ada_lakestreams")}
    published = client.lakeview.get_published(made["quality"])
    assert (published.warehouse_id, published.embed_credentials) == (WAREHOUSE, False)
    shown = runner.invoke(app, ["status", "-t", "dev", "--bundle", str(bundle)], env={"COLUMNS": "250"}).stdout
    assert re.search(
        rf"\[dev ada\] lakestreams quality +{made['quality']} +2026-11-22T12:00:00Z +/Workspace/Users/ada", shown
    )


# --- for real --------------------------------------------------------------------------------------------------------


MINUTE = 60_000
TOPICS = {
    "PageViews": [
        ("alice", "/home", 2_000),
        ("dave", "/home", 3_000),
        ("alice", "/cart", 5_000),
    ],
    "UserProfiles": [("alice", "us-east", 1_000), ("alice", "eu-west", 4_000)],
    "Customers": [
        ("c1", '{"name": "Ada"}', 1_000),
        ("c2", '{"name": "Grace"}', 2_000),
        ("c1", '{"name": "Ada Lovelace"}', 5_000),
    ],
    "Orders": [
        ("o1", '{"customer_id": "c1", "amount": 30.00}', 1_000),
        ("o2", '{"customer_id": "c2", "amount": 45.00}', 2_000),
        ("o3", '{"customer_id": "c9", "amount": 12.50}', 3_000),
        ("o4", "no JSON", 4_000),
    ],
    "Payments": [
        ("o1", '{"reference": "p1"}', 1_000 + 5 * MINUTE),
        ("o2", '{"reference": "p2"}', 2_001 + 5 * MINUTE),  # one millisecond late
        # of no order: in either partition they close the windows of the orders
        ("o8", '{"reference": "p8"}', 7 * MINUTE, 0),
        ("o9", '{"reference": "p9"}', 7 * MINUTE, 1),
    ],
}
RESULTS = {
    "enriched_page_views": [
        ("alice", "/cart", "eu-west"),
        ("alice", "/home", "us-east"),
        ("dave", "/home", "<unknown>"),
    ],
    "orders_of_known_customers": [
        ("o1", "c1", Decimal("30.00"), "Ada Lovelace"),
        ("o2", "c2", Decimal("45.00"), "Grace"),
    ],
    "orders_with_names": [
        ("o1", "c1", Decimal("30.00"), "Ada Lovelace"),
        ("o2", "c2", Decimal("45.00"), "Grace"),
        ("o3", "c9", Decimal("12.50"), None),
    ],
    "paid_orders": [("o1", Decimal("30.00"), "p1")],
    "order_payments": [
        ("o1", Decimal("30.00"), "p1"),
        ("o2", Decimal("45.00"), "PENDING"),
        ("o3", Decimal("12.50"), "PENDING"),
    ],
    "orders_and_payments": [
        ("o1", Decimal("30.00"), "p1"),
        ("o2", Decimal("45.00"), None),
        ("o3", Decimal("12.50"), None),
    ],
}


def contents(spark: SparkSession, lake: Path) -> dict[str, list[tuple[Any, ...]]]:
    found = {}
    for table in (lake / "silver").iterdir():
        rows = spark.read.format("delta").load(str(table)).drop("_lineage", "event_time_ms").collect()
        found[table.name] = sorted(map(tuple, rows), key=repr)
    return found


@pytest.mark.broker
@pytest.mark.lts
@pytest.mark.soak
@pytest.mark.timeout(4 * 900)
def test_the_wheels_jobs_run_as_the_bundle_starts_them(
    spark: SparkSession, wheel: Path, workspace: Workspace, client: WorkspaceClient, tmp_path: Path
) -> None:
    """Deployed through the SDK, each job run with the very parameters and files of the bundle, the broker's address apart.

    They run in an environment into which the uploaded wheel was installed. This machine has no Unity Catalog, so the fake
    gives the tables a folder (see its `execute`). The broker is the test's own: the topics have the names of the bundle.
    """
    from lakestreams.local.broker import Broker

    def ended(key: str) -> dict[str, Any]:
        run = workspace.runs[client.jobs.run_now(jobs[key]).result(timeout=LONG).run_id or 0]
        assert (run["state"]["result_state"], run["exit_code"]) == ("SUCCESS", 0), run["log"]
        return run

    workspace.install = cache(lambda wheels: installed(wheels, tmp_path / "compute"))
    workspace.principals.add(SERVICE)
    workspace.warehouses.add(WAREHOUSE)
    workspace.catalogs["prod"] = {"name": "prod", "owner": workspace.user}
    lake = workspace.disk / "Volumes" / "prod" / "_lakestreams" / "checkpoints"
    with Broker() as broker:
        for topic, records in TOPICS.items():
            broker.create_topic(topic, 2)
            broker.produce(topic, records)
        variables = {"runner": SERVICE, "kafka_bootstrap": broker.bootstrap_servers}
        jobs = deploy(client, load(ROOT, "prod", variables, User(workspace.user)), wheel)

        assert "page_views: 1 cycles, 5 records, 0 unreadable" in ended("enrichment")["log"]
        assert "orders_by_customer: 1 cycles, 7 records, 1 unreadable" in ended("fk_join")["log"]

        run_id = client.jobs.run_now(jobs["correlation"]).run_id
        run = workspace.runs[run_id]
        while "cycle 1 published" not in run["log"]:
            assert run["state"]["life_cycle_state"] == "RUNNING", run["log"]
            time.sleep(0.2)
        client.jobs.cancel_run(run_id).result(timeout=LONG)
        assert (run["state"]["result_state"], run["exit_code"]) == ("CANCELED", 0), run["log"]
        assert "order_payments: 1 cycles, 8 records, 1 unreadable" in run["log"]
        assert contents(spark, lake) == RESULTS

    # the other two ask no broker
    said = ended("maintenance")["log"]
    for pipeline in ("page_views", "order_payments", "orders_by_customer"):
        assert f"{pipeline}, bronze whole" in said
    said = ended("verify")["log"]
    for output, rows in RESULTS.items():
        assert re.search(rf"(?m)silver\.{output}\b.*\b{len(rows)}\b.*\bequal\b", said), said
    assert "differ" not in said
    assert contents(spark, lake) == RESULTS
    for run in workspace.runs.values():
        (task,) = workspace.jobs[run["job_id"]]["settings"]["tasks"]
        posted = task["python_wheel_task"]["named_parameters"]
        given = [token.replace(str(workspace.disk), "") for token in run["argv"]]
        assert sorted([*given, "--catalog=prod"]) == sorted(f"--{name}={value}" for name, value in posted.items())
    told = {key: one["result"] for key, one in status(ROOT, "prod", "--var", f"runner={SERVICE}").items()}
    assert told == dict.fromkeys(jobs, "SUCCESS") | {"correlation": "CANCELED"}
