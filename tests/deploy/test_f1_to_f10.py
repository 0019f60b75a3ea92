"""The ten faults that a team met with the bundle (F1 to F10), each tried again: one workspace, two people, two targets.

Ada and Grace each have a dev; CI has deployed prod beside them, into the same catalog. What a single fault needs in more
depth has its own file: `test_team`, `test_accepted`, `test_wheel`, `test_without_spark`, and with a real CLI `test_cli`.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.core import Config
from databricks.sdk.errors import ResourceAlreadyExists
from tests.deploy.deploying import deploy
from tests.deploy.fake_workspace import Workspace, serving
from tests.deploy.test_accepted import VARIANTS
from typer.testing import CliRunner

from lakestreams.cli.app import app
from lakestreams.deploy.read import Bundle, User, load
from lakestreams.deploy.rules import faults, unchecked

pytestmark = pytest.mark.slow  # the files that are named above are in `make check`

ROOT = Path(__file__).parents[2]
ADA, GRACE, CI = User("ada@example.com"), User("grace@example.com"), User("11111111-2222-3333-4444-555555555555")
SERVICE = "00000000-0000-0000-0000-000000000000"
NOWHERE = "127.0.0.1:1"  # no broker
IN_MAIN = {"catalog": "main", "kafka_bootstrap": NOWHERE}
KEPT = ("schemas", "volumes", "secret_scopes")


@dataclass(frozen=True)
class Team:
    """The workspace, and the ids of the jobs of each deployment."""

    workspace: Workspace
    client: WorkspaceClient
    wheel: Path
    jobs: dict[tuple[str, str], dict[str, int]]

    def asked(self, command: str, target: str, by: User) -> Any:
        """What a command says to one of the two, as JSON."""
        self.workspace.user = by.name
        given = [token for name, value in IN_MAIN.items() for token in ("--var", f"{name}={value}")]
        done = CliRunner().invoke(app, [command, "-t", target, "--bundle", str(ROOT), *given, "--json"])
        return json.loads(done.stdout)


def resolved(target: str, user: User) -> Bundle:
    return load(ROOT, target, IN_MAIN, user)


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory, shell_wheel: Path) -> Iterator[Team]:
    folder = tmp_path_factory.mktemp("team")
    workspace = Workspace(folder / "workspace")
    workspace.catalogs["main"] = {"name": "main", "owner": "somebody@example.com"}
    workspace.grants["main"] = {"account users": {"ALL_PRIVILEGES"}}
    workspace.principals |= {SERVICE, CI.name}
    workspace.groups |= {"data-platform", "data-readers"}
    workspace.warehouses.add("0000000000000000")
    with pytest.MonkeyPatch.context() as patched, serving(workspace) as host:
        patched.setenv("DATABRICKS_HOST", host)
        patched.setenv("DATABRICKS_TOKEN", "token-of-the-fake")
        patched.setenv("DATABRICKS_CONFIG_FILE", str(folder / "none.cfg"))
        patched.setenv("LAKESTREAMS_LOG_DIR", str(folder / "logs"))
        client = WorkspaceClient(config=Config(host=host, token="token-of-the-fake", retry_timeout_seconds=1))
        made = {}
        for target, user in (("dev", ADA), ("dev", GRACE), ("prod", CI)):
            workspace.user = user.name
            made[target, user.name] = deploy(client, resolved(target, user), shell_wheel)
        yield Team(workspace, client, shell_wheel, made)


def project(folder: Path, *more: str, job: str = "enrichment") -> Path:
    done = CliRunner().invoke(app, ["init", str(folder), "--job", job, *more])
    assert done.exit_code == 0, done.stderr
    return folder


def test_f1_status_shows_the_jobs_of_its_target_and_of_whoever_asks(team: Team) -> None:
    """F1: `status --target` showed the jobs of another target in the same workspace."""
    for target, user, deployer in (("dev", ADA, ADA), ("dev", GRACE, GRACE), ("prod", ADA, CI), ("prod", GRACE, CI)):
        told = {one["key"]: one["job_id"] for one in team.asked("status", target, user)["jobs"]}
        assert told == team.jobs[target, deployer.name]
    ids = [job for made in team.jobs.values() for job in made.values()]
    assert (len(ids), len(set(ids)), set(ids)) == (15, 15, set(team.workspace.jobs))
    names = {one["settings"]["name"].rpartition("] ")[2] for one in team.workspace.jobs.values()}
    assert all(name.startswith("lakestreams-") for name in names), "jobs carry the bundle's name"


def test_f2_a_second_person_deploys_beside_the_first_and_onto_the_same_prod(team: Team) -> None:
    """F2: fixed names of schemas in dev were refused (409), and prod lay in a user's folder."""
    for user in (ADA, GRACE):
        own = {f"main.{user.short_name}_{name}" for name in ("bronze", "silver", "lakestreams")}
        assert own <= team.workspace.schemas.keys()
        assert f"lakestreams-dev-{user.short_name}" in team.workspace.scopes
    by_ci, by_grace = resolved("prod", CI), resolved("prod", GRACE)
    assert (by_ci.config["workspace"], by_ci.resources) == (by_grace.config["workspace"], by_grace.resources)
    assert not [one for one in (ADA, GRACE, CI) if one.name in json.dumps(by_ci.config["workspace"])]
    with pytest.raises(
        ResourceAlreadyExists
    ):  # of what is there without a deployment; the page says how to take it over
        team.client.schemas.create("silver", "main")
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    assert "databricks bundle deployment bind -t prod silver prod.silver" in page


def test_f2_each_target_has_its_own_workspace(tmp_path: Path) -> None:
    """F2: `workspace.host` belongs to a target."""
    place = project(tmp_path / "mine", "--host", "https://adb-1.azuredatabricks.net")
    file = place / "databricks.yml"
    before, mark, after = file.read_text(encoding="utf-8").rpartition("https://adb-1.")
    file.write_text(before + "https://adb-2." + after, encoding="utf-8")
    hosts = [load(place, target).config["workspace"]["host"] for target in ("dev", "staging", "prod")]
    assert (mark, [one[:13] for one in hosts]) == (
        "https://adb-1.",
        ["https://adb-1", "https://adb-1", "https://adb-2"],
    )


def test_f3_the_check_tells_the_truth_of_both_targets(team: Team) -> None:
    """F3: `check --target` refused 17 variants that the CLI accepts; `test_accepted` tries each of them."""
    assert len(VARIANTS) >= 17
    for target, user in (("dev", ADA), ("dev", GRACE), ("prod", GRACE)):
        told = team.asked("check", target, user)["target"]
        lacking = [one["what"] for one in told["workspace"] if one["state"] == "lacking"]
        unasked = [one for one in told["unchecked"] if not one.startswith("topics of ")]
        assert (told["faults"], lacking, unasked) == ([], [], []), target


def test_f3_what_nobody_can_know_is_said_to_be_unchecked(tmp_path: Path) -> None:
    """F3: lookups, git and the workspace's own values are in no file."""
    place = project(tmp_path / "mine")
    job = place / "resources" / "enrichment.job.yml"
    text = job.read_text(encoding="utf-8").replace("description: A", "description: ${bundle.git.branch} A", 1)
    job.write_text(text, encoding="utf-8")
    assert any("bundle.git.branch" in one for one in unchecked(load(place, "prod")))


def test_f4_a_continuous_job_has_no_retries_of_its_own(team: Team) -> None:
    """F4: a continuous job had `max_retries: -1`, which is documented as impossible."""
    continuous = [one["settings"] for one in team.workspace.jobs.values() if "continuous" in one["settings"]]
    assert len(continuous) == 3
    for job in continuous:
        assert job["continuous"]["task_retry_mode"] == "ON_FAILURE"
        assert not [key for task in job["tasks"] for key in task if "retr" in key]


def test_f5_dev_can_be_destroyed_and_prod_cannot(team: Team) -> None:
    """F5: `destroy` failed in dev; with a real CLI: `test_data_is_protected_and_the_rest_is_destroyed`."""
    protected = {
        target: {item.get("lifecycle", {}).get("prevent_destroy", False) for kind in KEPT for item in items[kind].values()}
        for target, items in ((one, resolved(one, ADA).resources) for one in ("dev", "staging", "prod"))
    }  # fmt: skip
    assert protected == {"dev": {False}, "staging": {False}, "prod": {True}}


def test_f6_what_may_take_its_time_costs_less(team: Team) -> None:
    """F6: no job had a `performance_target`."""
    for made in team.jobs.values():
        told = {key: team.workspace.jobs[job]["settings"].get("performance_target") for key, job in made.items()}
        patient = {"maintenance": "STANDARD", "verify": "STANDARD"}
        assert told == dict.fromkeys(told) | patient


def test_f7_prod_is_seen_by_a_group_and_its_secrets_by_nobody_more(team: Team) -> None:
    """F7: everybody could look at prod; the scope of secrets was no resource."""
    bundle = resolved("prod", CI)
    everywhere = json.dumps([bundle.config["permissions"], bundle.resources])
    assert '"users"' not in everywhere
    for job in bundle.jobs.values():
        assert job["permissions"] == [{"group_name": "data-readers", "level": "CAN_VIEW"}]
    assert "data-readers" not in json.dumps(bundle.config["permissions"]), "CAN_VIEW there would be READ of secrets"
    assert team.workspace.scopes.keys() == {"lakestreams-dev-ada", "lakestreams-dev-grace", "lakestreams-prod"}
    for made in team.jobs.values():
        for job in made.values():
            (one,) = {task["python_wheel_task"]["named_parameters"].get("secret-scope")
                      for task in team.workspace.jobs[job]["settings"]["tasks"]}  # fmt: skip
            assert one is None or one in team.workspace.scopes


def test_f8_upgrading_is_moving_a_wheel(tmp_path: Path, wheel: Path) -> None:
    """F8: a new version was put in by `sed`, and notebooks installed from the CLI's private folder."""
    place = project(tmp_path / "mine", "--wheel", str(wheel))
    newer = place / "wheels" / "lakestreams-9.9.0-py3-none-any.whl"
    (place / "wheels" / wheel.name).rename(newer)
    assert faults(load(place, "prod")) == [], "no file names the version"
    for notebook in (place / "notebooks").glob("*.py"):
        text = notebook.read_text(encoding="utf-8")
        (pattern,) = set(re.findall(r'"(\S+\*\.whl)"', text))
        assert list(notebook.parent.glob(pattern)) == [notebook.parent / "../wheels" / newer.name]
        assert ".internal" not in text


def test_f9_the_command_line_alone_needs_typer_and_rich(wheel: Path) -> None:
    """F9: each job installed them; `test_without_spark` runs jobs and `lakestreams` without them."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        needed = re.findall(r"^Requires-Dist: (.*)$", archive.read(name).decode(), re.MULTILINE)
    of_screens = [one for one in needed if re.match(r"typer|rich", one)]
    assert {"cli", "local", "databricks"} <= {one.partition("extra == ")[2].strip("'") for one in of_screens}
    assert all("extra == '" in one for one in of_screens), of_screens


def test_f10_names_machines_and_the_build_are_as_in_the_newest_templates(tmp_path: Path, wheel: Path) -> None:
    """F10: scripts named `verify`, `pipeline`, `maintain`; one cloud's machine; no uuid; another build."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith("entry_points.txt")]
        scripts = set(re.findall(r"^(\S+) = lakestreams\.", archive.read(name).decode(), re.MULTILINE))
    assert not scripts & {"verify", "pipeline", "maintain"}
    assert {"lakestreams-verify", "lakestreams-pipeline", "lakestreams-maintain"} <= scripts
    found = {}
    for cloud in ("aws", "azure", "gcp"):
        bundle = load(project(tmp_path / cloud, "--cloud", cloud, job="correlation"), "dev")
        found[bundle.variables["node_type"]] = bundle.config["bundle"]["uuid"]
    assert (len(found), len(set(found.values()))) == (3, 3)
    assert load(ROOT, "dev").config["artifacts"]["wheel"]["build"].startswith("uv build --wheel")
