"""What of a bundle is deployed in a workspace: its jobs, each with its last run, and its dashboards. Changes nothing there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakestreams.deploy.bodies import metadata_path
from lakestreams.deploy.presets import TRIGGERS
from lakestreams.deploy.read import Bundle
from lakestreams.errors import WorkspaceUnreachable

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.service.jobs import JobSettings


@dataclass(frozen=True)
class Shown:
    """A dashboard of the bundle in the workspace.

    Attributes:
        key, name: in the bundle, and in the workspace.
        dashboard_id: None if it is not deployed.
        path: where it lies in the workspace.
        published_at: when it was last published (as the workspace tells it), or None.
    """

    key: str
    name: str
    path: str
    dashboard_id: str | None = None
    published_at: str | None = None


@dataclass(frozen=True)
class Deployed:
    """A job of the bundle in the workspace.

    Attributes:
        key, name: in the bundle, and in the workspace.
        job_id: None if it is not deployed.
        starts: what starts it, such as `0 0/15 * * * ? UTC`; None where nothing does.
        paused: whether that is paused.
        result: of the last run: SUCCESS, FAILED, ..., or its state while it goes on; None if there was none.
        started_at: of the last run (UTC), or None.
        seconds: how long it took, or None while it goes on.
        url: its page, or None.
    """

    key: str
    name: str
    job_id: int | None = None
    starts: str | None = None
    paused: bool = False
    result: str | None = None
    started_at: str | None = None
    seconds: float | None = None
    url: str | None = None


def deployed(client: WorkspaceClient, bundle: Bundle) -> list[Deployed]:
    """The bundle's jobs as the workspace has them, each with its last run.

    Raises:
        WorkspaceUnreachable: if the workspace does not tell.
    """
    from databricks.sdk.errors.base import DatabricksError  # noqa: PLC0415 - an optional part

    try:
        return [_deployed(client, key, job["name"], metadata_path(bundle)) for key, job in bundle.jobs.items()]
    except (DatabricksError, TimeoutError, OSError) as error:
        msg = f"the workspace does not list its jobs: {error}"
        raise WorkspaceUnreachable(msg) from error


def shown(client: WorkspaceClient, bundle: Bundle) -> list[Shown]:
    """The bundle's dashboards as the workspace has them.

    Raises:
        WorkspaceUnreachable: if the workspace does not tell.
    """
    from databricks.sdk.errors.base import DatabricksError  # noqa: PLC0415 - an optional part

    try:
        return [_shown(client, key, one) for key, one in bundle.dashboards.items()]
    except (DatabricksError, TimeoutError, OSError) as error:
        msg = f"the workspace does not list its dashboards: {error}"
        raise WorkspaceUnreachable(msg) from error


def _shown(client: WorkspaceClient, key: str, dashboard: Mapping[str, Any]) -> Shown:
    from databricks.sdk.errors import NotFound  # noqa: PLC0415 - an optional part

    name = dashboard["display_name"]
    path = f"{dashboard['parent_path']}/{name}.lvdash.json"
    try:
        dashboard_id = client.workspace.get_status(path).resource_id
    except NotFound:
        return Shown(key, name, path)
    try:
        published_at = client.lakeview.get_published(str(dashboard_id)).revision_create_time
    except NotFound:
        published_at = None
    return Shown(key, name, path, dashboard_id, published_at)


def _deployed(client: WorkspaceClient, key: str, name: str, metadata: str) -> Deployed:
    named = client.jobs.list(name=name)
    found = next((one for one in named if _metadata(one.settings) == metadata), None)
    if found is None or found.job_id is None:
        return Deployed(key, name)
    settings = found.settings.as_dict() if found.settings else {}
    starts, paused = _starts(settings)
    run = next(iter(client.jobs.list_runs(job_id=found.job_id, limit=1)), None)
    if run is None:
        return Deployed(key, name, found.job_id, starts, paused)
    state = run.state.as_dict() if run.state else {}
    milliseconds = run.run_duration or (run.end_time - run.start_time if run.end_time and run.start_time else None)
    began = (
        datetime.fromtimestamp(run.start_time / 1_000, UTC).isoformat(timespec="seconds") if run.start_time else None
    )
    return Deployed(
        key,
        name,
        found.job_id,
        starts,
        paused,
        state.get("result_state") or state.get("life_cycle_state"),
        began,
        milliseconds / 1_000 if milliseconds else None,
        run.run_page_url,
    )


def _metadata(settings: JobSettings | None) -> str | None:
    """Which deployment a job is of: other targets, and other people, may have one of the same name."""
    deployment = settings.deployment if settings else None
    return deployment.metadata_file_path if deployment else None


def _starts(settings: Mapping[str, Any]) -> tuple[str | None, bool]:
    name = next((name for name in TRIGGERS if name in settings), None)
    if name is None:
        return None, False
    start = settings[name]
    paused = start.get("pause_status") == "PAUSED"
    if name == "schedule":
        return f"{start.get('quartz_cron_expression')} {start.get('timezone_id')}", paused
    return name if name == "continuous" else f"{name} {', '.join(_kinds(start))}", paused


def _kinds(start: Mapping[str, Any]) -> Iterable[str]:
    return (key for key in start if key != "pause_status")
