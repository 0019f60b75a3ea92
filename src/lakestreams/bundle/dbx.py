"""The bundle's jobs for dbx: conf/deployment.yml, made from what databricks.yml says, so that the two cannot drift.

dbx knows no serverless compute and no schemas or volumes, and it uploads a file where a parameter begins with
`file:fuse://`. So tasks get a job cluster, and parameters that name files stand alone. Nor does it know who deploys: in
development, where the bundle tells that person of failures, nobody is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from lakestreams.bundle.read import Bundle, load, targets

_HEAD: Final = """\
# The same jobs for dbx, for teams that still deploy with it; made from databricks.yml, so do not edit it here.
# dbx has no serverless compute, so here every task runs on a job cluster; and no schemas: resources/storage.yml says
# which ones must be there. dbx uploads a file of conf/ where a parameter begins with file:fuse://, so those stand alone.
"""
# What the bundle's variables say of job clusters; a bundle without such clusters need not have them.
_CLUSTER: Final = {
    "spark_version": ("runtime", "17.3.x-scala2.13"),
    "node_type_id": ("node_type", "i3.xlarge"),
    "num_workers": ("workers", 2),
}
_DROPPED: Final = ("environments", "lifecycle", "permissions", "queue", "run_as")
_TASK_DROPPED: Final = ("environment_key", "libraries", "disable_auto_optimization", "python_wheel_task")


def deployment(root: Path, build: str | None) -> dict[str, Any]:
    """The content of conf/deployment.yml for the bundle in a folder.

    Args:
        root: the folder of databricks.yml.
        build: the command that builds the wheel; None if there is nothing to build.
    """
    made: dict[str, Any] = {"build": {"commands": [build]}} if build else {"build": {"no_build": True}}
    environments = {}
    for target in targets(root):
        bundle = load(root, target)
        environments[target] = {"workflows": [_workflow(bundle, key) for key in bundle.jobs]}
    return made | {"environments": environments}


def deployment_text(root: Path, build: str | None) -> str:
    """The text of conf/deployment.yml."""
    return _HEAD + yaml.dump(deployment(root, build), Dumper=_Plain, sort_keys=False, width=120)


class _Plain(yaml.SafeDumper):
    """Writes equal parts out, each in its place, rather than as anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        del indentless  # lists are indented, as in every other file
        return super().increase_indent(flow, indentless=False)


def _workflow(bundle: Bundle, key: str) -> dict[str, Any]:
    job = bundle.jobs[key]
    dropped = {*_DROPPED, "tasks", "job_clusters", "tags", "name"}
    if bundle.config.get("mode") == "development":
        dropped.add("email_notifications")
    made = {name: part for name, part in job.items() if name not in dropped}
    clusters = job.get("job_clusters") or [{"job_cluster_key": "default", "new_cluster": _cluster(bundle)}]
    tags = {name: value for name, value in job.get("tags", {}).items() if name != "dev"}
    return {
        "name": job["name"].rpartition("] ")[2],
        "tags": tags,
        **made,
        "job_clusters": clusters,
        "tasks": [_task(bundle, key, task, clusters[0]["job_cluster_key"]) for task in job["tasks"]],
    }


def _cluster(bundle: Bundle) -> dict[str, Any]:
    """What takes the place of serverless compute: as the target's other job clusters are."""
    made = {name: bundle.variables.get(variable, default) for name, (variable, default) in _CLUSTER.items()}
    return made | {"data_security_mode": "SINGLE_USER"}


def _task(bundle: Bundle, key: str, task: Mapping[str, Any], cluster: str) -> dict[str, Any]:
    wheel = task["python_wheel_task"]
    tokens = [token for name, value in wheel["named_parameters"].items() for token in _tokens(bundle, name, value)]
    made = {name: part for name, part in task.items() if name not in _TASK_DROPPED}
    return {
        "task_key": made.pop("task_key"),
        "job_cluster_key": made.pop("job_cluster_key", cluster),
        **made,
        **_pinned(bundle, key),
        "python_wheel_task": {
            "package_name": wheel["package_name"],
            "entry_point": wheel["entry_point"],
            "parameters": tokens,
        },
    }


def _pinned(bundle: Bundle, key: str) -> dict[str, Any]:
    """The wheel of a bundle that builds none: uploaded from the folder that it lies in."""
    if bundle.config.get("artifacts"):
        return {}  # dbx adds the wheel that it builds
    job = bundle.jobs[key]
    specs = [one["spec"].get("dependencies", []) for one in job.get("environments", [])]
    wheels = [one for dependencies in specs for one in dependencies]
    wheels += [library["whl"] for task in job["tasks"] for library in task.get("libraries", [])]
    folder, root = bundle.files[f"jobs.{key}"].parent, bundle.root
    paths = [(folder / one).resolve().relative_to(root.resolve()).as_posix() for one in wheels]
    return {
        "deployment_config": {"no_package": True},
        "libraries": [{"whl": f"file://{path}"} for path in dict.fromkeys(paths)],
    }


def _tokens(bundle: Bundle, name: str, value: str) -> list[str]:
    files = f"{bundle.config['workspace']['file_path']}/"
    if not value.startswith(files):
        return [f"--{name}={value}"]
    # one parameter a file: dbx replaces a reference only where it is the whole parameter
    return [token for one in value.split(",") for token in (f"--{name}", f"file:fuse://{one.removeprefix(files)}")]
