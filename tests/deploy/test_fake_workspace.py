"""The fake workspace's own rules, for the calls that the Databricks CLI makes and our code does not: through the SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.core import Config
from databricks.sdk.errors import BadRequest, InvalidParameterValue, NotFound, ResourceAlreadyExists, ResourceConflict
from databricks.sdk.service.catalog import PermissionsChange, Privilege, VolumeType
from databricks.sdk.service.dashboards import Dashboard
from databricks.sdk.service.iam import AccessControlRequest, PermissionLevel
from databricks.sdk.service.workspace import ObjectType
from tests.deploy.fake_workspace import Workspace, serving

HOME = "/Workspace/Users/ada@example.com"
NOTEBOOK = b"# Databricks notebook source\n1\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path)
    made.place(HOME).mkdir(parents=True)
    made.catalogs["dev"] = {"name": "dev", "owner": made.user}
    made.warehouses.add("w")
    return made


@pytest.fixture
def client(workspace: Workspace) -> Iterator[WorkspaceClient]:
    with serving(workspace) as host:
        yield WorkspaceClient(config=Config(host=host, token="token-of-the-fake", retry_timeout_seconds=1))


def put(client: WorkspaceClient, path: str, data: bytes, overwrite: str = "false") -> None:
    """As the CLI does; the SDK has no call for it."""
    url = f"/api/2.0/workspace-files/import-file/{path.lstrip('/').replace('/', '%2F')}"
    client.api_client.do("POST", url, query={"overwrite": overwrite}, data=data)


def test_files_and_notebooks_come_back_as_they_were(client: WorkspaceClient) -> None:
    with pytest.raises(NotFound):
        put(client, f"{HOME}/b/a file.yml", b"x")
    client.workspace.mkdirs(f"{HOME}/b")
    put(client, f"{HOME}/b/a file.yml", b"{no: json}")
    put(client, f"{HOME}/b/look.py", NOTEBOOK)
    with pytest.raises(ResourceAlreadyExists):
        put(client, f"{HOME}/b/a file.yml", b"y")
    put(client, f"{HOME}/b/a file.yml", b"y", "true")
    assert client.workspace.download(f"{HOME}/b/a file.yml").read() == b"y"
    there = {one.path: one.object_type for one in client.workspace.list(f"{HOME}/b")}
    assert there == {f"{HOME}/b/a file.yml": ObjectType.FILE, f"{HOME}/b/look": ObjectType.NOTEBOOK}
    folder = client.workspace.get_status(f"{HOME}/b")
    assert (folder.object_type, folder.object_id) == (
        ObjectType.DIRECTORY,
        client.workspace.get_status(f"{HOME}/b").object_id,
    )
    with pytest.raises(InvalidParameterValue):
        client.workspace.export(f"{HOME}/b")
    with pytest.raises(ResourceAlreadyExists, match="is a file"):
        client.workspace.mkdirs(f"{HOME}/b/look")


def test_a_folder_goes_with_what_is_in_it_or_not_at_all(client: WorkspaceClient, workspace: Workspace) -> None:
    client.workspace.mkdirs(f"{HOME}/b")
    board = Dashboard(display_name="quality", parent_path=f"{HOME}/b", serialized_dashboard="{}", warehouse_id="w")
    client.lakeview.create(board)
    with pytest.raises(BadRequest, match="is not empty"):
        client.workspace.delete(f"{HOME}/b")
    client.workspace.delete(f"{HOME}/b", recursive=True)
    assert workspace.dashboards == {}
    for path in (f"{HOME}/b", f"{HOME}/b/quality.lvdash.json"):
        with pytest.raises(NotFound):
            client.workspace.get_status(path)


def body(name: str, **more: Any) -> dict[str, Any]:
    task = {"task_key": "a", "existing_cluster_id": "1-2-3", "notebook_task": {"notebook_path": f"{HOME}/look"}}
    return {"name": name, "tasks": [task], **more}


def test_a_job_is_reset_by_the_rules_by_which_it_is_made(client: WorkspaceClient, workspace: Workspace) -> None:
    put(client, f"{HOME}/look.py", NOTEBOOK)
    job = client.api_client.do("POST", "/api/2.2/jobs/create", body=body("one"))["job_id"]

    def reset(settings: dict[str, Any]) -> None:
        client.api_client.do("POST", "/api/2.2/jobs/reset", body={"job_id": job, "new_settings": settings})

    with pytest.raises(InvalidParameterValue, match="Invalid cron"):
        reset(body("one", schedule={"quartz_cron_expression": "* * * * *", "timezone_id": "UTC"}))
    reset(body("two"))
    assert [one["settings"]["name"] for one in workspace.jobs.values()] == ["two"]
    client.jobs.delete(job)
    for call in (lambda: client.jobs.delete(job), lambda: reset(body("three")), lambda: client.jobs.get(job)):
        with pytest.raises(NotFound):
            call()


def test_permissions_are_of_what_is_there_and_a_job_has_one_owner(
    client: WorkspaceClient, workspace: Workspace
) -> None:
    put(client, f"{HOME}/look.py", NOTEBOOK)
    job = str(client.api_client.do("POST", "/api/2.2/jobs/create", body=body("one"))["job_id"])
    owner = AccessControlRequest(user_name=workspace.user, permission_level=PermissionLevel.IS_OWNER)
    all_view = AccessControlRequest(group_name="users", permission_level=PermissionLevel.CAN_VIEW)
    nobody = AccessControlRequest(service_principal_name="nobody", permission_level=PermissionLevel.CAN_VIEW)
    editors = AccessControlRequest(group_name="users", permission_level=PermissionLevel.CAN_EDIT)
    for wrong, told in (
        ([all_view], "exactly one owner"),
        ([owner, editors], "CAN_EDIT is none of jobs"),
        ([owner, nobody], "no service principal"),
        ([owner, all_view, all_view], "ambiguous"),
    ):
        with pytest.raises(InvalidParameterValue, match=told):
            client.permissions.set("jobs", job, access_control_list=wrong)
    client.permissions.set("jobs", job, access_control_list=[owner, all_view])
    held = client.permissions.get("jobs", job).access_control_list or []
    assert [(one.user_name, one.group_name) for one in held] == [
        (workspace.user, None),
        (None, "users"),
        (None, "admins"),
    ]
    for kind in ("directories", "dashboards", "jobs"):
        with pytest.raises(NotFound):
            client.permissions.get(kind, "4711")
    with pytest.raises(InvalidParameterValue):
        client.permissions.get("clusters", "1")


def test_schemas_and_volumes_are_altered_dropped_and_their_grants_taken_back(
    client: WorkspaceClient, workspace: Workspace
) -> None:
    client.schemas.create("ops", "dev", comment="a")
    client.volumes.create("dev", "ops", "files", volume_type=VolumeType.MANAGED)
    client.schemas.update("dev.ops", comment="b")
    client.volumes.update("dev.ops.files", comment="c")
    with pytest.raises(InvalidParameterValue):
        client.schemas.update("dev.ops", new_name="other")
    assert (client.schemas.get("dev.ops").comment, client.volumes.read("dev.ops.files").comment) == ("b", "c")
    me, every = workspace.user, Privilege.ALL_PRIVILEGES
    change = PermissionsChange(principal=me, add=[Privilege.SELECT], remove=[Privilege.SELECT])
    with pytest.raises(InvalidParameterValue, match="Duplicate privileges"):
        client.grants.update("schema", "dev.ops", changes=[change])
    for right in (Privilege.SELECT, Privilege.MODIFY):
        change = PermissionsChange(principal=me, add=[right], remove=[every])
        client.grants.update("schema", "dev.ops", changes=[change])
    (held,) = client.grants.get("schema", "dev.ops").privilege_assignments or []
    assert held.as_dict() == {"principal": me, "privileges": ["MODIFY"]}
    with pytest.raises(BadRequest, match="not empty"):
        client.schemas.delete("dev.ops")
    client.schemas.delete("dev.ops", force=True)
    assert (workspace.schemas, workspace.volumes, workspace.grants) == ({}, {}, {})


def test_a_dashboard_is_changed_by_who_knows_its_last_state(client: WorkspaceClient, workspace: Workspace) -> None:
    board = Dashboard(display_name="one", parent_path=HOME, serialized_dashboard="{}", warehouse_id="w")
    made = client.lakeview.create(board)
    name = made.dashboard_id or ""
    board.serialized_dashboard, board.etag = json.dumps({"datasets": [{"name": "d"}]}), made.etag
    changed = client.lakeview.update(name, board, dataset_catalog="dev")
    assert (changed.dashboard_id, changed.etag != made.etag) == (name, True)
    assert json.loads(changed.serialized_dashboard or "")["datasets"][0]["catalog"] == "dev"
    with pytest.raises(ResourceConflict):
        client.lakeview.update(name, board)
    client.lakeview.trash(name)
    with pytest.raises(NotFound):
        client.lakeview.get(name)
    assert workspace.dashboards == {}


def test_what_no_route_answers_is_remembered(client: WorkspaceClient, workspace: Workspace) -> None:
    with pytest.raises(NotFound):
        client.api_client.do("GET", "/api/2.0/pipelines")
    assert workspace.unknown == ["GET /api/2.0/pipelines"]
