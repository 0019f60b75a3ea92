"""What a deployment sends: the body of jobs/create for each job, as CLI 1.13 forms it from a resolved bundle.

Where a CLI is on PATH, tests/deploy/test_cli.py compares these forms, and those of dashboards, with what it sends; with
1.13.0 they were equal for all targets.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from lakestreams.deploy.read import Bundle

_NOT_SENT: Final = ("permissions", "lifecycle")  # a call of its own; the CLI's own business


def job_bodies(bundle: Bundle) -> dict[str, dict[str, Any]]:
    """Key to the body of jobs/create.

    Raises:
        FileNotFoundError: if a wheel's name is not known: neither the file nor what builds it is there.
    """
    return {key: _body(bundle, key, job) for key, job in bundle.jobs.items()}


def metadata_path(bundle: Bundle) -> str:
    """The file in the workspace that tells a deployment from others; its jobs name it."""
    return f"{bundle.config['workspace']['state_path']}/metadata.json"


def dashboard_calls(bundle: Bundle) -> dict[str, dict[str, dict[str, Any]]]:
    """Key to the two calls that make a dashboard: what `create` takes as `body` and as `query`, and what `publish` takes.

    Raises:
        FileNotFoundError: if the file that a dashboard is made of is not there.
    """
    return {key: _dashboard_calls(bundle, key, one) for key, one in bundle.dashboards.items()}


def dashboard_file(bundle: Bundle, key: str) -> Path:
    """The file that a dashboard is made of, whether it is there or not; paths start at the file they stand in."""
    return bundle.files[f"dashboards.{key}"].parent / str(bundle.dashboards[key].get("file_path"))


def _dashboard_calls(bundle: Bundle, key: str, dashboard: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    body = {name: dashboard[name] for name in ("display_name", "parent_path", "warehouse_id") if name in dashboard}
    query = {name: dashboard[name] for name in ("dataset_catalog", "dataset_schema") if name in dashboard}
    publish = {name: dashboard[name] for name in ("embed_credentials", "warehouse_id") if name in dashboard}
    body["serialized_dashboard"] = dashboard_file(bundle, key).read_text(encoding="utf-8")
    return {"body": body, "query": query, "publish": publish}


def wheel_file(bundle: Bundle, folder: Path, reference: str) -> str | None:
    """The name of the wheel that a relative reference leads to, or None.

    Args:
        folder: of the file that the reference stands in.
        reference: such as `../dist/*.whl`: the newest wheel there, or the one that the bundle's artifact will build.
    """
    place = (folder / reference).resolve()
    built = [
        name
        for artifact in (bundle.config.get("artifacts") or {}).values()
        if artifact.get("type") == "whl" and (name := _built(bundle.root / artifact.get("path", ".")))
        if place.parent == (bundle.root / artifact.get("path", ".") / "dist").resolve()
    ]
    if built:
        return built[0]
    there = sorted(place.parent.glob(place.name)) if place.parent.is_dir() else []
    return there[-1].name if there else None


def _built(project: Path) -> str | None:
    """The wheel that a project without compiled code builds."""
    file = project / "pyproject.toml"
    if not file.is_file():
        return None
    found = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
    name = re.sub(r"[-_.]+", "_", str(found.get("name", ""))).lower()
    return f"{name}-{found.get('version')}-py3-none-any.whl"


def is_local(reference: str) -> bool:
    """Whether a dependency is a file of the bundle rather than of the workspace, a volume or an index."""
    return reference.endswith(".whl") and not reference.startswith("/") and "://" not in reference


def _body(bundle: Bundle, key: str, job: Mapping[str, Any]) -> dict[str, Any]:
    folder, paths = bundle.files[f"jobs.{key}"].parent, bundle.config["workspace"]
    body = {name: copy.deepcopy(part) for name, part in job.items() if name not in _NOT_SENT}
    body |= {
        "deployment": {"kind": "BUNDLE", "metadata_file_path": metadata_path(bundle)},
        "edit_mode": "UI_LOCKED",
        "format": "MULTI_TASK",
    }
    body.setdefault("queue", {"enabled": True})
    if bundle.config.get("run_as"):
        body.setdefault("run_as", dict(bundle.config["run_as"]))
    for environment in body.get("environments", []):
        spec = environment.get("spec", {})
        spec["dependencies"] = [_uploaded(bundle, folder, one) for one in spec.get("dependencies", [])]
    for task in body.get("tasks", []):
        for library in task.get("libraries", []):
            if "whl" in library:
                library["whl"] = _uploaded(bundle, folder, library["whl"])
        notebook = task.get("notebook_task", {}).get("notebook_path")
        if notebook and not notebook.startswith("/"):
            inside = (folder / notebook).resolve().relative_to(bundle.root.resolve())
            path = PurePosixPath(paths["file_path"], inside.as_posix())
            task["notebook_task"]["notebook_path"] = str(path.with_suffix("") if path.suffix == ".py" else path)
    for name, by in (("tasks", "task_key"), ("job_clusters", "job_cluster_key"), ("environments", "environment_key")):
        if name in body:
            body[name] = sorted(body[name], key=lambda one: str(one.get(by)))
    return body


def _uploaded(bundle: Bundle, folder: Path, reference: str) -> str:
    if not is_local(reference):
        return reference
    name = wheel_file(bundle, folder, reference)
    if name is None:
        raise FileNotFoundError(reference)
    return f"{bundle.config['workspace']['artifact_path']}/.internal/{name}"
