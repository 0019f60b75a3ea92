"""What can be wrong with a resolved bundle and seen without a workspace. Each fault names its place."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.bundle.resolve import Bundle

# Keys that the Jobs API knows; the CLI only warns of others, and the API drops them.
JOB_KEYS = frozenset(
    [
        "budget_policy_id",
        "continuous",
        "description",
        "email_notifications",
        "environments",
        "git_source",
        "health",
        "job_clusters",
        "lifecycle",
        "max_concurrent_runs",
        "name",
        "notification_settings",
        "parameters",
        "performance_target",
        "permissions",
        "queue",
        "run_as",
        "schedule",
        "tags",
        "tasks",
        "timeout_seconds",
        "trigger",
        "webhook_notifications",
    ]
)
TASK_KEYS = frozenset(
    [
        "depends_on",
        "description",
        "disabled",
        "disable_auto_optimization",
        "email_notifications",
        "environment_key",
        "existing_cluster_id",
        "for_each_task",
        "health",
        "job_cluster_key",
        "libraries",
        "max_retries",
        "min_retry_interval_millis",
        "new_cluster",
        "notebook_task",
        "notification_settings",
        "pipeline_task",
        "python_wheel_task",
        "retry_on_timeout",
        "run_if",
        "run_job_task",
        "spark_python_task",
        "sql_task",
        "task_key",
        "timeout_seconds",
        "webhook_notifications",
    ]
)
COMPUTE_KEYS = ("environment_key", "existing_cluster_id", "job_cluster_key", "new_cluster")
NEEDS_COMPUTE = ("python_wheel_task", "spark_python_task")
STARTED_BY = ("schedule", "continuous", "trigger")


def faults(bundle: Bundle, package: str, parsers: Mapping[str, argparse.ArgumentParser]) -> list[str]:
    """Every fault of a bundle.

    Args:
        bundle: for one target.
        package: the name of the wheel's package.
        parsers: entry point to its parser of arguments.
    """
    found = [f"reference to nothing: {name}" for name in bundle.dangling]
    found += _target_faults(bundle.config)
    for key, job in bundle.jobs.items():
        found += [f"jobs.{key}: {fault}" for fault in _job_faults(job, bundle.files[f"jobs.{key}"], package, parsers)]
    return found


def _target_faults(config: Mapping[str, Any]) -> Iterator[str]:
    pause = config.get("presets", {}).get("trigger_pause_status")
    if config.get("mode") == "production" and "root_path" not in config.get("workspace", {}):
        yield "mode production without workspace.root_path"
    if config.get("mode") == "development" and pause == "UNPAUSED":
        yield "mode development with triggers that are not paused"


def _job_faults(
    job: Mapping[str, Any], folder: Path, package: str, parsers: Mapping[str, argparse.ArgumentParser]
) -> Iterator[str]:
    yield from (f"unknown key {name}" for name in sorted(job.keys() - JOB_KEYS))
    if sum(name in job for name in STARTED_BY) > 1:
        yield f"more than one of {', '.join(STARTED_BY)}"
    tasks = job.get("tasks", [])
    keys = [task.get("task_key") for task in tasks]
    yield from (f"task_key {name} twice" for name in sorted({name for name in keys if keys.count(name) > 1}))
    environments = {one["environment_key"]: one["spec"] for one in job.get("environments", [])}
    clusters = {one["job_cluster_key"] for one in job.get("job_clusters", [])}
    for name, spec in environments.items():
        yield from _dependency_faults(f"environment {name}", spec.get("dependencies", []), folder)
    for task in tasks:
        where = f"task {task.get('task_key')}"
        yield from (f"{where}: unknown key {name}" for name in sorted(task.keys() - TASK_KEYS))
        for name, there in (("environment_key", environments), ("job_cluster_key", clusters)):
            if name in task and task[name] not in there:
                yield f"{where}: {name} {task[name]} is not declared"
        if any(name in task for name in NEEDS_COMPUTE) and not any(name in task for name in COMPUTE_KEYS):
            yield f"{where}: no compute"
        for one in task.get("depends_on", []):
            if one["task_key"] not in keys or one["task_key"] == task.get("task_key"):
                yield f"{where}: depends on {one['task_key']}, which is no other task"
        if task.get("depends_on") and "continuous" in job:
            yield f"{where}: tasks of a continuous job may not depend on each other"
        notebook = task.get("notebook_task", {}).get("notebook_path")
        if notebook is not None and not (folder / notebook).is_file():
            yield f"{where}: there is no notebook {notebook}"
        if "environment_key" in task and task.get("libraries"):
            yield f"{where}: libraries on serverless compute; they belong to the environment"
        for fault in _wheel_faults(task.get("python_wheel_task"), package, parsers):
            yield f"{where}: {fault}"


def _dependency_faults(where: str, dependencies: list[str], folder: Path) -> Iterator[str]:
    for one in dependencies:
        # relative paths start at the file that they stand in, and the wheel is built into dist/ beside databricks.yml
        if one.endswith(".whl") and not (folder / one).parent.resolve().parent.joinpath("databricks.yml").is_file():
            yield f"{where}: {one} is not where the wheel is built"


def _wheel_faults(
    wheel: Mapping[str, Any] | None, package: str, parsers: Mapping[str, argparse.ArgumentParser]
) -> Iterator[str]:
    if wheel is None:
        return
    if wheel.get("package_name") != package:
        yield f"package {wheel.get('package_name')}, the wheel's is {package}"
    parser = parsers.get(wheel.get("entry_point", ""))
    if parser is None:
        yield f"entry point {wheel.get('entry_point')}, the wheel has {', '.join(sorted(parsers))}"
        return
    if "parameters" in wheel and "named_parameters" in wheel:
        yield "parameters and named_parameters exclude each other"
    tokens = [*wheel.get("parameters", []), *(f"--{k}={v}" for k, v in wheel.get("named_parameters", {}).items())]
    try:
        unknown = parser.parse_known_args(tokens)[1]
    except SystemExit:
        yield f"parameters that cannot be read: {' '.join(tokens)}"
        return
    yield from (f"parameter {token.partition('=')[0]} is not one of {parser.prog}'s" for token in unknown)
