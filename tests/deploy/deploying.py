"""Deploys a resolved bundle through databricks-sdk, in the order in which the Databricks CLI does."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from databricks.sdk.service.catalog import PermissionsChange, Privilege, VolumeType
from databricks.sdk.service.dashboards import Dashboard
from databricks.sdk.service.jobs import JobSettings
from databricks.sdk.service.workspace import ImportFormat

from lakestreams.deploy.bodies import dashboard_calls, job_bodies

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient

    from lakestreams.deploy.read import Bundle

SYNCED = ("conf/*.yml", "notebooks/*.py")


def deploy(client: WorkspaceClient, bundle: Bundle, wheel: Path) -> dict[str, int]:
    """Job key to id."""
    paths = bundle.config["workspace"]
    files = [file for pattern in SYNCED for file in sorted(bundle.root.glob(pattern))]
    for file in files:
        upload(client, f"{paths['file_path']}/{file.relative_to(bundle.root).as_posix()}", file)
    upload(client, f"{paths['artifact_path']}/.internal/{wheel.name}", wheel)
    for item in bundle.resources["schemas"].values():
        client.schemas.create(item["name"], item["catalog_name"], comment=item["comment"])
        grant(client, "schema", f"{item['catalog_name']}.{item['name']}", item["grants"])
    for item in bundle.resources["volumes"].values():
        place = (item["catalog_name"], item["schema_name"], item["name"])
        client.volumes.create(*place, volume_type=VolumeType.MANAGED)
        grant(client, "volume", ".".join(place), item["grants"])
    for item in bundle.resources["secret_scopes"].values():
        client.secrets.create_scope(item["name"])
    show(client, bundle)
    return {key: create(client, body) for key, body in job_bodies(bundle).items()}


def show(client: WorkspaceClient, bundle: Bundle) -> dict[str, str]:
    """Dashboard key to id."""
    made = {}
    for key, calls in dashboard_calls(bundle).items():
        client.workspace.mkdirs(calls["body"]["parent_path"])
        draft = client.lakeview.create(Dashboard.from_dict(calls["body"]), **calls["query"])
        assert draft.dashboard_id is not None
        client.lakeview.publish(draft.dashboard_id, **calls["publish"])
        made[key] = draft.dashboard_id
    return made


def create(client: WorkspaceClient, body: dict[str, Any]) -> int:
    settings = JobSettings.from_dict(body)
    job_id = client.jobs.create(**{name: getattr(settings, name) for name in body}).job_id
    assert job_id is not None
    return job_id


def upload(client: WorkspaceClient, path: str, file: Path) -> None:
    client.workspace.mkdirs(path.rpartition("/")[0])
    content = base64.b64encode(file.read_bytes()).decode()
    client.workspace.import_(path, content=content, format=ImportFormat.AUTO, overwrite=True)


def grant(client: WorkspaceClient, kind: str, name: str, grants: Iterable[dict[str, Any]]) -> None:
    changes = [
        PermissionsChange(principal=one["principal"], add=[Privilege(right) for right in one["privileges"]])
        for one in grants
    ]
    client.grants.update(kind, name, changes=changes)
