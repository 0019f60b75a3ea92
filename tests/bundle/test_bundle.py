"""The bundle and its twin for dbx, checked as far as it goes without a workspace; mistakes are planted and found."""

from __future__ import annotations

import argparse
import importlib
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.bundle.resolve import WORKSPACE, Bundle, load, targets
from tests.bundle.rules import faults

from lakestreams.engine.lake import CONTROL_SCHEMA, Lake
from lakestreams.jobs import entry

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DEPLOYMENT = yaml.safe_load((ROOT / "conf/deployment.yml").read_text(encoding="utf-8"))
TARGETS = targets(ROOT)


def parsers() -> dict[str, argparse.ArgumentParser]:
    """The jobs among the wheel's entry points, with their parsers."""
    found = {}
    for name, place in PROJECT["scripts"].items():
        module, _, function = place.partition(":")
        if module.startswith("lakestreams.jobs."):
            job = importlib.import_module(module)
            assert callable(getattr(job, function))
            found[name] = entry._parser(name, job.DEFAULT_PIPELINE)
    return found


def problems(bundle: Bundle) -> list[str]:
    return faults(bundle, PROJECT["name"], parsers())


@pytest.mark.parametrize(
    "file", ["databricks.yml", "conf/deployment.yml", "resources/enrichment.job.yml", "resources/storage.yml"]
)
def test_every_file_is_yaml_without_tabs_or_doubled_keys(file: str) -> None:
    class Strict(yaml.SafeLoader):
        """A loader that does not let a later key win silently."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
            assert len(keys) == len(set(keys)), f"{node.start_mark}: doubled key in {keys}"
            return super().construct_mapping(node, deep)

    assert isinstance(yaml.load((ROOT / file).read_text(encoding="utf-8"), Strict), dict)


def test_every_resource_file_is_included() -> None:
    included = set(load(ROOT, "dev").files.values())
    assert included == {ROOT / "resources"}


@pytest.mark.parametrize("target", TARGETS)
def test_the_bundle_has_no_fault(target: str) -> None:
    assert problems(load(ROOT, target)) == []


def test_targets_are_what_they_are_called() -> None:
    dev, staging, prod = (load(ROOT, target).config for target in ("dev", "staging", "prod"))
    assert (dev["mode"], dev["default"]) == ("development", True)
    assert staging["mode"] == prod["mode"] == "production"
    assert staging["presets"]["trigger_pause_status"] == "PAUSED"
    assert "presets" not in prod
    assert staging["workspace"]["root_path"] != prod["workspace"]["root_path"]
    assert [one["level"] for one in prod["permissions"]] == ["CAN_MANAGE", "CAN_VIEW"]


@pytest.mark.parametrize("target", TARGETS)
def test_the_schemas_that_the_engine_writes_to_are_deployed(target: str) -> None:
    """The engine makes tables and never schemas; in development mode a prefix would hide them from it."""
    bundle = load(ROOT, target)
    lake = Lake(root="", catalog=target)
    deployed = {schema["name"] for schema in bundle.resources["schemas"].values()}
    assert deployed == {lake.bronze_schema, lake.output("name").name.partition(".")[0], CONTROL_SCHEMA}
    assert bundle.config["experimental"]["skip_name_prefix_for_schema"] is True
    assert {item["catalog_name"] for kind in ("schemas", "volumes") for item in bundle.resources[kind].values()} == {
        target
    }
    (volume,) = bundle.resources["volumes"].values()
    parameters = bundle.jobs["enrichment"]["tasks"][0]["python_wheel_task"]["named_parameters"]
    assert parameters["checkpoint-root"] == "/".join(
        ("/Volumes", volume["catalog_name"], volume["schema_name"], volume["name"])
    )


@pytest.mark.parametrize("target", TARGETS)
def test_the_files_that_a_job_reads_are_deployed_with_it(target: str) -> None:
    for job in load(ROOT, target).jobs.values():
        for task in job["tasks"]:
            values = task["python_wheel_task"]["named_parameters"].values()
            files = [
                value.removeprefix(f"{WORKSPACE['workspace.file_path']}/") for value in values if "/conf/" in value
            ]
            assert files
            assert all((ROOT / file).is_file() for file in files)


@pytest.mark.parametrize("target", TARGETS)
def test_a_job_never_runs_beside_itself(target: str) -> None:
    for job in load(ROOT, target).jobs.values():
        assert job["max_concurrent_runs"] == 1
        assert all(task["max_retries"] > 0 for task in job["tasks"])


def test_overrides_reach_whatever_refers_to_the_variable() -> None:
    bundle = load(ROOT, "dev", {"catalog": "dev_ada"})
    named = bundle.jobs["enrichment"]["tasks"][0]["python_wheel_task"]["named_parameters"]
    assert named["catalog"] == "dev_ada"
    assert named["checkpoint-root"].startswith("/Volumes/dev_ada/")


# --- planted mistakes: (file, text, what stands there instead, the fault) --------------------------------------------

JOB, MAIN = "resources/enrichment.job.yml", "databricks.yml"
PLANTED = {
    "unknown variable": (JOB, "${var.kafka_bootstrap}", "${var.kafka}", "reference to nothing: var.kafka"),
    "unknown resource": (
        "resources/storage.yml", "schemas.control.name", "schemas.ops.name", "reference to nothing: resources.schemas.ops.name",
    ),
    "unknown field": (
        "resources/storage.yml", "control.name}", "control.title}", "reference to nothing: resources.schemas.control.title",
    ),
    "cyclic variable": (MAIN, "/Volumes/${var.catalog}", "${var.checkpoint_root}", "reference to nothing: var.checkpoint_root"),
    "variable of a target": (MAIN, "catalog: prod", "catalogue: prod", "reference to nothing: targets.prod.variables.catalogue"),
    "no root path": (MAIN, "root_path:", "file_path:", "mode production without workspace.root_path"),
    "environment": (JOB, "- environment_key: default", "- environment_key: other", "environment_key default is not declared"),
    "job cluster": (JOB, "          environment_key: default", "          job_cluster_key: big", "job_cluster_key big is not declared"),
    "no compute": (JOB, "          environment_key: default\n", "", "task enrich: no compute"),
    "notebook": (
        JOB, "      environments:", "        - {task_key: look, notebook_task: {notebook_path: ../notebooks/look.py}}\n      environments:",
        "there is no notebook ../notebooks/look.py",
    ),
    "depends_on": (
        JOB, "          max_retries", "          depends_on: [{task_key: ingest}]\n          max_retries",
        "depends on ingest, which is no other task",
    ),
    "package": (JOB, "package_name: lakestreams", "package_name: lakestream", "package lakestream, the wheel's is lakestreams"),
    "entry point": (JOB, "entry_point: enrichment", "entry_point: enrich", "entry point enrich, the wheel has correlation, enrichment, fk_join, pipeline"),
    "parameter": (JOB, "checkpoint-root:", "checkpoints-root:", "parameter --checkpoints-root is not one of enrichment's"),
    "value": (JOB, "              catalog:", "              max-bad-share: five\n              catalog:", "cannot be read"),
    "wheel's place": (JOB, "../dist/*.whl", "dist/*.whl", "is not where the wheel is built"),
    "key of a job": (JOB, "timeout_seconds", "timeout_second", "unknown key timeout_second"),
    "key of a task": (JOB, "retry_on_timeout", "retry_on_time_out", "unknown key retry_on_time_out"),
    "two starts": (JOB, "      tasks:", "      continuous: {}\n      tasks:", "more than one of schedule, continuous, trigger"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_found(name: str, tmp_path: Path) -> None:
    file, text, instead, fault = PLANTED[name]
    shutil.copy(ROOT / "databricks.yml", tmp_path)
    shutil.copytree(ROOT / "resources", tmp_path / "resources")
    planted = (tmp_path / file).read_text(encoding="utf-8")
    assert text in planted
    (tmp_path / file).write_text(planted.replace(text, instead), encoding="utf-8")
    assert [found for found in problems(load(tmp_path, "prod")) if fault in found]


# --- the same for dbx ------------------------------------------------------------------------------------------------


def as_named(tokens: list[str]) -> dict[str, str]:
    """`--key=value` and `--key`, `value` as a map; files as the bundle names them."""
    named, waiting = {}, iter(tokens)
    for token in waiting:
        name, given, value = token.partition("=")
        named[name.removeprefix("--")] = value if given else next(waiting)
    return {
        name: value.replace("file:fuse://", f"{WORKSPACE['workspace.file_path']}/") for name, value in named.items()
    }


def test_dbx_has_the_same_targets_and_builds_the_same_way() -> None:
    assert list(DEPLOYMENT["environments"]) == TARGETS
    assert DEPLOYMENT["build"]["commands"] == [load(ROOT, "dev").config["artifacts"]["wheel"]["build"]]


@pytest.mark.parametrize("target", TARGETS)
def test_dbx_deploys_the_same_jobs(target: str) -> None:
    bundle = load(ROOT, target)
    jobs = {job["name"]: job for job in bundle.jobs.values()}
    workflows = {one["name"]: one for one in DEPLOYMENT["environments"][target]["workflows"]}
    assert workflows.keys() == jobs.keys()
    paused = bundle.config["mode"] == "development" or "presets" in bundle.config
    for name, workflow in workflows.items():
        job = jobs[name]
        assert workflow["schedule"] == {**job["schedule"], "pause_status": "PAUSED" if paused else "UNPAUSED"}
        for key in ("max_concurrent_runs", "timeout_seconds", "tags"):
            assert workflow[key] == job[key], key
        for mine, other in zip(workflow["tasks"], job["tasks"], strict=True):
            for key in ("task_key", "max_retries", "min_retry_interval_millis", "retry_on_timeout"):
                assert mine[key] == other[key], key
            wheel, leading = mine["python_wheel_task"], other["python_wheel_task"]
            assert (wheel["package_name"], wheel["entry_point"]) == (leading["package_name"], leading["entry_point"])
            assert as_named(wheel["parameters"]) == leading["named_parameters"]
            assert mine["job_cluster_key"] in {one["job_cluster_key"] for one in workflow["job_clusters"]}


def test_dbx_finds_the_files_that_it_uploads() -> None:
    """dbx replaces a reference only where it is the whole parameter."""
    tokens = [
        token
        for environment in DEPLOYMENT["environments"].values()
        for workflow in environment["workflows"]
        for task in workflow["tasks"]
        for token in task["python_wheel_task"]["parameters"]
        if "file:fuse" in token
    ]
    assert len(tokens) == 2 * len(TARGETS)
    for token in tokens:
        assert token.startswith("file:fuse://")
        assert (ROOT / token.removeprefix("file:fuse://")).is_file()


@pytest.mark.parametrize("target", TARGETS)
def test_the_job_reads_what_dbx_and_the_bundle_send_it(target: str) -> None:
    (workflow,) = DEPLOYMENT["environments"][target]["workflows"]
    parser = parsers()["enrichment"]
    sent = parser.parse_args(workflow["tasks"][0]["python_wheel_task"]["parameters"])
    assert sent.catalog == target
    assert sent.pipeline == ["file:fuse://conf/enrichment.yml"]
