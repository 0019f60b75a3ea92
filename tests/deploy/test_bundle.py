"""The bundle, resolved for every target without a workspace: no fault, the job bodies that are written down, one template.

Nothing here is the Databricks CLI. What it sends is compared with the same files in test_cli.py, where there is one.
"""

from __future__ import annotations

import importlib
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from databricks.sdk.service.jobs import JobSettings
from tests.deploy import golden

from lakestreams.deploy import files, quartz
from lakestreams.deploy.bodies import dashboard_calls, job_bodies
from lakestreams.deploy.read import Bundle, User, load, targets
from lakestreams.deploy.rules import faults
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.runtime.schemas import CONTROL, parse
from lakestreams.errors import BundleInvalid, ConfigUnreadable
from lakestreams.run import arguments

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TARGETS = targets(ROOT)
JOBS = ["correlation", "enrichment", "fk_join", "maintenance", "verify"]


@pytest.fixture(params=TARGETS)
def bundle(request: pytest.FixtureRequest) -> Bundle:
    return load(ROOT, request.param, user=golden.ADA)


def named(bundle: Bundle, job: str) -> dict[str, str]:
    found: dict[str, str] = bundle.jobs[job]["tasks"][0]["python_wheel_task"]["named_parameters"]
    return found


# --- what is deployed ------------------------------------------------------------------------------------------------


def test_no_target_has_a_fault(bundle: Bundle) -> None:
    assert [str(fault) for fault in faults(bundle)] == []
    assert files.pipelines(bundle)[1] == []


def test_job_bodies_are_those_that_are_written_down(bundle: Bundle) -> None:
    kept = (golden.FOLDER / f"{bundle.target}.json").read_text(encoding="utf-8")
    assert golden.made(bundle.target) == kept, "look at the difference, then: python -m tests.deploy.golden"


def test_calls_of_dashboards_are_those_that_are_written_down(bundle: Bundle) -> None:
    kept = (golden.FOLDER / f"{bundle.target}.dashboards.json").read_text(encoding="utf-8")
    assert golden.dashboards(bundle.target) == kept, "look at the difference, then: python -m tests.deploy.golden"


def test_the_dashboard_reads_the_targets_own_event_log(bundle: Bundle) -> None:
    (calls,) = dashboard_calls(bundle).values()
    control = bundle.variables["control_schema"]
    assert calls["query"] == {"dataset_catalog": bundle.target, "dataset_schema": control}
    assert control == ("ada_lakestreams" if bundle.target == "dev" else CONTROL)
    assert calls["publish"] == {"embed_credentials": False, "warehouse_id": bundle.variables["warehouse_id"]}
    assert f"{bundle.target}." not in calls["body"]["serialized_dashboard"]


def test_the_jobs_api_knows_every_field_and_value(bundle: Bundle) -> None:
    """The SDK drops what it does not know, so a body that comes back whole has no typing error."""
    for body in job_bodies(bundle).values():
        assert JobSettings.from_dict(json.loads(json.dumps(body))).as_dict() == body


def test_every_job_is_there_and_how_it_is_started(bundle: Bundle) -> None:
    assert sorted(bundle.jobs) == JOBS
    started = {key: "continuous" if "continuous" in job else "schedule" for key, job in bundle.jobs.items()}
    assert started == dict.fromkeys(JOBS, "schedule") | {"correlation": "continuous"}
    paused = {job[started[key]]["pause_status"] for key, job in bundle.jobs.items()}
    assert paused == {"UNPAUSED" if bundle.target == "prod" else "PAUSED"}
    (cluster,) = bundle.jobs["correlation"]["job_clusters"]
    assert cluster["new_cluster"]["num_workers"] == 2
    assert "autoscale" not in cluster["new_cluster"]
    assert all("job_clusters" not in bundle.jobs[key] for key in JOBS if key != "correlation")


def test_jobs_retry_end_and_tell(bundle: Bundle) -> None:
    for key, job in bundle.jobs.items():
        assert job["max_concurrent_runs"] == 1, "a second driver would fence the first"
        assert "timeout_seconds" in job or "continuous" in job
        assert job["email_notifications"]["on_failure"], key
        reads = job["tasks"][0]["python_wheel_task"]["entry_point"] in arguments.READERS
        metrics = {rule["metric"] for rule in job.get("health", {}).get("rules", [])}
        assert reads == ({"STREAMING_BACKLOG_SECONDS", "STREAMING_BACKLOG_RECORDS"} <= metrics), key
        assert reads == ("on_streaming_backlog_exceeded" in job["email_notifications"]), key
    retries = {key: job["tasks"][0].get("max_retries") for key, job in bundle.jobs.items()}
    assert retries == {"correlation": None, "enrichment": 2, "fk_join": 2, "maintenance": 1, "verify": 0}
    assert bundle.jobs["correlation"]["continuous"]["task_retry_mode"] == "ON_FAILURE"
    standard = {key for key, job in bundle.jobs.items() if job.get("performance_target") == "STANDARD"}
    assert standard == {"maintenance", "verify"}, "they may take their time"


def test_targets_are_what_they_are_called() -> None:
    dev, staging, prod = (load(ROOT, target, user=golden.ADA) for target in ("dev", "staging", "prod"))
    assert (dev.config["mode"], dev.config["default"]) == ("development", True)
    assert {job["name"] for job in dev.jobs.values()} == {f"[dev ada] lakestreams-{name}" for name in JOBS}
    assert {job["tags"]["dev"] for job in dev.jobs.values()} == {"ada"}
    assert "run_as" not in dev.config
    for target in (staging, prod):
        assert target.config["mode"] == "production"
        assert {job["name"] for job in target.jobs.values()} == {f"lakestreams-{name}" for name in JOBS}
        assert target.config["run_as"] == {"service_principal_name": target.variables["runner"]}
        assert [one["level"] for one in target.config["permissions"]] == ["CAN_MANAGE", "CAN_VIEW"]
    assert staging.config["workspace"]["root_path"] != prod.config["workspace"]["root_path"]
    scopes = [one.variables["secret_scope"] for one in (dev, staging, prod)]
    assert len(set(scopes)) == len(TARGETS)


def test_the_schemas_that_the_engine_writes_to_are_deployed(bundle: Bundle) -> None:
    """The engine makes tables and never schemas; in development mode a prefix would hide them from it."""
    own = {"bronze_schema": "ada_bronze", "silver_schema": "ada_silver", "control_schema": "ada_lakestreams"}
    lake = Lake("", bundle.target, **(own if bundle.target == "dev" else {}))
    schemas = bundle.resources["schemas"].values()
    assert {one["name"] for one in schemas} == {lake.bronze_schema, lake.silver_schema, lake.control_schema}
    assert {Lake("", bundle.target, **parse(named(bundle, job)["schemas"])) for job in JOBS} == {lake}
    (volume,) = bundle.resources["volumes"].values()
    assert {one["catalog_name"] for one in (*schemas, volume)} == {bundle.target}
    place = "/".join(("/Volumes", volume["catalog_name"], volume["schema_name"], volume["name"]))
    assert {named(bundle, job)["checkpoint-root"] for job in JOBS} == {place}
    granted = {one["principal"] for item in (*schemas, volume) for one in item["grants"]}
    assert granted == {"ada@example.com" if bundle.target == "dev" else bundle.variables["runner"]}


def test_variables_that_are_given_reach_whatever_refers_to_them() -> None:
    bundle = load(ROOT, "dev", {"catalog": "dev_ada", "workers": "3", "secret_scope": "ada"})
    assert named(bundle, "enrichment")["catalog"] == "dev_ada"
    assert named(bundle, "verify")["checkpoint-root"] == "/Volumes/dev_ada/you_lakestreams/checkpoints"
    assert named(bundle, "fk_join")["secret-scope"] == "ada"


def test_schemas_that_are_given_reach_storage_jobs_and_dashboard() -> None:
    names = {"bronze_schema": "raw", "silver_schema": "results", "control_schema": "_streams"}
    bundle = load(ROOT, "prod", names)
    assert {key: one["name"] for key, one in bundle.resources["schemas"].items()} == {
        "bronze": "raw", "silver": "results", "control": "_streams",
    }  # fmt: skip
    for job in JOBS:
        assert parse(named(bundle, job)["schemas"]) == names
        assert named(bundle, job)["checkpoint-root"] == "/Volumes/prod/_streams/checkpoints"
    (volume,) = bundle.resources["volumes"].values()
    assert volume["schema_name"] == "_streams"
    (calls,) = dashboard_calls(bundle).values()
    assert calls["query"] == {"dataset_catalog": "prod", "dataset_schema": "_streams"}
    assert faults(bundle) == []


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ({"control_schema": "my-streams"}, "the schema of control is 'my-streams'"),
        ({"silver_schema": ""}, "the schema of silver is ''"),
        ({"control_schema": ""}, "the schema of control is ''"),
        ({"bronze_schema": "silver"}, "bronze and silver would both use the schema silver"),
    ],
)
def test_schemas_that_no_statement_could_name_are_found_before_they_are_deployed(
    names: dict[str, str], told: str
) -> None:
    found = faults(load(ROOT, "prod", names))
    assert len(found) == len(JOBS)
    assert all(told in fault.message for fault in found), [fault.message for fault in found]


def test_entry_points_are_the_wheels() -> None:
    jobs = {name: place for name, place in PROJECT["scripts"].items() if name != "lakestreams"}
    assert set(arguments.parsers()) == set(jobs)
    assert PROJECT["name"] == arguments.PACKAGE
    for place in jobs.values():
        module, _, function = place.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


# --- how it is read --------------------------------------------------------------------------------------------------


SMALL = """
bundle: {name: small}
include: [resources/*.yml]
variables:
  size: {default: 2}
  place: {default: "${var.catalog}.x"}
  catalog: {}
  cluster: {default: {spark_version: 17.3.x-scala2.13, node_type_id: a}}
targets:
  dev: {mode: development, variables: {catalog: main}}
  test:
    workspace: {root_path: /r}
    presets: {name_prefix: "t-", tags: {team: a}, trigger_pause_status: PAUSED}
    variables: {catalog: main, cluster: {spark_version: 17.3.x-scala2.13, node_type_id: b}}
    resources: {jobs: {one: {tasks: [{task_key: a, max_retries: 5}], job_clusters: [{job_cluster_key: c, new_cluster: {num_workers: 9}}]}}}
"""
RESOURCES = """
resources:
  schemas: {s: {catalog_name: "${var.catalog}", name: data}}
  volumes: {v: {catalog_name: "${var.catalog}", schema_name: "${resources.schemas.s.name}", name: files}}
  jobs:
    one:
      name: one
      trigger: {file_arrival: {url: "${resources.volumes.v.volume_path}"}}
      job_clusters: [{job_cluster_key: c, new_cluster: "${var.cluster}"}]
      tasks:
        - {task_key: b, job_cluster_key: c, notebook_task: {notebook_path: ../n.py}}
        - {task_key: a, job_cluster_key: c, notebook_task: {notebook_path: ../n.py, base_parameters: {t: "${var.place}", n: "${var.size}"}}}
"""


def small(folder: Path) -> Path:
    (folder / "resources").mkdir()
    (folder / "databricks.yml").write_text(SMALL, encoding="utf-8")
    (folder / "resources" / "r.yml").write_text(RESOURCES, encoding="utf-8")
    (folder / "n.py").write_text("# Databricks notebook source\n", encoding="utf-8")
    return folder


def test_development_prefixes_names_of_jobs_and_schemas_but_not_of_volumes(tmp_path: Path) -> None:
    bundle = load(small(tmp_path), "dev", user=User("Grace.Hopper@example.com"))
    body = job_bodies(bundle)["one"]
    assert (body["name"], body["max_concurrent_runs"]) == ("[dev grace_hopper] one", 4)
    assert body["trigger"]["pause_status"] == "PAUSED"
    assert body["trigger"]["file_arrival"]["url"] == "/Volumes/main/dev_grace_hopper_data/files"
    assert bundle.resources["schemas"]["s"]["name"] == "dev_grace_hopper_data"
    assert [task["task_key"] for task in body["tasks"]] == ["a", "b"]
    home = "/Workspace/Users/Grace.Hopper@example.com/.bundle/small/dev"
    assert body["tasks"][0]["notebook_task"] == {
        "notebook_path": f"{home}/files/n",
        "base_parameters": {"t": "main.x", "n": 2},
    }
    assert body["deployment"]["metadata_file_path"] == f"{home}/state/metadata.json"


def test_a_target_overrides_tasks_and_clusters_by_their_keys(tmp_path: Path) -> None:
    bundle = load(small(tmp_path), "test")
    body = job_bodies(bundle)["one"]
    assert [(task["task_key"], task.get("max_retries")) for task in body["tasks"]] == [("a", 5), ("b", None)]
    assert (body["name"], body["tags"], body["max_concurrent_runs"]) == ("t-one", {"team": "a"}, 1)
    assert bundle.resources["schemas"]["s"]["name"] == "t_data"


def test_a_key_that_stands_twice_is_no_yaml(tmp_path: Path) -> None:
    (small(tmp_path) / "resources" / "r.yml").write_text("resources: {}\nresources: {}\n", encoding="utf-8")
    with pytest.raises(ConfigUnreadable, match="the key resources appears twice"):
        load(tmp_path, "dev")


def test_no_bundle_and_no_target_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigUnreadable, match=r"there is no file databricks\.yml"):
        targets(tmp_path)
    with pytest.raises(BundleInvalid) as told:
        load(ROOT, "production")
    assert told.value.hint == "name one of: dev, staging, prod"


# --- schedules -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["0 0/15 * * * ?", "0 0 12 ? * MON-FRI", "0 15 10 L * ?", "0 0 0 1,15 JAN-JUN ? 2026-2030", "0 0 8 ? * 6#3", "0 0 8 15W * ?", "0 /15 * * * ?", "0 0 8 LW * ?", "0 0 8 L-3 * ?", "0 0 8 ? * fril"],
)  # fmt: skip
def test_quartz_expressions(text: str) -> None:
    assert quartz.fault(text) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("*/15 * * * *", "it has 5 fields"),
        ("0 0 12 * * *", "exactly one of"),
        ("0 0 12 ? * ?", "exactly one of"),
        ("0 60 * * * ?", "'60' is no value of minutes"),
        ("0 0 25 * * ?", "'25' is no value of hours"),
        ("0 0 0 ? * FRY", "'FRY' is no value of day of week"),
        ("0 0 0 ? 13 MON", "'13' is no value of month"),
        ("0 0/x * * * ?", "'0/x' is no value of minutes"),
        ("every day at six", "it has 4 fields"),
        ("0 0/90 * * * ?", "'0/90' is no value of minutes"),
        ("0 0 0/24 * * ?", "'0/24' is no value of hours"),
        ("0 0 0 32W * ?", "'32W' is no value of day of month"),
        ("0 0 0 L-31 * ?", "'L-31' is no value of day of month"),
        ("0 0 0 ? * FRY#2", "'FRY#2' is no value of day of week"),
        ("0 0 0 ? * 8L", "'8L' is no value of day of week"),
        ("0 0 0 L,15 * ?", "L and # stand alone"),
        ("0 0 0 ? * MON#1,TUE#2", "L and # stand alone"),
    ],
)
def test_what_is_no_quartz_expression(text: str, told: str) -> None:
    assert told in (quartz.fault(text) or "")


# --- one template ----------------------------------------------------------------------------------------------------


def test_this_bundle_is_the_template_rendered(bundle_files: Any) -> None:
    assert bundle_files.outdated() == [], "run: python scripts/bundle_files.py"


@pytest.fixture
def bundle_files(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("bundle_files")
