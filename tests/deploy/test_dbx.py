"""conf/deployment.yml: the bundle's jobs for dbx, and dbx's own reader over it, in an environment of its own."""

from __future__ import annotations

import json
import re
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.planted import Mistake, plant
from typer.testing import CliRunner

from lakestreams.cli.app import app
from lakestreams.deploy.dbx import PLACE, build_of, deployment, drift, write
from lakestreams.deploy.read import User, load, targets
from lakestreams.deploy.template import JOBS, OWN, Project, init, render
from lakestreams.run.arguments import parsers

ROOT = Path(__file__).parents[2]
DEPLOYMENT = yaml.safe_load((ROOT / "conf" / "deployment.yml").read_text(encoding="utf-8"))
TARGETS = targets(ROOT)
JOBS_SORTED = ("correlation", "enrichment", "fk_join", "maintenance", "verify")
SYNCED = "file:fuse://"
READER = """
import json, sys
from pathlib import Path
from dbx.api.config_reader import ConfigReader
config = ConfigReader(Path(sys.argv[1])).get_config()
print(json.dumps({name: config.get_environment(name).to_spec()[name] for name in sys.argv[2:]}))
"""


def workflows(target: str) -> dict[str, Any]:
    return {one["name"]: one for one in DEPLOYMENT["environments"][target]["workflows"]}


def as_named(tokens: list[str], files: str) -> dict[str, str]:
    """`--key=value` and `--key`, `value` as a map; files as the bundle names them, several of a key joined."""
    found: dict[str, str] = {}
    waiting = iter(tokens)
    for token in waiting:
        name, given, value = token.removeprefix("--").partition("=")
        value = value if given else next(waiting).replace(SYNCED, f"{files}/")
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_dbx_deploys_the_bundles_jobs(target: str) -> None:
    """Made from the bundle, so this looks at what the making may get wrong: compute, parameters, names."""
    bundle = load(ROOT, target, user=User("dbx@example.com"))
    made = workflows(target)
    assert list(DEPLOYMENT["environments"]) == TARGETS
    assert set(made) == {f"lakestreams-{key}" for key in bundle.jobs}
    for name, workflow in made.items():
        job = bundle.jobs[name.removeprefix("lakestreams-")]
        for key in ("schedule", "continuous", "timeout_seconds", "health", "max_concurrent_runs"):
            assert workflow.get(key) == job.get(key), key
        (mine,), (task,) = workflow["tasks"], job["tasks"]
        assert mine.get("max_retries") == task.get("max_retries")
        wheel, leading = mine["python_wheel_task"], task["python_wheel_task"]
        assert (wheel["package_name"], wheel["entry_point"]) == (leading["package_name"], leading["entry_point"])
        assert as_named(wheel["parameters"], bundle.config["workspace"]["file_path"]) == leading["named_parameters"]
        assert mine["job_cluster_key"] in {one["job_cluster_key"] for one in workflow["job_clusters"]}
        assert "environment_key" not in mine


def test_every_job_has_the_cluster_that_the_targets_variables_say(tmp_path: Path) -> None:
    root = plant(
        Mistake("databricks.yml", "      catalog: prod\n", "      catalog: prod\n      node_type: m5d.large\n", ""),
        tmp_path,
    )
    environments = deployment(root, None)["environments"]
    nodes = {
        target: {one["job_clusters"][0]["new_cluster"]["node_type_id"] for one in made["workflows"]}
        for target, made in environments.items()
    }
    assert nodes == {"dev": {"i3.xlarge"}, "staging": {"i3.xlarge"}, "prod": {"m5d.large"}}


@pytest.mark.parametrize("target", TARGETS)
def test_entry_points_read_what_dbx_sends_and_its_files_are_there(target: str) -> None:
    known = parsers()
    for workflow in workflows(target).values():
        wheel = workflow["tasks"][0]["python_wheel_task"]
        given = known[wheel["entry_point"]].parse_args(wheel["parameters"])
        assert given.catalog == target
        files = [token for token in wheel["parameters"] if SYNCED in token]
        assert all(token.startswith(SYNCED) for token in files), "dbx replaces a reference only where it stands alone"
        assert len(files) == len(given.pipeline) + 1
        assert all((ROOT / token.removeprefix(SYNCED)).is_file() for token in files)


# --- a project whose bundle is changed -------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, shell_wheel: Path) -> Path:
    init(tmp_path / "mine", Project("mine", jobs=JOBS, dbx=True), shell_wheel)
    return tmp_path / "mine"


def changed(root: Path, file: str, text: str, instead: str) -> None:
    before = (root / file).read_text(encoding="utf-8")
    assert text in before
    (root / file).write_text(before.replace(text, instead, 1), encoding="utf-8")


def run(command: str, root: Path, *more: str) -> Any:
    return CliRunner().invoke(app, [command, *more, "--bundle", str(root)])


def test_what_init_and_this_project_write_does_not_differ(project: Path) -> None:
    assert drift(project) is None
    assert drift(ROOT) is None
    assert (build_of(project), build_of(ROOT)) == (None, OWN.build)
    assert not write(project), "nothing to change"


def test_the_check_names_what_differs_and_the_command_that_mends_it(project: Path) -> None:
    check = ("check", project, "-t", "prod", "--no-workspace")
    assert run(*check).exit_code == 0
    changed(project, "resources/enrichment.job.yml", "max_retries: 2", "max_retries: 5")
    changed(project, "databricks.yml", "      catalog: prod\n", "      catalog: main\n")
    told = run(*check)
    assert told.exit_code == 1
    assert "LS701 BUNDLE_INVALID   conf/deployment.yml\n  conf/deployment.yml differs from the bundle" in told.stderr
    named = ", ".join(
        ["dev: mine-enrichment", "staging: mine-enrichment", *(f"prod: mine-{job}" for job in JOBS_SORTED)]
    )
    assert f"made from: {named}\n" in told.stderr
    mends = re.search(r"Fix: lakestreams (dbx) --bundle (.*); without dbx: delete it", told.stderr)
    assert mends is not None
    assert mends[2] == str(project)
    done = run("dbx", project)
    assert (done.exit_code, done.stdout.startswith("written")) == (0, True)
    assert run(*check).exit_code == 0
    assert run("dbx", project).stdout.startswith("up to date")


def test_a_file_of_ones_own_is_left_alone(project: Path) -> None:
    (project / PLACE).write_text("build: {no_build: true}\nenvironments: {}\n", encoding="utf-8")
    assert drift(project) is None
    refused = run("dbx", project)
    assert (refused.exit_code, "LS704" in refused.stderr) == (1, True)
    assert "environments: {}" in (project / PLACE).read_text(encoding="utf-8")
    (project / PLACE).unlink()
    assert drift(project) is None, "a project without dbx"
    assert json.loads(run("dbx", project, "--json").stdout)["changed"]


def test_jobs_that_somebody_adds_are_taken_over(project: Path) -> None:
    """Tasks of other kinds, listed parameters, and what serverless compute installs from an index."""
    (project / "resources" / "more.job.yml").write_text(
        """
resources:
  jobs:
    more:
      name: more
      tasks:
        - {task_key: look, notebook_task: {notebook_path: /Shared/look}, environment_key: default}
        - {task_key: own, existing_cluster_id: 1-2-3, notebook_task: {notebook_path: /Shared/own}}
        - task_key: run
          environment_key: default
          python_wheel_task: {package_name: lakestreams, entry_point: lakestreams-verify, parameters: [--pipeline=a.yml]}
      environments:
        - environment_key: default
          spec:
            environment_version: "4"
            dependencies: [../wheels/lakestreams-0.1.0-py3-none-any.whl, requests>=2, /Volumes/a/b/c/d-1-py3-none-any.whl]
""",
        encoding="utf-8",
    )
    told = drift(project)
    assert told is not None
    assert told.message.endswith("dev: more, staging: more, prod: more")
    workflows = deployment(project, None)["environments"]["prod"]["workflows"]
    (more,) = [one for one in workflows if one["name"] == "more"]
    look, own, ran = more["tasks"]
    assert look == {
        "task_key": "look",
        "job_cluster_key": "default",
        "notebook_task": {"notebook_path": "/Shared/look"},
    }
    assert "job_cluster_key" not in own
    assert ran["python_wheel_task"]["parameters"] == ["--pipeline=a.yml"]
    assert ran["libraries"] == [
        {"whl": "file://wheels/lakestreams-0.1.0-py3-none-any.whl"},
        {"pypi": {"package": "requests>=2"}},
        {"whl": "/Volumes/a/b/c/d-1-py3-none-any.whl"},
    ]


# --- dbx itself ------------------------------------------------------------------------------------------------------


@pytest.mark.soak  # installs dbx from the package index: half a minute or more
def test_dbxs_own_reader_loads_it(tmp_path: Path) -> None:
    venv.create(tmp_path / "dbx", with_pip=True)
    python = tmp_path / "dbx" / "bin" / "python"
    pins = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(ROOT / "requirements/dbx.txt")]
    installed = subprocess.run([python, *pins], capture_output=True, text=True, check=False)
    assert installed.returncode == 0, installed.stderr
    own = tmp_path / "own.yml"
    own.write_text(
        render(Project("my-streams", jobs=("enrichment",), dbx=True))["conf/deployment.yml"], encoding="utf-8"
    )
    for file, jobs in (
        (ROOT / "conf" / "deployment.yml", set(workflows("dev"))),
        (own, {f"my-streams-{job}" for job in ("enrichment", "maintenance", "verify")}),
    ):
        done = subprocess.run([python, "-c", READER, str(file), *TARGETS], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        read = json.loads(done.stdout.splitlines()[-1])
        wanted = yaml.safe_load(file.read_text(encoding="utf-8"))["environments"]
        for target in TARGETS:
            given = {one["name"]: one for one in read[target]["workflows"]}
            assert set(given) == jobs
            for one in wanted[target]["workflows"]:
                assert given[one["name"]]["job_clusters"] == one["job_clusters"]
                for mine, its in zip(one["tasks"], given[one["name"]]["tasks"], strict=True):
                    wheel = its["python_wheel_task"] | {"named_parameters": None}
                    assert wheel == mine["python_wheel_task"] | {"named_parameters": None}
                    assert {key: its[key] for key in mine if key != "python_wheel_task"} == {
                        key: value for key, value in mine.items() if key != "python_wheel_task"
                    }
    refused = tmp_path / "refused.yml"
    refused.write_text(own.read_text(encoding="utf-8").replace("entry_point:", "entrypoint:"), encoding="utf-8")
    done = subprocess.run([python, "-c", READER, str(refused), "dev"], capture_output=True, text=True, check=False)
    assert "entry_point" in done.stderr, "the reader looks at tasks"
