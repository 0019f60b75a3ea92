"""The bundle in the hands of the Databricks CLI itself, against the fake workspace: only where one is on PATH.

What it sends is compared with what our own loader makes of the same files, which is what every other test here stands on.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.deploy import golden
from tests.deploy.cli import REAL, ROOT, VALIDATE, VERSION, Cli, found, how_it_was_shown, objections
from tests.deploy.fake_workspace import Workspace, serving
from tests.deploy.planted import MISSED, OTHERS, REFUSED, Mistake, plant
from typer.testing import CliRunner

from lakestreams.cli.app import app
from lakestreams.deploy import template
from lakestreams.deploy.read import Bundle, load, read_yaml, targets

CLI_VERSION, WHY_NOT = found()
skipped = pytest.mark.skipif(not CLI_VERSION, reason=f"nothing is shown with the Databricks CLI: {WHY_NOT}")
TARGETS = targets(ROOT)
PLANTED = MISSED | OTHERS
SERVICE, WAREHOUSE = "00000000-0000-0000-0000-000000000000", "0000000000000000"  # as the bundle has them
NOT_COPIED = ("__pycache__", ".git", ".?*_cache", ".venv", ".hypothesis", ".databricks", "dist", "build", "lake")


def real(test: Callable[..., None]) -> Callable[..., None]:
    """A test that the CLI itself takes part in."""
    return skipped(pytest.mark.slow(pytest.mark.usefixtures("_told")(test)))


@pytest.fixture
def _told(record_property: Callable[[str, object], None]) -> None:
    """For the line at the end of the run."""
    record_property(VERSION, CLI_VERSION)


@dataclass(frozen=True)
class Deployed:
    """One target of a copy of this tree, and the workspace to which the CLI has deployed it."""

    target: str
    cli: Cli
    workspace: Workspace
    printed: str

    @property
    def resolved(self) -> Bundle:
        return load(self.cli.root, self.target, user=golden.ADA)

    def run(self, command: str, *more: str) -> str:
        code, printed = self.cli.bundle(command, "-t", self.target, *more)
        assert code == 0, printed
        return printed


def workspace_for(folder: Path) -> Workspace:
    """With what a deployment does not bring."""
    made = Workspace(folder)
    made.principals.add(SERVICE)
    made.groups |= {"data-platform", "data-readers"}
    made.warehouses.add(WAREHOUSE)
    for target in TARGETS:
        made.catalogs[target] = {"name": target, "owner": made.user}
        made.grants[target] = {"account users": {"ALL_PRIVILEGES"}}
    for home in (made.user, SERVICE):
        made.place(f"/Workspace/Users/{home}").mkdir(parents=True)
    return made


def built(root: Path) -> Path:
    """The bundle with a wheel, which `validate` wants to be there and does not read."""
    (root / "dist").mkdir()
    (root / "dist" / "lakestreams-0.1.0-py3-none-any.whl").touch()
    return root


def edit(file: Path, text: str, instead: str) -> None:
    before = file.read_text(encoding="utf-8")
    assert text in before
    file.write_text(before.replace(text, instead), encoding="utf-8")


@pytest.fixture(scope="module", params=TARGETS)
def deployed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    folder = tmp_path_factory.mktemp("deployed")
    root = folder / "bundle"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*NOT_COPIED))
    edit(
        root / "databricks.yml", template.OWN.build or "", "python3 -m build --wheel --no-isolation"
    )  # fetches nothing
    assert CliRunner().invoke(app, ["dbx", "--bundle", str(root)]).exit_code == 0
    workspace = workspace_for(folder / "workspace")
    with serving(workspace) as host:
        cli = Cli(root, folder / "home", host)
        code, printed = cli.bundle("deploy", "-t", request.param)
        assert code == 0, printed
        yield Deployed(request.param, cli, workspace, printed)


def jobs(deployed: Deployed) -> dict[str, dict[str, Any]]:
    """Name to body, as they arrived."""
    return {one["settings"]["name"]: one["settings"] for one in deployed.workspace.jobs.values()}


# --- what is deployed ------------------------------------------------------------------------------------------------


@real
@pytest.mark.parametrize("target", TARGETS)
def test_every_target_is_valid_before_it_is_deployed(target: str, tmp_path: Path) -> None:
    workspace = workspace_for(tmp_path / "workspace")
    root = built(plant(Mistake("databricks.yml", "", "", ""), tmp_path / "bundle"))
    with serving(workspace) as host:
        _, printed = Cli(root, tmp_path / "home", host).bundle("validate", "--strict", "-t", target)
    assert (objections(printed, workspace.user), "Target: " + target in printed) == ([], True), printed
    assert workspace.unknown == []
    changed = {call for call in workspace.asked if not call.startswith("GET")}
    assert changed <= {"POST /api/2.0/workspace/mkdirs", "POST /telemetry-ext"}, "it makes the folder of the files"


@real
def test_nothing_is_warned_of_once_it_is_deployed(deployed: Deployed) -> None:
    _, printed = deployed.cli.bundle("validate", "--strict", "-t", deployed.target)
    assert objections(printed) == [], printed


@real
def test_the_cli_sends_the_job_bodies_that_are_written_down(deployed: Deployed) -> None:
    kept = json.loads((golden.FOLDER / f"{deployed.target}.json").read_text(encoding="utf-8"))
    assert jobs(deployed) == {body["name"]: body for body in kept.values()}


@real
def test_the_cli_makes_the_dashboard_that_is_written_down(deployed: Deployed) -> None:
    kept = json.loads((golden.FOLDER / f"{deployed.target}.dashboards.json").read_text(encoding="utf-8"))
    ((name, draft),) = deployed.workspace.dashboards.items()
    (calls,) = kept.values()
    assert {key: draft[key] for key in calls["body"]} == calls["body"]
    board = json.loads(draft["serialized_dashboard"])
    places = {(one["catalog"], one["schema"]) for one in board["datasets"]}
    assert places == {(calls["query"]["dataset_catalog"], calls["query"]["dataset_schema"])}
    assert {key: deployed.workspace.published[name][key] for key in calls["publish"]} == calls["publish"]
    drawn = json.loads((ROOT / "dashboards" / "quality.lvdash.json").read_text(encoding="utf-8"))
    assert [one["name"] for one in board["pages"]] == [one["name"] for one in drawn["pages"]]


@real
def test_the_cli_makes_schemas_and_the_volume_with_their_grants(deployed: Deployed) -> None:
    resources = deployed.resolved.resources
    items = {f"{one['catalog_name']}.{one['name']}": one for one in resources["schemas"].values()}
    assert deployed.workspace.schemas.keys() == items.keys()
    volumes = resources["volumes"].values()
    items |= {f"{one['catalog_name']}.{one['schema_name']}.{one['name']}": one for one in volumes}
    assert deployed.workspace.volumes.keys() == items.keys() - deployed.workspace.schemas.keys()
    for full, item in items.items():
        made = (deployed.workspace.schemas | deployed.workspace.volumes)[full]
        assert made["comment"] == item["comment"]
        granted = {one["principal"]: set(one["privileges"]) for one in item["grants"]}
        assert {who: rights for who, rights in deployed.workspace.grants[full].items() if rights} == granted


@real
def test_files_that_jobs_read_lie_where_the_jobs_look(deployed: Deployed) -> None:
    paths, place = deployed.resolved.config["workspace"], deployed.workspace.place
    for file in (deployed.cli.root / "conf").glob("*.yml"):
        assert place(f"{paths['file_path']}/conf/{file.name}").read_bytes() == file.read_bytes()
    notebooks = {one.stem for one in (ROOT / "notebooks").glob("*.py")}
    assert {one.name for one in place(f"{paths['file_path']}/notebooks").iterdir()} == notebooks
    assert not set(template.OWN.exclude) & {one.name for one in place(paths["file_path"]).iterdir()}
    (wheel,) = place(f"{paths['artifact_path']}/.internal").glob("*.whl")
    assert wheel.read_bytes() == (deployed.cli.root / "dist" / wheel.name).read_bytes()


@real
def test_who_may_see_and_manage_it(deployed: Deployed) -> None:
    """The team manages, the jobs' principal reads, in prod a group looks on; in development nobody is told anything."""
    asked = {
        (
            next(who for key, who in one.items() if key != "permission_level"),
            one["permission_level"],
            kind.partition("/")[0],
        )
        for kind, held in deployed.workspace.permissions.items()
        for one in held
    }
    me = deployed.workspace.user
    levels = {"jobs": "CAN_VIEW", "directories": "CAN_READ", "dashboards": "CAN_READ"}
    wanted = {("data-platform", "CAN_MANAGE", kind) for kind in levels}
    wanted |= {(SERVICE, level, kind) for kind, level in levels.items()}
    wanted |= {(me, "IS_OWNER", "jobs"), (me, "CAN_MANAGE", "dashboards")}
    if deployed.target == "prod":
        wanted |= {("data-readers", "CAN_VIEW", "jobs"), ("data-readers", "CAN_READ", "dashboards")}
    asked -= {(me, "CAN_MANAGE", "directories")}  # whom the bundle does not name there
    assert asked == (set() if deployed.target == "dev" else wanted)


@real
def test_our_check_and_status_find_what_the_cli_has_deployed(
    deployed: Deployed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABRICKS_HOST", deployed.cli.host)
    monkeypatch.setenv("DATABRICKS_TOKEN", "token-of-the-fake")
    monkeypatch.setenv("DATABRICKS_CONFIG_FILE", str(tmp_path / "none.cfg"))
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))
    place = ["--target", deployed.target, "--bundle", str(deployed.cli.root), "--json"]
    place += ["--var", "kafka_bootstrap=127.0.0.1:1"]  # this machine may have a broker at dev's address
    done = CliRunner().invoke(app, ["check", *place])
    told = json.loads(done.stdout)["target"]
    lacking = [one["what"] for one in told["workspace"] if one["state"] == "lacking"]
    scope = deployed.resolved.variables["secret_scope"]
    # no broker is at the addresses of a bundle
    unchecked = [one for one in told["unchecked"] if not one.startswith("topics of ")]
    assert (told["faults"], [one for one in lacking if scope not in one], unchecked) == ([], [], [])
    told = json.loads(CliRunner().invoke(app, ["status", *place]).stdout)
    assert {one["job_id"] for one in told["jobs"]} == set(deployed.workspace.jobs)
    assert {one["dashboard_id"] for one in told["dashboards"]} == set(deployed.workspace.dashboards)


# --- what comes after ------------------------------------------------------------------------------------------------


@real
def test_a_run_ends_as_its_wheel_does(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a parameter that it cannot read the uploaded wheel ends before it starts Spark; else the fake says what ended."""
    code, printed = deployed.cli.bundle(
        "run", "-t", deployed.target, "enrichment", "--python-named-params", "max-bad-share=five"
    )
    assert code == 1, printed
    assert "argument --max-bad-share" in printed
    monkeypatch.setattr(deployed.workspace, "execute", lambda *_: 0)
    assert "SUCCESS" in deployed.run("run", "enrichment")


@real
def test_what_is_deployed_twice_is_changed_and_not_made_anew(deployed: Deployed) -> None:
    assert "0 to add, 0 to change, 0 to delete" in deployed.run("plan")
    workspace = deployed.workspace
    before = {kind: set(getattr(workspace, kind)) for kind in ("jobs", "schemas", "volumes", "dashboards")}
    edit(deployed.cli.root / "resources" / "storage.yml", "Results of the pipelines.", "What the pipelines say.")
    edit(deployed.cli.root / "resources" / "storage.yml", "Checkpoints of the ingest", "Places of the ingest")
    edit(deployed.cli.root / "dashboards" / "quality.lvdash.json", '"displayName": "Cycles"', '"displayName": "Rounds"')
    deployed.run("deploy", "--var", "enrichment_cron=0 0 6 * * ?")
    assert {kind: set(getattr(workspace, kind)) for kind in before} == before
    (changed,) = [one for name, one in jobs(deployed).items() if name.endswith("enrichment")]
    assert changed["schedule"]["quartz_cron_expression"] == "0 0 6 * * ?"
    assert (
        workspace.schemas[f"{deployed.target}.{deployed.resolved.variables['silver_schema']}"]["comment"]
        == "What the pipelines say."
    )
    assert [one["comment"] for one in workspace.volumes.values()] == ["Places of the ingest queries."]
    assert ["Rounds" in one["serialized_dashboard"] for one in workspace.dashboards.values()] == [True]


@real
def test_data_is_protected_and_the_rest_is_destroyed(deployed: Deployed) -> None:
    """In prod nothing is deleted as long as anything protected would be, too; the CLI says which."""
    workspace = deployed.workspace
    if deployed.target == "prod":
        code, printed = deployed.cli.bundle("destroy", "-t", deployed.target, "--auto-approve")
        assert (code, "prevent_destroy" in printed) == (1, True), printed
        assert (len(workspace.jobs), len(workspace.schemas), len(workspace.volumes)) == (5, 3, 1)
        edit(deployed.cli.root / "databricks.yml", "prevent_destroy: true", "prevent_destroy: false")
    deployed.run("destroy", "--auto-approve")
    assert (workspace.jobs, workspace.schemas, workspace.volumes, workspace.dashboards) == ({}, {}, {}, {})
    assert not workspace.place(deployed.resolved.config["workspace"]["root_path"]).exists()
    assert workspace.unknown == []


# --- what validate misses --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(workspace_for(tmp_path_factory.mktemp("workspace"))) as address:
        yield address


@real
@pytest.mark.parametrize("name", PLANTED)
def test_what_validate_says_of_a_planted_mistake(
    name: str, host: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    root = built(plant(PLANTED[name], tmp_path / "bundle"))
    _, printed = Cli(root, tmp_path / "home", host).bundle("validate", "--strict", "-t", "prod")
    refused = objections(printed, golden.ADA.name) != []
    record_property(VALIDATE, "refused" if refused else "missed")
    assert refused == (name in REFUSED), f"look, and say in planted.py what it says now:\n{printed}"
    assert REFUSED.get(name, "") in printed


# --- a new project ---------------------------------------------------------------------------------------------------


@real
@pytest.mark.parametrize(
    ("jobs", "more"),
    [(template.JOBS, {}), (("enrichment",), {"host": "", "cloud": "azure"}), (("correlation", "fk_join"), {"cloud": "gcp"})],
    ids=["by default", "one job", "two jobs"],
)  # fmt: skip
def test_bundle_init_writes_what_lakestreams_init_writes(
    jobs: tuple[str, ...], more: dict[str, str], host: str, tmp_path: Path
) -> None:
    """By default the address is that of the workspace that the CLI is signed in to."""
    left_out = {f"include_{job}": "no" for job in template.JOBS if job not in jobs}
    code, printed = initialised(tmp_path, host, {"project_name": "ours"} | left_out | more)
    assert (code, "Error" in printed) == (0, False), printed
    folder = tmp_path / "made" / "ours"
    made = {one.relative_to(folder).as_posix(): one.read_bytes() for one in folder.rglob("*") if one.is_file()}
    own = read_yaml(folder / "databricks.yml")["bundle"]["uuid"]
    wanted = template.whole(template.Project("ours", **{"jobs": jobs, "host": host, "uuid": own} | more))  # type: ignore[arg-type]
    assert made == {name: text.encode() for name, text in wanted.items()}
    assert list((folder / "wheels").iterdir()) == []
    for step in ("cd ours", *template.FIRST_STEPS):
        assert step in printed


@real
@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({"include_enrichment": "no", "include_correlation": "no", "include_fk_join": "no"}, "a bundle without jobs"),
        ({"project_name": "4 streams"}, "letters, digits, - and _, beginning with a letter"),
        ({"host": "a.b"}, "without a path"),
    ],
)
def test_bundle_init_refuses_what_lakestreams_init_refuses(
    answers: dict[str, str], told: str, host: str, tmp_path: Path
) -> None:
    code, printed = initialised(tmp_path, host, answers)
    assert (code, told in printed) == (1, True), printed
    assert not (tmp_path / "made").exists()


def initialised(folder: Path, host: str, answers: dict[str, str]) -> tuple[int, str]:
    given = folder / "answers.json"
    given.write_text(json.dumps(answers), encoding="utf-8")
    cli = Cli(folder, folder / "home", host)
    place = ["--config-file", str(given), "--output-dir", str(folder / "made")]
    return cli.bundle("init", str(ROOT / "bundle-template"), *place)


# --- what is written of it -------------------------------------------------------------------------------------------


def test_the_page_says_how_many_validate_misses() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    assert f"lets {len(PLANTED) - len(REFUSED)} of the {len(PLANTED)} through" in page
    assert not REFUSED.keys() & MISSED.keys()


OWN_FOLDER = """\
Warning: workspace folder has permissions not configured in bundle

The following permissions apply to the workspace folder at "/Workspace/Users/runner/.bundle/shop/prod" but are not configured in the bundle:
- level: CAN_MANAGE, user_name: ada@example.com

Add them to your bundle permissions or remove them from the folder.

"""
STRICT = "Error: 1 warning was found. Warnings are not allowed in strict mode\n"


@pytest.mark.parametrize(
    ("printed", "by", "objected"),
    [
        ("Validation OK!\n", "", []),
        ("Warning: Ignoring Databricks CLI version constraint for development build. Required: >= 1.9.0\n" + STRICT, "", []),
        (OWN_FOLDER + STRICT, "ada@example.com", []),
        (OWN_FOLDER + STRICT, "", ["workspace folder has permissions not configured in bundle"]),
        (OWN_FOLDER.replace("\n\nAdd", "\n- level: CAN_MANAGE, group_name: users\n\nAdd"), "ada@example.com",
         ["workspace folder has permissions not configured in bundle"]),
        ("Warning: unknown field: timeout_second\n  at resources\n\nName: shop\n" + STRICT, "", ["unknown field: timeout_second"]),
        ("Error: cannot parse\n", "", ["cannot parse"]),
    ],
)  # fmt: skip
def test_what_the_cli_objects_to(printed: str, by: str, objected: list[str]) -> None:
    assert objections(printed, by) == objected


# --- which CLI it is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("says", "version", "why"),
    [
        ("Databricks CLI v1.13.0", "1.13.0", ""),
        ("Databricks CLI v1.14.0-dev+0a1b2c", "1.14.0-dev+0a1b2c", ""),
        ("Databricks CLI v0.240.0", "", "the Databricks CLI on PATH is 0.240.0, and the bundle wants >= 1.9.0"),
        ("Version 0.18.0", "", "`databricks` on PATH is not the Databricks CLI: 'Version 0.18.0'"),
        (None, "", "no `databricks` is on PATH"),
    ],
)
def test_a_cli_is_used_if_the_bundle_accepts_it(
    says: str | None, version: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if says:
        (tmp_path / "databricks").write_text(f"#!/bin/sh\necho '{says}'\n", encoding="utf-8")
        (tmp_path / "databricks").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found.__wrapped__() == (version, why)


# --- what the run says at its end ------------------------------------------------------------------------------------


def report(test: str, **properties: str) -> Any:
    return SimpleNamespace(nodeid=test, user_properties=list(properties.items()))


def test_a_run_without_tests_of_bundles_says_nothing() -> None:
    assert how_it_was_shown([report("tests/dsl/test_x.py::test_y")], []) is None


def test_a_run_says_that_the_cli_was_not_used() -> None:
    told = how_it_was_shown([report("tests/deploy/test_bundle.py::test_y")], [])
    assert told is not None
    assert told.startswith("bundle: shown with our own loader and the fake workspace alone; ")
    assert (WHY_NOT or f"Databricks CLI {CLI_VERSION} were not among those that ran") in told


def test_a_run_says_which_cli_was_used_and_what_it_missed() -> None:
    passed = [report(REAL + "test_x[a]", **{VERSION: "9.9.9", VALIDATE: "missed"})]
    passed += [report(REAL + "test_x[b]", **{VERSION: "9.9.9", VALIDATE: "refused"})]
    told = "bundle: shown with the Databricks CLI 9.9.9 against the fake workspace, and with our own loader"
    told += "; its validate lets 1 of 2 planted mistakes through"
    assert how_it_was_shown(passed, []) == told
    assert how_it_was_shown(passed, [report(REAL + "test_y", **{VERSION: "9.9.9"})]) == f"{told}; 1 of its tests FAILED"
