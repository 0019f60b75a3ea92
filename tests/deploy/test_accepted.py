"""What the Databricks CLI accepts is no fault of the check, which says what it cannot know; and the CLI, where it is there."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.deploy.planted import JOB, MAIN, STREAM, Mistake, plant
from tests.sampling import sampled
from typer.testing import CliRunner

from lakestreams.cli.app import app
from lakestreams.deploy.read import load, targets
from lakestreams.deploy.rules import faults, unchecked
from lakestreams.deploy.validated import validated

NODES = "            node_type_id: ${var.node_type}\n"
VERSION = '            environment_version: "4" # Python 3.12, Spark 4\n'
TASKS = "      tasks:"


@dataclass(frozen=True)
class Variant:
    """A text of the bundle, what stands there instead, a further file of resources/, and what is told as not checked."""

    file: str
    text: str
    instead: str
    more: str = ""
    unchecked: str = ""


ELSEWHERE = "what ${%s} stands for"
VARIANTS = {
    "a newer environment": Variant(JOB, 'environment_version: "4"', 'environment_version: "6"'),
    "an environment of the workspace": Variant(JOB, VERSION, "            base_environment: /Workspace/base.yml\n"),
    "the former name of the version": Variant(JOB, "environment_version:", "client:"),
    "variables in an included file": Variant(MAIN, "default: i3.xlarge", "default: ${var.machine}", "variables: {machine: {default: m5d.large}}"),
    "a target in an included file": Variant(MAIN, "", "", "targets: {test: {mode: development, variables: {catalog: test}}}"),
    "a part of a target in an included file": Variant(MAIN, "", "", "targets: {prod: {presets: {tags: {team: a}}}}"),
    "the branch of git": Variant(JOB, TASKS, "      parameters: [{name: branch, default: '${bundle.git.branch}'}]\n" + TASKS, unchecked=ELSEWHERE % "bundle.git.branch"),
    "the commit of git as tag": Variant(JOB, "        project:", "        commit: ${bundle.git.commit}\n        project:", unchecked=ELSEWHERE % "bundle.git.commit"),
    "the workspace's address": Variant(JOB, "description: A stream", "description: ${workspace.host} A stream", unchecked=ELSEWHERE % "workspace.host"),
    "the id of who deploys": Variant(JOB, "description: A stream", "description: ${workspace.current_user.id} A stream", unchecked=ELSEWHERE % "workspace.current_user.id"),
    "mode and target": Variant(JOB, "description: A stream", "description: ${bundle.mode} ${bundle.environment} ${bundle.uuid} A stream"),
    "a looked-up variable": Variant(MAIN, '    default: "0000000000000000" # put yours here, or a target\'s into its variables\n', "    lookup: {warehouse: small}\n", unchecked=ELSEWHERE % "var.warehouse_id"),
    "a variable that a target looks up": Variant(MAIN, "      runner: 00000000-0000-0000-0000-000000000000 # put yours here\n", "      runner: {lookup: {service_principal: jobs}}\n", unchecked=ELSEWHERE % "var.runner"),
    "a variable with a type in a target": Variant(MAIN, "      catalog: prod\n", "      catalog: {default: prod}\n"),
    "a looked-up schedule": Variant(MAIN, "      catalog: prod\n", "      catalog: prod\n      enrichment_cron: ${bundle.git.branch}\n", unchecked=ELSEWHERE % "bundle.git.branch"),
    "how fast a job starts": Variant(JOB, TASKS, "      performance_target: PERFORMANCE_OPTIMIZED\n" + TASKS),
    "an instance pool": Variant(STREAM, NODES.replace("      node", "            node", 0), "            instance_pool_id: pool-1\n"),
    "an instance pool of the bundle": Variant(STREAM, NODES, "            instance_pool_id: ${resources.instance_pools.small.id}\n", "resources: {instance_pools: {small: {instance_pool_name: small, node_type_id: i3.xlarge}}}", unchecked=ELSEWHERE % "resources.instance_pools.small.id"),
    "an instance pool that is looked up": Variant(STREAM, NODES, "            instance_pool_id: ${var.pool}\n", "variables: {pool: {lookup: {instance_pool: small}}}", unchecked=ELSEWHERE % "var.pool"),
    "a policy for everything": Variant(STREAM, "            spark_version: ${var.runtime}\n" + NODES, "            policy_id: p-1\n"),
    "retries of a continuous job": Variant(STREAM, "          python_wheel_task", "          max_retries: -1\n          python_wheel_task"),
    "a job of one target": Variant(MAIN, "      jobs:\n        maintenance: &seen", "      jobs:\n        more: {name: more, tasks: [{task_key: a, notebook_task: {notebook_path: /Shared/a}}]}\n        maintenance: &seen"),
    "a wheel of somebody else": Variant(JOB, "      environments:\n", "        - {task_key: own, environment_key: own, python_wheel_task: {package_name: own, entry_point: x}}\n      environments:\n        - {environment_key: own, spec: {environment_version: '4', dependencies: [own==1.0]}}\n", unchecked="what the wheel of own accepts"),
    "resources in Python": Variant(MAIN, "include:\n  - res", "python: {resources: ['resources:load_resources']}\n\ninclude:\n  - res", unchecked="resources that are declared in Python"),
    "a root in one's home": Variant(MAIN, "root_path: /Workspace/Users/${var.runner}/", "root_path: ~/"),
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_what_the_cli_accepts_is_no_fault(name: str, tmp_path: Path) -> None:
    one = VARIANTS[name]
    root = plant(Mistake(one.file, one.text, one.instead, ""), tmp_path)
    if one.more:
        (root / "resources" / "more.yml").write_text(one.more, encoding="utf-8")
    for target in {"prod", *targets(root)} - {"dev", "staging"}:
        given = {"kafka_bootstrap": "a:1", "secret_scope": "a", "runner": "a@example.com", "alerts_to": "a@example.com"}
        bundle = load(root, target, given if target == "test" else {})
        assert [fault.message for fault in faults(bundle)] == []
    told = unchecked(load(root, "prod"))
    assert (one.unchecked in "\n".join(told)) if one.unchecked else told == [], told


def test_values_of_this_machine_alone_count(tmp_path: Path) -> None:
    root = plant(Mistake(MAIN, "", "", ""), tmp_path)
    file = root / ".databricks" / "bundle" / "dev" / "variable-overrides.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"catalog": "mine"}', encoding="utf-8")
    assert [load(root, target).variables["catalog"] for target in ("dev", "prod")] == ["mine", "prod"]


def test_what_is_no_reference_anywhere_stays_a_fault(tmp_path: Path) -> None:
    text = "description: ${bundle.git.brunch} ${workspace.hosts} ${resources.jobs.enrichment.ids} A stream"
    bundle = load(plant(Mistake(JOB, "description: A stream", text, ""), tmp_path), "prod")
    assert bundle.unknown == ()
    assert set(bundle.dangling) == {"bundle.git.brunch", "workspace.hosts", "resources.jobs.enrichment.ids"}


# --- with the CLI ----------------------------------------------------------------------------------------------------


def cli(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executable of that name, first on PATH, which notes its arguments."""
    folder.mkdir()
    (folder / "databricks").write_text(f'#!/bin/sh\necho "$@" > {folder}/asked\n{script}\n', encoding="utf-8")
    (folder / "databricks").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def check(root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    monkeypatch.setenv("DATABRICKS_CONFIG_FILE", str(root / "none.cfg"))
    monkeypatch.setenv("DATABRICKS_HOST", "http://127.0.0.1:9")
    line = ["check", "-t", "prod", "--bundle", str(root), "--var", "workers=3", "--no-broker", "--json"]
    told = json.loads(CliRunner().invoke(app, line).stdout)["target"]
    return {"faults": [one["message"] for one in told["faults"]], "unchecked": told["unchecked"]}


@pytest.fixture
def pooled(tmp_path: Path) -> Path:
    one = VARIANTS["an instance pool that is looked up"]
    root = plant(Mistake(one.file, one.text, one.instead, ""), tmp_path / "bundle")
    (root / "resources" / "more.yml").write_text(one.more, encoding="utf-8")
    return root


def test_the_cli_says_what_only_it_can_know(pooled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"variables": {"pool": {"value": "pool-7"}}, "bundle": {"git": {"branch": "main"}}}
    cli(tmp_path / "bin", f"echo '{json.dumps(config)}'", monkeypatch)
    found = validated(pooled, "prod", {"workers": "3"})
    assert (found.refused, found.silent) == (None, None)
    bundle = load(pooled, "prod", answers=found.answers)
    assert bundle.jobs["correlation"]["job_clusters"][0]["new_cluster"]["instance_pool_id"] == "pool-7"
    assert unchecked(bundle) == []
    assert (tmp_path / "bin" / "asked").read_text("utf-8").strip() == (
        "bundle validate -o json -t prod --var workers=3"
    )


def test_what_the_cli_refuses_is_a_fault(pooled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli(tmp_path / "bin", "echo 'Error: instance-pool named small does not exist' >&2; exit 1", monkeypatch)
    told = check(pooled, monkeypatch)
    assert "databricks bundle validate: instance-pool named small does not exist" in told["faults"]


SILENT = {
    "echo 'Error: cannot configure default credentials' >&2; exit 1": "cannot configure default credentials",
    "echo no JSON": "Expecting value: line 1 column 1 (char 0)",
}


@pytest.mark.parametrize("script", SILENT)
def test_a_cli_that_cannot_look_says_why(
    script: str, pooled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli(tmp_path / "bin", script, monkeypatch)
    found = validated(pooled, "prod", {})
    assert (found.refused, found.silent) == (None, SILENT[script])


@pytest.mark.parametrize("script", sampled(SILENT, 1, others=pytest.mark.soak))
def test_a_cli_that_cannot_look_is_no_fault(
    script: str, pooled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli(tmp_path / "bin", script, monkeypatch)
    told = check(pooled, monkeypatch)
    assert not [one for one in told["faults"] if "validate" in one]
    assert any(one.startswith("what `databricks bundle validate` says: ") for one in told["unchecked"])
    assert any(ELSEWHERE % "var.pool" in one for one in told["unchecked"])
