"""The bundle's jobs for dbx: conf/deployment.yml, made from what databricks.yml says, so that the two cannot drift.

dbx knows no serverless compute and no schemas or volumes, and it uploads a file where a parameter begins with
`file:fuse://`. So tasks get a job cluster, and parameters that name files stand alone. Nor does it know who deploys: in
development, where the bundle tells that person of failures, nobody is.

A project has the file from `init`, and the bundle goes on changing: `drift` tells where the two differ, `write` makes the
file again. A file that does not say that it was made from databricks.yml is somebody's own, and left alone by both.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any, Final

import yaml

from lakestreams.deploy.bodies import is_local, wheel_file
from lakestreams.deploy.parts import read_yaml, section
from lakestreams.deploy.presets import name_prefix
from lakestreams.deploy.read import FILE, Bundle, User, load, targets
from lakestreams.errors import BundleInvalid, ProjectExists

PLACE: Final = "conf/deployment.yml"
_HEADER: Final = "made from databricks.yml"
_NOBODY: Final = User("dbx@example.com")
_HEAD: Final = """\
# The same jobs for dbx, for teams that still deploy with it; made from databricks.yml, so do not edit it here:
# `lakestreams dbx` writes it again, `lakestreams check --target` says when that is due. Without dbx it may be deleted.
# dbx has no serverless compute, so here every task runs on a job cluster; and no schemas: resources/storage.yml says
# which ones must be there. Nor does dbx know who deploys: where the bundle has a developer's name, there is `dbx` here.
# dbx uploads a file of conf/ where a parameter begins with file:fuse://, so those stand alone.
"""
# What the bundle's variables say of job clusters; a bundle without such clusters need not have them.
_CLUSTER: Final = {
    "spark_version": ("runtime", "17.3.x-scala2.13"),
    "node_type_id": ("node_type", "i3.xlarge"),
    "num_workers": ("workers", 2),
}
_DROPPED: Final = ("environments", "lifecycle", "performance_target", "permissions", "queue", "run_as")
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
        bundle = load(root, target, user=_NOBODY, of_this_machine=False)
        environments[target] = {"workflows": [_workflow(bundle, key) for key in bundle.jobs]}
    return made | {"environments": environments}


def deployment_text(root: Path, build: str | None) -> str:
    """The text of conf/deployment.yml."""
    return _HEAD + yaml.dump(deployment(root, build), Dumper=_Plain, sort_keys=False, width=120)


def write(root: Path) -> bool:
    """Writes the file of the bundle in a folder again; returns whether it was another one before.

    Raises:
        ConfigUnreadable: if there is no bundle.
        ProjectExists: if there is a file that was not made from the bundle.
    """
    text, file = deployment_text(root, build_of(root)), root / PLACE
    before = file.read_text(encoding="utf-8") if file.is_file() else None
    if before is not None and _HEADER not in before.partition("\n")[0]:
        msg = f"{PLACE} is not {_HEADER}, so it is not replaced"
        raise ProjectExists(msg, hint="move it away, or keep it: it is then yours to keep up to date")
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return text != before


def drift(root: Path) -> BundleInvalid | None:
    """That the file, if there is one and it was made from the bundle, does not say any more what the bundle does."""
    file = root / PLACE
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    if _HEADER not in text.partition("\n")[0]:
        return None
    existing, wanted = read_yaml(file), deployment(root, build_of(root))
    where = _differing(existing, wanted)
    if not where:
        return None
    msg = f"{PLACE} differs from the bundle that it was made from: {', '.join(where)}"
    return BundleInvalid(msg, hint=f"lakestreams dbx --bundle {quote(str(root))}; without dbx: delete it", where=PLACE)


def build_of(root: Path) -> str | None:
    """The command that builds the bundle's wheel; None where none is built."""
    artifacts = section(read_yaml(root / FILE).get("artifacts"), "artifacts").values()
    built = [
        one["build"] for one in artifacts if isinstance(one, Mapping) and one.get("type") == "whl" and one.get("build")
    ]
    return next(iter(built), None)


def _differing(existing: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """`prod: enrichment` for each job that differs; the names of other parts as they are."""
    told = [part for part in sorted({*existing, *wanted} - {"environments"}) if existing.get(part) != wanted.get(part)]
    mine, other = existing.get("environments") or {}, wanted["environments"]
    for target in dict.fromkeys([*other, *mine]):
        here, leading = (_jobs(one.get(target)) for one in (mine, other))
        told += [f"{target}: {job}" for job in dict.fromkeys([*leading, *here]) if here.get(job) != leading.get(job)]
    return told


def _jobs(environment: Any) -> dict[str, Any]:
    workflows = environment.get("workflows") if isinstance(environment, Mapping) else None
    return {str(one.get("name")): one for one in workflows or [] if isinstance(one, Mapping)}


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
    development = bundle.config.get("mode") == "development"
    if development:
        dropped.add("email_notifications")
    made = {name: part for name, part in job.items() if name not in dropped}
    clusters = job.get("job_clusters") or [{"job_cluster_key": "default", "new_cluster": _cluster(bundle)}]
    tags = {name: value for name, value in job.get("tags", {}).items() if name != "dev" or not development}
    return {
        "name": job["name"].removeprefix(name_prefix(bundle.config, bundle.user.short_name))
        if development
        else job["name"],
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
    made = {name: part for name, part in task.items() if name not in _TASK_DROPPED}
    if not any(name in task for name in ("new_cluster", "existing_cluster_id", "job_cluster_key")):
        made["job_cluster_key"] = cluster
    first: dict[str, Any] = {name: made.pop(name) for name in ("task_key", "job_cluster_key") if name in made}
    wheel = task.get("python_wheel_task")
    if wheel is None:
        return first | made
    named = (wheel.get("named_parameters") or {}).items()
    tokens = [token for name, value in named for token in _tokens(bundle, name, str(value))]
    return {
        **first,
        **made,
        **_libraries(bundle, key),
        "python_wheel_task": {
            "package_name": wheel["package_name"],
            "entry_point": wheel["entry_point"],
            "parameters": [*(wheel.get("parameters") or []), *tokens],
        },
    }


def _libraries(bundle: Bundle, key: str) -> dict[str, Any]:
    """What a job's tasks need; the wheel of a bundle that builds none is uploaded from the folder that it lies in."""
    job, built = bundle.jobs[key], bool(bundle.config.get("artifacts"))
    specs = [one.get("spec") or {} for one in job.get("environments") or []]
    found = [_library(one) for spec in specs for one in spec.get("dependencies") or []]
    found += [library for task in job["tasks"] for library in task.get("libraries") or []]
    folder, libraries = bundle.files[f"jobs.{key}"].parent, []
    for library in found:
        reference = library.get("whl", "")
        if not is_local(reference):
            libraries.append(library)
        elif not built:  # else dbx adds the wheel that it builds
            file = wheel_file(bundle, folder, reference)  # dbx knows no patterns
            place = folder / reference if file is None else (folder / reference).with_name(file)
            path = os.path.relpath(place, bundle.root)
            libraries.append({"whl": f"file://{Path(path).as_posix()}"})
    each_once = [one for index, one in enumerate(libraries) if one not in libraries[:index]]
    made: dict[str, Any] = {} if built else {"deployment_config": {"no_package": True}}
    return made | ({"libraries": each_once} if each_once else {})


def _library(dependency: str) -> dict[str, Any]:
    """What serverless compute has as a line of requirements, as a library of a cluster."""
    return {"whl": dependency} if dependency.endswith(".whl") else {"pypi": {"package": dependency}}


def _tokens(bundle: Bundle, name: str, value: str) -> list[str]:
    files = f"{bundle.config['workspace']['file_path']}/"
    if not value.startswith(files):
        return [f"--{name}={value}"]
    # one parameter a file: dbx replaces a reference only where it is the whole parameter
    return [token for one in value.split(",") for token in (f"--{name}", f"file:fuse://{one.removeprefix(files)}")]
