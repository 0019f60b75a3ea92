"""Jobs of a workspace in memory: what it refuses of them, and how they are run, for real."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

from databricks.sdk.service.jobs import JobSettings
from tests.deploy.refusals import demand, difference, invalid, no_such

WITHIN_S = 900  # a task that takes longer is ended
TYPED = (  # of these the SDK's dataclasses take any value
    *((name, r"-?\d+", "Number") for name in ("max_concurrent_runs", "max_retries", "num_workers", "timeout_seconds")),
    ("min_retry_interval_millis", r"\d+", "Number"),
    *((name, "True|False", "Boolean") for name in ("enabled", "retry_on_timeout", "no_alert_for_canceled_runs")),
)
CRON = re.compile(r"[\d*/,L#W?A-Za-z-]+")
RANGES = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (1, 7), (1970, 2099))
RUNTIMES = ("16.4.x-scala2.12", "17.3.x-scala2.13")
NODES = ("i3.xlarge", "m5d.large")


class Jobs:
    """Jobs and their runs; `Workspace` says what its attributes are."""

    disk: Path
    user: str
    ids: Iterator[int]
    principals: set[str]
    jobs: dict[int, dict[str, Any]]
    runs: dict[int, dict[str, Any]]
    tasks: dict[int, dict[str, Any]]
    processes: dict[int, subprocess.Popen[str]]
    install: Callable[[tuple[Path, ...]], Path] | None
    permissions: dict[str, list[Any]]

    def create_job(self, _query: Any, body: dict[str, Any]) -> Any:
        self.check_job(body)
        job_id = next(self.ids)
        self.jobs[job_id] = {"job_id": job_id, "creator_user_name": self.user, "settings": body}
        return {"job_id": job_id}

    def reset_job(self, _query: Any, body: dict[str, Any]) -> Any:
        job = self.get_job({"job_id": str(body["job_id"])}, None)
        demand(set(body) == {"job_id", "new_settings"}, f"job_id and new_settings: {sorted(body)}")
        self.check_job(body["new_settings"])
        job["settings"] = body["new_settings"]
        return {}

    def delete_job(self, _query: Any, body: dict[str, Any]) -> Any:
        self.get_job({"job_id": str(body["job_id"])}, None)
        del self.jobs[body["job_id"]]
        self.permissions.pop(f"jobs/{body['job_id']}", None)
        return {}

    def get_job(self, query: dict[str, str], _body: Any) -> Any:
        if int(query["job_id"]) not in self.jobs:
            raise no_such(f"Job {query['job_id']}")
        return self.jobs[int(query["job_id"])]

    def list_jobs(self, query: dict[str, str], _body: Any) -> Any:
        asked = query.get("name")
        found = [one for one in self.jobs.values() if asked in (None, one["settings"]["name"])]
        return {"jobs": found, "has_more": False}

    def check_job(self, body: dict[str, Any]) -> None:
        # Typed and back: a key or value that the Jobs API does not know is lost on the way.
        try:
            known = JobSettings.from_dict(json.loads(json.dumps(body))).as_dict()
        except (AttributeError, TypeError) as error:  # a list for a mapping, or the other way round
            raise invalid(f"Could not parse request object: {error}") from None
        for name, pattern, what in TYPED:
            wrong = [one for one in _named(body, name) if not re.fullmatch(pattern, str(one))]
            demand(not wrong, f"Could not parse request object: {name} is {wrong}, Expected {what}")
        demand(known == body, f"unknown fields or values: {difference(body, known)}")
        demand("${" not in json.dumps(body), "a reference that nobody has resolved")
        demand(body.get("name"), "a job has a name")
        demand(
            sum(one in body for one in ("schedule", "continuous", "trigger")) <= 1,
            "one of schedule, continuous, trigger",
        )
        demand(
            "schedule" not in body or _is_cron(body["schedule"]["quartz_cron_expression"]), "Invalid cron expression"
        )
        runner = (body.get("run_as") or {}).get("service_principal_name")
        demand(runner is None or runner in self.principals, f"there is no service principal {runner}")
        tasks = body.get("tasks", [])
        keys = [task["task_key"] for task in tasks]
        demand(tasks, "a job has tasks")
        demand(len(keys) == len(set(keys)), "task keys are unique")
        environments = {one["environment_key"]: one["spec"] for one in body.get("environments", [])}
        clusters = {one["job_cluster_key"]: one["new_cluster"] for one in body.get("job_clusters", [])}
        versions = [spec.get("environment_version") for spec in environments.values()]
        demand(all(isinstance(version, str) for version in versions), "environment_version is a text")
        defaults = [one.get("default") for one in body.get("parameters", [])]
        demand(all(isinstance(default, str) for default in defaults), "the default of a parameter is a text")
        for cluster in clusters.values():
            demand(cluster["spark_version"] in RUNTIMES, f"no runtime {cluster['spark_version']}")
            demand(cluster["node_type_id"] in NODES, f"no node type {cluster['node_type_id']}")
        for task in tasks:
            demand("environment_key" not in task or task["environment_key"] in environments, "unknown environment_key")
            demand("job_cluster_key" not in task or task["job_cluster_key"] in clusters, "unknown job_cluster_key")
            compute = ("environment_key", "job_cluster_key", "existing_cluster_id", "new_cluster")
            demand(sum(one in task for one in compute) == 1, "a task has one compute")
            demand("environment_key" not in task or "libraries" not in task, "serverless compute takes no libraries")
            waits = [one["task_key"] for one in task.get("depends_on", [])]
            demand(set(waits) <= set(keys) - {task["task_key"]}, "depends_on names no task")
            demand(not waits or "continuous" not in body, "tasks of a continuous job cannot depend on each other")
            if "notebook_task" in task:
                path = task["notebook_task"]["notebook_path"]
                demand((self.disk / path.lstrip("/")).is_file(), f"there is no notebook {path}")
            if "python_wheel_task" in task:
                self.check_wheel(task["python_wheel_task"], self.wheels(task, environments))
        demand(_ends(tasks), "depends_on goes round in a circle")

    def check_wheel(self, task: dict[str, Any], wheels: list[Path]) -> None:
        demand(not ("parameters" in task and "named_parameters" in task), "parameters or named_parameters")
        values = [*task.get("parameters", []), *task.get("named_parameters", {}).values()]
        demand(all(isinstance(value, str) for value in values), "parameters are texts")
        demand(wheels, "a wheel task has a wheel")
        packages = {name: entries for wheel in wheels for name, entries in [_read_wheel(wheel)]}
        demand(task["package_name"] in packages, f"no wheel has the package {task['package_name']}")
        demand(task["entry_point"] in packages[task["package_name"]], f"no entry point {task['entry_point']}")

    def wheels(self, task: dict[str, Any], environments: dict[str, Any]) -> list[Path]:
        named = [one["whl"] for one in task.get("libraries", []) if "whl" in one]
        named += environments.get(task.get("environment_key"), {}).get("dependencies", [])
        paths = [self.disk / one.lstrip("/") for one in named]
        for path in paths:
            demand(path.is_file(), f"there is no wheel {path.name}")
        return paths

    def run_now(self, _query: Any, body: dict[str, Any]) -> Any:
        job = self.get_job({"job_id": str(body["job_id"])}, None)["settings"]
        demand(
            set(body) <= {"job_id", "python_named_params"}, f"parameters that the fake has no use for: {sorted(body)}"
        )
        run_id = next(self.ids)
        self.runs[run_id] = {
            "run_id": run_id,
            "job_id": body["job_id"],
            "run_name": job["name"],
            "state": {"life_cycle_state": "RUNNING"},
            "start_time": int(time.time() * 1_000),
            "run_page_url": f"http://127.0.0.1/runs/{run_id}",
            "tasks": [],
            "log": "",
        }
        named = body.get("python_named_params", {})
        threading.Thread(target=self.finish, args=(self.runs[run_id], job, named), daemon=True).start()
        return {"run_id": run_id}

    def finish(self, run: dict[str, Any], job: dict[str, Any], named: dict[str, str]) -> None:
        result = "SUCCESS"
        environments = {one["environment_key"]: one["spec"] for one in job.get("environments", [])}
        for task in job["tasks"]:
            before = len(run["log"])
            try:
                run["exit_code"] = self.execute(run, task, environments, named)
            except Exception as error:  # noqa: BLE001 - a run that nobody ends would be waited for
                run["exit_code"] = 1
                run["log"] += repr(error)
            log, canceled = run["log"][before:], run["state"]["life_cycle_state"] == "TERMINATING"
            result = "CANCELED" if canceled else "FAILED" if run["exit_code"] else "SUCCESS"
            state = {"life_cycle_state": "TERMINATED", "result_state": result, "state_message": log[-300:]}
            told = {"run_id": next(self.ids), "task_key": task["task_key"], "state": state}
            error = {"error": log[-300:]} if result == "FAILED" else {}
            self.tasks[told["run_id"]] = {"metadata": told, "logs": log} | error
            run["tasks"].append(told)
            if result != "SUCCESS":
                break
        ended = int(time.time() * 1_000)
        run |= {"end_time": ended, "run_duration": ended - run["start_time"]}
        run["state"] = {
            "life_cycle_state": "TERMINATED",
            "result_state": result,
            "state_message": run["log"][-300:],
        }

    def cancel_run(self, _query: Any, body: dict[str, Any]) -> Any:
        run = self.runs[body["run_id"]]
        if run["state"]["life_cycle_state"] == "RUNNING":
            run["state"] = {"life_cycle_state": "TERMINATING"}
            self.processes[body["run_id"]].terminate()
        return {}

    def get_output(self, query: dict[str, str], _body: Any) -> Any:
        demand(int(query["run_id"]) not in self.runs, "Retrieving the output of runs with tasks is not supported")
        if int(query["run_id"]) not in self.tasks:
            raise no_such(f"Run {query['run_id']}")
        return self.tasks[int(query["run_id"])]

    def get_run(self, query: dict[str, str], _body: Any) -> Any:
        return self.runs[int(query["run_id"])]

    def list_runs(self, query: dict[str, str], _body: Any) -> Any:
        found = [run for run in self.runs.values() if run["job_id"] == int(query["job_id"])]
        return {"runs": sorted(found, key=lambda run: -run["run_id"]), "has_more": False}

    def execute(
        self, run: dict[str, Any], task: dict[str, Any], environments: dict[str, Any], named: dict[str, str]
    ) -> int:
        wheel = task["python_wheel_task"]
        given = wheel.get("named_parameters", {}) | named
        tokens = [*wheel.get("parameters", []), *(f"--{k}={v}" for k, v in given.items())]
        # This machine has no Unity Catalog: tables lie in the folder of the checkpoints.
        tokens = [token for token in tokens if not token.startswith("--catalog=")]
        tokens = [re.sub(r"(?<==)/(Volumes|Workspace)|(?<=,)/(Workspace)", self.on_disk, token) for token in tokens]
        python, place, environment = self.compute(self.wheels(task, environments))
        code = (
            "import sys, importlib.metadata as m\n"
            f"(one,) = [e for e in m.distribution({wheel['package_name']!r}).entry_points\n"
            f"          if e.name == {wheel['entry_point']!r} and e.group == 'console_scripts']\n"
            f"assert str(m.distribution('lakestreams').locate_file('')).startswith({str(place)!r}), sys.path\n"
            "one.load()()\n"
        )
        process = subprocess.Popen(
            [python, "-c", code, *(re.sub("^--checkpoint-root=", "--root=", token) for token in tokens)],
            cwd=self.disk,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        run["argv"], self.processes[run["run_id"]] = tokens, process
        too_long = threading.Timer(WITHIN_S, process.kill)
        too_long.start()
        assert process.stdout is not None
        for line in process.stdout:
            run["log"] += line
        process.wait()
        too_long.cancel()
        return process.returncode

    def compute(self, wheels: list[Path]) -> tuple[Path, Path, dict[str, str]]:
        """The Python that a task is run by, below which folder it has the wheels, and its environment."""
        if self.install is not None:
            python = self.install(tuple(wheels))
            return python, python.parents[1], _environment()
        site = self.disk / "site" / str(next(self.ids))
        for path in wheels:
            zipfile.ZipFile(path).extractall(site)
        return Path(sys.executable), site, _environment() | {"PYTHONPATH": str(site)}

    def close(self) -> None:
        """Ends what still runs."""
        for process in self.processes.values():
            process.kill()

    def on_disk(self, found: re.Match[str]) -> str:
        return f"{self.disk}{found[0]}"


def _environment() -> dict[str, str]:
    import os

    ours = ("DATABRICKS_", "BUNDLE_VAR_", "PYTHON", "PYSPARK_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def _named(part: Any, name: str) -> Iterator[Any]:
    """What stands under a name, however deep."""
    if isinstance(part, dict):
        yield from ([part[name]] if name in part else [])
    if isinstance(part, dict | list):
        for one in part.values() if isinstance(part, dict) else part:
            yield from _named(one, name)


def _is_cron(text: str) -> bool:
    fields = text.split()
    if len(fields) not in (6, 7) or not all(map(CRON.fullmatch, fields)) or (fields[3] == "?") == (fields[5] == "?"):
        return False
    for field, (low, high) in zip(fields, RANGES, strict=False):
        if any(not low <= int(number) <= high for number in re.findall(r"(?<![/#\d])\d+", field)):
            return False
    return True


def _ends(tasks: list[dict[str, Any]]) -> bool:
    done: set[str] = set()
    left = list(tasks)
    while left:
        ready = [task for task in left if {one["task_key"] for one in task.get("depends_on", [])} <= done]
        if not ready:
            return False
        done |= {task["task_key"] for task in ready}
        left = [task for task in left if task not in ready]
    return True


def _read_wheel(path: Path) -> tuple[str, set[str]]:
    """The package's name and its console scripts."""
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
        (folder,) = {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        metadata = archive.read(f"{folder}/METADATA").decode()
        scripts = ConfigParser()
        scripts.optionxform = str  # type: ignore[assignment,method-assign]
        scripts.read_string(archive.read(f"{folder}/entry_points.txt").decode())
    return re.findall(r"(?m)^Name: (.*)$", metadata)[0], set(scripts["console_scripts"])
