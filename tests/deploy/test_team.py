"""A team's workspace: two developers side by side, two targets, and one prod that CI and people update."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.core import Config
from databricks.sdk.errors import ResourceAlreadyExists
from tests.deploy.deploying import deploy
from tests.deploy.fake_workspace import Workspace, serving
from typer.testing import CliRunner

from lakestreams.cli.app import app
from lakestreams.deploy.read import Bundle, User, load
from lakestreams.deploy.rules import faults
from lakestreams.deploy.template import JOBS, Project, init

ROOT = Path(__file__).parents[2]
ADA, GRACE, CI = User("ada@example.com"), User("grace.hopper@example.com"), User("11111111-2222-3333-4444-555555555555")
SERVICE = "00000000-0000-0000-0000-000000000000"
KEPT = ("schemas", "volumes", "secret_scopes")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """One workspace, one catalog."""
    made = Workspace(tmp_path / "workspace")
    made.catalogs["main"] = {"name": "main", "owner": "somebody@example.com"}
    made.principals.add(SERVICE)
    made.warehouses.add("0000000000000000")
    return made


@pytest.fixture
def client(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkspaceClient]:
    with serving(workspace) as host:
        monkeypatch.setenv("DATABRICKS_HOST", host)
        monkeypatch.setenv("DATABRICKS_TOKEN", "token-of-the-fake")
        monkeypatch.setenv("DATABRICKS_CONFIG_FILE", str(tmp_path / "none.cfg"))
        monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))
        yield WorkspaceClient(config=Config(host=host, token="token-of-the-fake", retry_timeout_seconds=1))


def resolved(target: str, user: User, **variables: str) -> Bundle:
    return load(ROOT, target, {"catalog": "main", **variables}, user)


def status(target: str, *more: str) -> dict[str, int | None]:
    line = ["status", "-t", target, "--bundle", str(ROOT), "--var", "catalog=main", *more, "--json"]
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 0, done.stderr
    return {one["key"]: one["job_id"] for one in json.loads(done.stdout)["jobs"]}


# --- one workspace ---------------------------------------------------------------------------------------------------


def test_two_developers_deploy_dev_side_by_side_into_one_catalog(
    workspace: Workspace, client: WorkspaceClient, shell_wheel: Path
) -> None:
    made = {}
    for user in (ADA, GRACE):
        workspace.user = user.name
        made[user.short_name] = deploy(client, resolved("dev", user), shell_wheel)
        assert status("dev") == made[user.short_name]
    assert not set(made["ada"].values()) & set(made["grace_hopper"].values())
    assert {"main.ada_silver", "main.grace_hopper_silver"} <= set(workspace.schemas)
    assert set(workspace.scopes) == {"lakestreams-dev-ada", "lakestreams-dev-grace_hopper"}


@pytest.mark.soak  # test_f1_to_f10 has it of two targets and two users
def test_status_shows_only_the_jobs_of_its_target(
    workspace: Workspace, client: WorkspaceClient, shell_wheel: Path
) -> None:
    schemas = {f"{room}_schema": f"staging_{room}" for room in ("bronze", "silver", "control")}
    given = [token for name, value in schemas.items() for token in ("--var", f"{name}={value}")]
    made = deploy(client, resolved("prod", ADA), shell_wheel)
    assert status("staging", *given) == dict.fromkeys(made), "they have the same names"
    own = deploy(client, resolved("staging", ADA, **schemas), shell_wheel)
    assert (status("staging", *given), status("prod")) == (own, made)
    names = {one["settings"]["name"] for one in workspace.jobs.values()}
    assert names == {f"lakestreams-{key}" for key in made}, "of two bundles in a workspace jobs have different names"


@pytest.mark.slow
def test_ci_and_a_person_update_the_same_prod(workspace: Workspace, client: WorkspaceClient, shell_wheel: Path) -> None:
    by_ci, by_hand = resolved("prod", CI), resolved("prod", GRACE)
    assert by_ci.config["workspace"] == by_hand.config["workspace"]
    assert {**by_ci.resources} == {**by_hand.resources}
    made = deploy(client, by_ci, shell_wheel)
    workspace.user = GRACE.name
    assert status("prod") == made


def test_a_secret_scope_that_is_there_already_is_not_taken_over(workspace: Workspace, client: WorkspaceClient) -> None:
    """As schemas: `bundle deployment bind` makes it the deployment's."""
    workspace.scopes["lakestreams-prod"] = {"password"}
    with pytest.raises(ResourceAlreadyExists):
        client.secrets.create_scope("lakestreams-prod")


# --- rights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["dev", "staging", "prod"])
def test_data_is_protected_from_destroy_in_prod_alone(target: str) -> None:
    kept = [item for kind in KEPT for item in resolved(target, ADA).resources[kind].values()]
    assert len(kept) == 5
    protected = [item.get("lifecycle", {}).get("prevent_destroy", False) for item in kept]
    assert protected == [target == "prod"] * 5


@pytest.mark.parametrize("target", ["staging", "prod"])
def test_nobody_but_the_team_and_a_group_of_viewers_sees_it(target: str) -> None:
    bundle = resolved(target, ADA)
    assert bundle.config["permissions"] == [
        {"group_name": "data-platform", "level": "CAN_MANAGE"},
        {"service_principal_name": SERVICE, "level": "CAN_VIEW"},
    ]
    seen = [{"group_name": "data-readers", "level": "CAN_VIEW"}] if target == "prod" else None
    assert {key: job.get("permissions") for key, job in bundle.jobs.items()} == dict.fromkeys(bundle.jobs, seen)
    assert not [one for one in bundle.config["permissions"] if one.get("group_name") in ("users", "data-readers")], (
        "of secret scopes the CLI makes READ of CAN_VIEW"
    )
    (scope,) = bundle.resources["secret_scopes"].values()
    assert scope["name"] == f"lakestreams-{target}"


# --- a project -------------------------------------------------------------------------------------------------------


def test_a_project_has_its_workspace_its_cloud_and_a_uuid_of_its_own(tmp_path: Path) -> None:
    places = [tmp_path / one / "mine" for one in "ab"]
    for place in places:
        line = ["init", str(place), "--host", "https://adb-1.azuredatabricks.net/", "--cloud", "azure"]
        done = CliRunner().invoke(app, line)
        assert done.exit_code == 0, done.stderr
    for target in ("dev", "staging", "prod"):
        one, other = (load(place, target) for place in places)
        assert one.config["workspace"]["host"] == "https://adb-1.azuredatabricks.net"
        assert one.variables["node_type"] == "Standard_D4ds_v5"
        assert one.config["bundle"]["uuid"] != other.config["bundle"]["uuid"]
    refused = CliRunner().invoke(app, ["init", str(tmp_path / "c"), "--host", "my workspace"])
    assert (refused.exit_code, "LS112" in refused.stderr) == (1, True)


def test_another_wheel_in_the_folder_is_the_new_version(tmp_path: Path, shell_wheel: Path) -> None:
    """No file names a version: upgrading is moving files."""
    init(tmp_path / "mine", Project("mine", jobs=JOBS), shell_wheel)
    texts = [file for file in (tmp_path / "mine").rglob("*") if file.suffix in (".yml", ".py")]
    assert [file.name for file in texts if shell_wheel.name in file.read_text(encoding="utf-8")] == []
    newer = tmp_path / "mine" / "wheels" / "lakestreams-0.2.0-py3-none-any.whl"
    newer.write_bytes(shell_wheel.read_bytes())
    told = {fault.message for fault in faults(load(tmp_path / "mine", "prod"))}
    assert len(told) == 2, "of environments and of tasks"
    assert all(f"../wheels/*.whl is {shell_wheel.name} and {newer.name}" in one for one in told)
    (tmp_path / "mine" / "wheels" / shell_wheel.name).unlink()
    assert faults(load(tmp_path / "mine", "prod")) == []
