"""conf/deployment.yml: the bundle's jobs for dbx, and dbx's own reader over it, in an environment of its own."""

from __future__ import annotations

import json
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.bundle.planted import Mistake, plant

from lakestreams.bundle.dbx import deployment
from lakestreams.bundle.read import load, targets
from lakestreams.bundle.template import Project, render
from lakestreams.jobs.catalogue import parsers

ROOT = Path(__file__).parents[2]
DEPLOYMENT = yaml.safe_load((ROOT / "conf" / "deployment.yml").read_text(encoding="utf-8"))
TARGETS = targets(ROOT)
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
    bundle = load(ROOT, target)
    made = workflows(target)
    assert list(DEPLOYMENT["environments"]) == TARGETS
    assert set(made) == set(bundle.jobs)
    for name, workflow in made.items():
        job = bundle.jobs[name]
        for key in ("schedule", "continuous", "timeout_seconds", "health", "max_concurrent_runs"):
            assert workflow.get(key) == job.get(key), key
        (mine,), (task,) = workflow["tasks"], job["tasks"]
        assert mine["max_retries"] == task["max_retries"]
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


@pytest.mark.soak  # installs dbx from the package index: half a minute or more
def test_dbxs_own_reader_loads_it(tmp_path: Path) -> None:
    venv.create(tmp_path / "dbx", with_pip=True)
    python = tmp_path / "dbx" / "bin" / "python"
    pins = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(ROOT / "requirements/dbx.txt")]
    installed = subprocess.run([python, *pins], capture_output=True, text=True, check=False)
    assert installed.returncode == 0, installed.stderr
    own = tmp_path / "own.yml"
    own.write_text(render(Project("my-streams", jobs=("enrichment",)))["conf/deployment.yml"], encoding="utf-8")
    for file, jobs in (
        (ROOT / "conf" / "deployment.yml", set(workflows("dev"))),
        (own, {"enrichment", "maintenance", "verify"}),
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
