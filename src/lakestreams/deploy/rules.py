"""What can be wrong with a resolved bundle and seen without a workspace.

Fields of jobs and their types are looked at by `fields`, as the CLI's own validation does. These rules look at what refers
to what, at what the wheel's entry points accept, and at how streaming jobs must be started; most of what they find would
otherwise show when a job runs, or never (a task that is declared twice is silently one).
"""

from __future__ import annotations

import tomllib
import zoneinfo
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from lakestreams.deploy import fields, parameters, quartz
from lakestreams.deploy.bodies import is_local, wheel_file
from lakestreams.deploy.parameters import LATER
from lakestreams.deploy.presets import TRIGGERS
from lakestreams.deploy.read import Bundle, whole
from lakestreams.deploy.resource_rules import dashboard_faults, storage_faults
from lakestreams.errors import BundleInvalid
from lakestreams.run.arguments import PACKAGE, READERS, parsers

COMPUTE: Final = ("environment_key", "existing_cluster_id", "job_cluster_key", "new_cluster")
_CODE: Final = ("python_wheel_task", "spark_python_task")
_MODES: Final = ("development", "production")
_NOTEBOOK: Final = "# Databricks notebook source"


Wheels: TypeAlias = "Mapping[str, Mapping[str, ArgumentParser | None]]"
"""Package to entry point to the parser of its arguments; None where only the name is known."""


def known_wheels(root: Path) -> Wheels:
    """Our own wheel, and the one that a pyproject.toml next to databricks.yml builds."""
    found: dict[str, Mapping[str, ArgumentParser | None]] = {PACKAGE: {**parsers(), PACKAGE: None}}
    file = root / "pyproject.toml"
    if file.is_file():
        project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
        if project.get("name", PACKAGE) != PACKAGE:
            found[project["name"]] = dict.fromkeys(project.get("scripts", {}))
    return found


def faults(bundle: Bundle, wheels: Wheels | None = None) -> list[BundleInvalid]:
    """Every fault of a bundle, each with its place and what to do.

    Args:
        bundle: for one target.
        wheels: what tasks may run; by default our wheel and the bundle's own.
    """
    known = wheels or known_wheels(bundle.root)
    found = [*_whole_faults(bundle)]
    for key, job in bundle.jobs.items():
        wrong = list(fields.mistakes(job))
        found += [BundleInvalid(one.message, one.hint, bundle.where(f"jobs.{key}")) for one in wrong]
        if not any(one.shape for one in wrong):  # else there is nothing to hold on to
            found += _job_faults(bundle, key, known)
    if not found:
        found += parameters.overlaps(bundle)
    for key in bundle.dashboards:
        found += dashboard_faults(bundle, key)
    return [*found, *storage_faults(bundle)]


def _job_faults(bundle: Bundle, key: str, wheels: Wheels) -> list[BundleInvalid]:
    try:
        return list(_Job(bundle, key, wheels).faults())
    except (AttributeError, TypeError, ValueError):
        if fields.known():
            raise
        hint = "pip install 'lakestreams[databricks]' to learn which part has another shape than the Jobs API has"
        return [BundleInvalid("it has not the shape of a job", hint, bundle.where(f"jobs.{key}"))]


def unchecked(bundle: Bundle, wheels: Wheels | None = None) -> list[str]:
    """What the rules cannot judge, since it is not in the bundle's files."""
    found = [
        f"what ${{{name}}} stands for: it is known where the Databricks CLI resolves it" for name in bundle.unknown
    ]
    if any("schedule" in job for job in bundle.jobs.values()) and not zoneinfo.available_timezones():
        found.append("time zones of schedules, which this machine does not know: pip install tzdata")
    if (bundle.config.get("python") or {}).get("resources"):
        found.append("resources that are declared in Python")
    known = wheels or known_wheels(bundle.root)
    for key, job in bundle.jobs.items():
        tasks = job.get("tasks")
        for task in tasks if isinstance(tasks, list) else []:
            wheel = task.get("python_wheel_task") if isinstance(task, Mapping) else None
            package = wheel.get("package_name") if isinstance(wheel, Mapping) else None
            if isinstance(package, str) and package not in known and other_wheels(job, task):
                found.append(f"jobs.{key}: what the wheel of {package} accepts")
    return found


def other_wheels(job: Mapping[str, Any], task: Mapping[str, Any]) -> bool:
    """Whether a task installs something that may bring other packages than ours."""
    environments = [
        one for one in job.get("environments") or [] if one.get("environment_key") == task.get("environment_key")
    ]
    specs = [one.get("spec") or {} for one in environments]
    installed = [str(one) for spec in specs for one in spec.get("dependencies") or []]
    installed += [str(one) for library in task.get("libraries") or [] for one in library.values()]
    ours = ("dist/*.whl", "wheels/*.whl")
    return any(not one.endswith(ours) and PACKAGE not in one for one in installed) or any(
        "base_environment" in spec for spec in specs
    )


# --- the bundle as a whole -------------------------------------------------------------------------------------------


def _whole_faults(bundle: Bundle) -> Iterator[BundleInvalid]:
    here = f"target {bundle.target}"
    for name in bundle.dangling:
        yield BundleInvalid(f"reference to nothing: {name}", "declare it, or correct the name", here)
    for what in bundle.unmatched:
        yield BundleInvalid(f"{what} matches no file", "correct the pattern, or remove it", "databricks.yml")
    for name in bundle.doubled:
        yield BundleInvalid(
            f"{name} is declared in two files", "rename one: the later one silently wins", bundle.where(name)
        )
    config = bundle.config
    mode, paused = config.get("mode"), (config.get("presets") or {}).get("trigger_pause_status")
    written = _written_root(bundle)
    if mode not in (None, *_MODES):
        yield BundleInvalid(f"the mode is {mode!r}", f"one of {', '.join(_MODES)}, or none", here)
    if mode == "production" and written is None:
        hint = "/Workspace/Users/${var.runner}/.bundle/${bundle.name}/${bundle.target}"
        yield BundleInvalid("mode production without workspace.root_path", hint, here)
    if mode == "development" and paused == "UNPAUSED":
        yield BundleInvalid("mode development with triggers that are not paused", "remove the preset", here)
    if (written or "").startswith(("/Workspace/Shared", "/Shared")) and not _everybody_manages(config):
        yield BundleInvalid(
            "the root_path is shared with everybody and the permissions are not",
            "permissions: {level: CAN_MANAGE, group_name: users}, or a folder of the deployer's own",
            here,
        )


def _written_root(bundle: Bundle) -> str | None:
    """What the files say; the resolved bundle has a path anyway."""
    config = whole(bundle.root)
    places = [config.get("workspace"), (config["targets"][bundle.target] or {}).get("workspace")]
    paths = [place["root_path"] for place in places if place and "root_path" in place]
    return str(paths[-1]) if paths else None


def _everybody_manages(config: Mapping[str, Any]) -> bool:
    return any(
        one.get("group_name") == "users" and one.get("level") == "CAN_MANAGE" for one in config.get("permissions") or []
    )


# --- a job -----------------------------------------------------------------------------------------------------------


@dataclass
class _Job:
    bundle: Bundle
    key: str
    wheels: Wheels

    def __post_init__(self) -> None:
        self.job: Mapping[str, Any] = self.bundle.jobs[self.key]
        self.folder = self.bundle.files[f"jobs.{self.key}"].parent
        self.tasks: list[Mapping[str, Any]] = self.job.get("tasks", [])
        self.environments = {
            one.get("environment_key"): one.get("spec", {}) for one in self.job.get("environments", [])
        }
        self.clusters = {one.get("job_cluster_key") for one in self.job.get("job_clusters", [])}

    def faults(self) -> Iterator[BundleInvalid]:
        yield from self._starts()
        yield from self._shape()
        for task in self.tasks:
            yield from self._task(task, f"task {task.get('task_key')}")

    def _fault(self, message: str, hint: str) -> BundleInvalid:
        return BundleInvalid(message, hint, self.bundle.where(f"jobs.{self.key}"))

    def _starts(self) -> Iterator[BundleInvalid]:
        started = [name for name in TRIGGERS if name in self.job]
        if len(started) > 1:
            yield self._fault(f"it is started by {' and '.join(started)}", f"keep one of {', '.join(TRIGGERS)}")
        for name in started:
            written = parameters.written(self.bundle, self.key).get(name)
            if isinstance(written, Mapping) and written.get("pause_status") == "UNPAUSED":
                yield self._fault(
                    f"{name} says pause_status UNPAUSED, which also holds in development and where a preset pauses",
                    "remove it: a deployment is not paused by default",
                )
        schedule = self.job.get("schedule") or {}
        expression = schedule.get("quartz_cron_expression")
        known = "schedule" in self.job and LATER not in str(expression)
        wrong = quartz.fault(str(expression)) if known else None
        if wrong:
            yield self._fault(f"the schedule {expression!r} is no Quartz expression: {wrong}", "such as 0 0/15 * * * ?")
        zone = schedule.get("timezone_id")
        zones = zoneinfo.available_timezones()  # none on a machine without tzdata, which then cannot judge
        if "schedule" in self.job and LATER not in str(zone) and zones and zone not in zones:
            yield self._fault(f"the schedule's timezone_id is {zone!r}", "such as UTC or Europe/Berlin")

    def _shape(self) -> Iterator[BundleInvalid]:
        keys = [task.get("task_key") for task in self.tasks]
        for name in sorted({str(name) for name in keys if keys.count(name) > 1}):
            yield self._fault(
                f"task_key {name} appears twice, and the later task silently wins", "give it another name"
            )
        if not self.tasks:
            yield self._fault("it has no tasks", "add one")
        for task in _in_circles(self.tasks):
            yield self._fault(f"task {task} depends on itself through others", "break the circle of depends_on")
        for name, spec in self.environments.items():
            version = spec.get("environment_version", spec.get("client"))
            if version is None and "base_environment" not in spec:
                yield self._fault(f"environment {name} has no environment_version", 'a text, such as "4"')
            elif version is not None and not (isinstance(version, str) and (version.isdigit() or LATER in version)):
                yield self._fault(
                    f"environment {name} has the environment_version {version!r}", 'a number as text, such as "4"'
                )
            for one in spec.get("dependencies", []):
                yield from self._wheel_faults(f"environment {name}", one)
        for parameter in self.job.get("parameters", []):
            if not isinstance(parameter.get("default"), str):
                yield self._fault(f"parameter {parameter.get('name')} has no text as default", 'quote it: default: "1"')

    def _task(self, task: Mapping[str, Any], name: str) -> Iterator[BundleInvalid]:
        compute = [key for key in COMPUTE if key in task]
        for key, there in (("environment_key", self.environments), ("job_cluster_key", self.clusters)):
            if key in task and task[key] not in there:
                known = ", ".join(map(str, there)) or "none"
                yield self._fault(f"{name}: {key} {task[key]} is not declared", f"the job declares: {known}")
        if any(key in task for key in _CODE) and not compute:
            yield self._fault(f"{name}: no compute", f"one of {', '.join(COMPUTE)}")
        if len(compute) > 1:
            yield self._fault(f"{name}: {' and '.join(compute)}", "a task has one compute")
        keys = [one.get("task_key") for one in self.tasks]
        for one in task.get("depends_on", []):
            if one.get("task_key") not in keys:
                yield self._fault(f"{name}: depends on {one.get('task_key')}, which is no task", f"one of {keys}")
        if task.get("depends_on") and "continuous" in self.job:
            yield self._fault(f"{name}: tasks of a continuous job may not wait for each other", "remove depends_on")
        notebook = task.get("notebook_task", {}).get("notebook_path")
        if notebook is not None and not notebook.startswith("/"):
            yield from self._notebook(name, notebook)
        if "environment_key" in task and task.get("libraries"):
            yield self._fault(f"{name}: libraries on serverless compute", "they belong to the environment")
        for library in task.get("libraries", []):
            yield from self._wheel_faults(name, library.get("whl", ""))
        if "python_wheel_task" in task:
            yield from self._wheel_task(name, task)

    def _notebook(self, name: str, notebook: str) -> Iterator[BundleInvalid]:
        file = self.folder / notebook
        if not file.is_file():
            yield self._fault(
                f"{name}: there is no notebook {notebook}", "paths are relative to the file that has them"
            )
        elif file.suffix == ".py" and not file.read_text(encoding="utf-8").startswith(_NOTEBOOK):
            yield self._fault(f"{name}: {notebook} is a file and no notebook", f"its first line is {_NOTEBOOK!r}")

    def _wheel_faults(self, name: str, reference: str) -> Iterator[BundleInvalid]:
        if LATER not in reference and is_local(reference) and wheel_file(self.bundle, self.folder, reference) is None:
            yield self._fault(
                f"{name}: there is no wheel {reference}",
                "paths are relative to the file that has them; put the wheel there, or declare the artifact that builds it",
            )
        there = (
            []
            if self.bundle.config.get("artifacts")
            else sorted(self.folder.glob(reference) if is_local(reference) else ())
        )
        if len(there) > 1:
            yield self._fault(
                f"{name}: {reference} is {' and '.join(one.name for one in there)}",
                "keep the one that the jobs should run",
            )

    def _wheel_task(self, name: str, task: Mapping[str, Any]) -> Iterator[BundleInvalid]:
        wheel = task["python_wheel_task"]
        package, entry = wheel.get("package_name"), wheel.get("entry_point")
        if package not in self.wheels and other_wheels(self.job, task):
            return  # reported as not checked
        if package not in self.wheels:
            known = ", ".join(self.wheels)
            yield self._fault(f"{name}: no wheel of the bundle is the package {package}", f"one of: {known}")
            return
        entries = self.wheels[package]
        if entry not in entries:
            known = ", ".join(sorted(entries))
            yield self._fault(f"{name}: the wheel has no entry point {entry}", f"one of: {known}")
            return
        listed, named = wheel.get("parameters"), wheel.get("named_parameters")
        if listed is not None and named is not None:
            yield self._fault(f"{name}: parameters and named_parameters exclude each other", "keep one")
        values = dict(enumerate(listed or [])) | dict(named or {})
        wrong = [key for key, value in values.items() if not isinstance(value, str)]
        for key in wrong:
            yield self._fault(f"{name}: parameter {key} is {values[key]!r} and no text", f'quote it: "{values[key]}"')
        parser = entries[entry]
        if parser is None or wrong:
            return
        yield from self._arguments(name, task, parser, parameters.tokens_of(wheel))

    def _arguments(
        self, name: str, task: Mapping[str, Any], parser: ArgumentParser, tokens: list[str]
    ) -> Iterator[BundleInvalid]:
        told = parameters.said(parser, tokens)
        for message, hint in told.faults:
            yield self._fault(f"{name}: {message}", hint)
        if told.arguments is None:
            return
        for file in self._files(tokens):
            if not (self.bundle.root / file).is_file():
                yield self._fault(
                    f"{name}: it reads {file}, which the bundle does not have", "paths are relative to databricks.yml"
                )
        interval = getattr(told.arguments, "interval", None)
        if "environment_key" in task and interval not in (None, "none", "once"):
            yield self._fault(
                f"{name}: an interval on serverless compute, which ends tasks that do not end by themselves",
                "a schedule without interval, or a job cluster",
            )
        if "continuous" in self.job and parser.prog in READERS and interval in (None, "none", "once"):
            yield self._fault(
                f"{name}: a continuous job whose task ends at once, so that it starts over and over", "interval: 30s"
            )

    def _files(self, tokens: list[str]) -> list[str]:
        synced = f"{self.bundle.config['workspace']['file_path']}/"
        values = [value.strip() for token in tokens for value in _value(token).split(",")]
        return [value.removeprefix(synced) for value in values if value.startswith(synced)]


def _value(token: str) -> str:
    return token.partition("=")[2] if token.startswith("--") and "=" in token else token


def _in_circles(tasks: list[Mapping[str, Any]]) -> list[str]:
    """Tasks that wait, directly or not, for themselves."""
    waits = {task.get("task_key"): {one.get("task_key") for one in task.get("depends_on", [])} for task in tasks}
    left = dict(waits)
    while ready := [key for key, those in left.items() if not those & left.keys()]:
        for key in ready:
            del left[key]
    return sorted(map(str, left))
