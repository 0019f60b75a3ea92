"""`lakestreams init`: a project that has no fault, from the source tree and from the wheel; and what it refuses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from lakestreams.cli.app import app
from lakestreams.deploy import files
from lakestreams.deploy.dbx import PLACE
from lakestreams.deploy.read import load, targets
from lakestreams.deploy.rules import faults
from lakestreams.deploy.template import JOBS, OWN, Project, only_used, render, rendered, shipped, whole
from lakestreams.errors import InvalidName, InvalidOption
from lakestreams.testing.case_files import load as load_cases

runner = CliRunner()


def init(folder: Path, *more: str) -> None:
    done = runner.invoke(app, ["init", str(folder), *more])
    assert done.exit_code == 0, done.stderr


def texts(folder: Path) -> dict[str, str]:
    found = (file for file in folder.rglob("*") if file.is_file() and file.suffix != ".whl")
    return {file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8") for file in found}


@pytest.mark.parametrize("jobs", [JOBS, ("enrichment",), ("correlation",), ("fk_join",)])
def test_a_project_has_no_fault_in_any_target(jobs: tuple[str, ...], tmp_path: Path, shell_wheel: Path) -> None:
    folder = tmp_path / "my-streams"
    init(folder, *(token for job in jobs for token in ("--job", job)), "--wheel", str(shell_wheel))
    for target in targets(folder):
        bundle = load(folder, target)
        assert [str(fault) for fault in faults(bundle)] == []
        found, unusable = files.pipelines(bundle)
        assert (len(found), unusable) == (len(jobs), [])
        assert set(bundle.jobs) == {*jobs, "maintenance", "verify"}
        own = "-you" if target == "dev" else ""
        assert bundle.variables["secret_scope"] == f"my-streams-{target}{own}"
    declared = yaml.safe_load((folder / "databricks.yml").read_text(encoding="utf-8"))["variables"]
    text = "\n".join(texts(folder).values())
    assert [name for name in declared if f"${{var.{name}}}" not in text] == [], "variables without use"


def test_a_further_pipeline_has_a_job_without_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell_wheel: Path
) -> None:
    init(tmp_path / "mine", "--job", "enrichment", "--wheel", str(shell_wheel))
    monkeypatch.chdir(tmp_path / "mine")
    done = runner.invoke(app, ["init", "pipeline", "big_views"])
    assert "${workspace.file_path}/conf/big_views.yml" in done.stdout, done.stderr
    (seen,) = re.findall(r"^  (big_views: .*)$", done.stdout, re.MULTILINE)
    file = Path("databricks.yml")
    text = file.read_text(encoding="utf-8")
    file.write_text(
        text.replace("        verify: *seen\n", f"        verify: *seen\n        {seen}\n"), encoding="utf-8"
    )
    for target in targets(Path()):
        bundle = load(Path(), target)
        assert [str(fault) for fault in faults(bundle)] == []
        assert bundle.jobs["big_views"].get("permissions") == bundle.jobs["enrichment"].get("permissions")
        (task,) = bundle.jobs["big_views"]["tasks"]
        assert task["python_wheel_task"]["named_parameters"]["bootstrap-servers"] == bundle.variables["kafka_bootstrap"]
        found, unusable = files.pipelines(bundle)
        assert ({one.topology.name for one in found}, unusable) == ({"page_views", "big_views"}, [])


def test_delta_tables_that_jobs_read_are_named_as_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell_wheel: Path
) -> None:
    init(tmp_path / "mine", "--job", "enrichment", "--wheel", str(shell_wheel))
    monkeypatch.chdir(tmp_path / "mine")
    sources = Path("conf", "sources.yml")
    table = "kind: table\n    delta: crm.profiles\n    key: user string\n    value: region string\n"
    topic = "kind: table\n    key: {text: user}\n    value: {text: region}\n"
    assert topic in sources.read_text(encoding="utf-8")
    sources.write_text(sources.read_text(encoding="utf-8").replace(topic, table), encoding="utf-8")
    told = runner.invoke(app, ["check", "--target", "dev", "--no-workspace", "--json"])
    assert told.exit_code == 0, told.stderr
    (tables,) = [one for one in json.loads(told.stdout)["target"]["unchecked"] if "Delta" in one]
    assert "crm.profiles; they must be there, and the jobs' principal needs SELECT" in tables


def test_its_topics_are_those_that_its_pipelines_name(tmp_path: Path) -> None:
    init(tmp_path / "a", "--job", "correlation")
    topics = yaml.safe_load((tmp_path / "a" / "conf" / "sources.yml").read_text(encoding="utf-8"))["topics"]
    assert set(topics) == {"PlacedOrders", "Payments"}
    everything = shipped("conf/sources.yml")
    names = yaml.safe_load(everything)["topics"]
    assert yaml.safe_load(only_used(everything, " ".join(names)))["topics"] == names


def test_its_cases_are_cases_of_its_pipelines(tmp_path: Path) -> None:
    init(tmp_path / "a")
    suites = load_cases(sorted((tmp_path / "a" / "tests" / "cases").glob("*.yml")))
    assert len(suites) == len(JOBS)


@pytest.mark.parametrize("jobs", [JOBS, ("correlation",)])
def test_its_notebooks_install_the_wheel_that_its_jobs_install(
    jobs: tuple[str, ...], tmp_path: Path, shell_wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a"
    init(folder, *(token for job in jobs for token in ("--job", job)), "--wheel", str(shell_wheel))
    notebooks = {file.stem: file.read_text(encoding="utf-8") for file in (folder / "notebooks").glob("*.py")}
    assert set(notebooks) == {"tutorial_joins", *(f"explore_{job}" for job in jobs)}
    for text in notebooks.values():
        assert re.findall(r"^# MAGIC %pip install --quiet (\S+)$", text, re.MULTILINE) == ["$wheel"]
        (code,) = re.findall(r"^wheel = (.*?)  # the file that the jobs install$", text, re.MULTILINE)
        monkeypatch.chdir(folder / "notebooks")
        assert eval(code, {"Path": Path}) == f"../wheels/{shell_wheel.name}"
    kept = (folder / ".gitignore").read_text(encoding="utf-8").split()
    assert not [line for line in kept if "wheel" in line or ".whl" in line], "what git ignores is not deployed"


def test_the_wheel_writes_the_same_project(tmp_path: Path, wheel: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = "import sys; from lakestreams.cli.app import main; sys.argv = ['lakestreams', 'init', 'my-streams', '--json']; main()"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    made = texts(tmp_path / "my-streams")
    (own,) = re.findall(r"^  uuid: (\S+) #", made["databricks.yml"], re.MULTILINE)
    assert made == whole(Project("my-streams", uuid=own))
    assert sorted(json.loads(done.stdout)["files"]) == sorted(made)


def test_a_project_without_its_wheel_says_so(tmp_path: Path) -> None:
    init(tmp_path / "a")
    told = [fault.message for fault in faults(load(tmp_path / "a", "dev"))]
    assert told
    assert all("there is no wheel ../wheels/*.whl" in message for message in told)


def test_a_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    done = runner.invoke(app, ["init", str(tmp_path)])
    assert (done.exit_code, "LS704 PROJECT_EXISTS" in done.stderr) == (1, True)
    assert texts(tmp_path) == {"mine.txt": "mine"}


def test_what_cannot_be_a_project_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidName):
        Project("4 streams")
    with pytest.raises(InvalidOption, match="there is no job enrichement"):
        Project("a", jobs=("enrichement",))
    other = tmp_path / "lakestreams-0.0.1-py3-none-any.whl"
    other.touch()
    done = runner.invoke(app, ["init", str(tmp_path / "a"), "--wheel", str(other)])
    assert (done.exit_code, "LS112" in done.stderr) == (1, True)
    assert not (tmp_path / "a").exists()


def test_the_projects_bundle_is_this_one_but_for_the_wheel_and_the_name() -> None:
    """One template: what a user gets is what this repository deploys."""
    own, theirs = render(OWN), render(Project("lakestreams", OWN.title, exclude=OWN.exclude, dbx=True))
    assert own.keys() == theirs.keys()
    for name in own:
        if name.startswith("resources/"):
            assert theirs[name] == own[name].replace("../dist/*.whl", "../wheels/*.whl")


def test_jobs_for_dbx_are_written_only_on_demand(tmp_path: Path) -> None:
    init(tmp_path / "a")
    init(tmp_path / "b", "--dbx")
    without, beside = texts(tmp_path / "a"), texts(tmp_path / "b")
    assert beside.keys() - without.keys() == {PLACE}
    assert [name for name, text in without.items() if "dbx" in text] == []
    assert f"`{PLACE}`" in beside["README.md"]


def test_a_mark_without_a_value_is_a_mistake_of_the_template() -> None:
    assert rendered("a @{x}\n@{if y}\nb\n@{end}\nc ${var.z}\n", {"x": "1"}, frozenset()) == "a 1\nc ${var.z}\n"
    with pytest.raises(KeyError):
        rendered("@{x}\n", {}, frozenset())
