"""Files of a bundle in which a part is empty or of another shape: a fault with its place, or what the CLI makes of it."""

from __future__ import annotations

import json
import shlex
import zoneinfo
from pathlib import Path

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.core import Config
from tests.deploy.fake_workspace import Workspace, serving
from tests.deploy.planted import JOB, MAIN, STORE, Mistake, plant

from lakestreams.deploy import dbx, fields, files, pipelines, rules, workspace
from lakestreams.deploy.bodies import job_bodies
from lakestreams.deploy.read import Bundle, User, load
from lakestreams.deploy.template import Project, init
from lakestreams.errors import BundleInvalid, ConfigUnreadable, InvalidName, LakestreamsError

INCLUDE = "include:\n  - resources/*.yml\n"
REFUSED = {
    "no bundle": (MAIN, "bundle:\n", "bundel:\n", "bundle.name: there is none"),
    "a name that is none": (MAIN, 'name: "lakestreams"', "name: no", "bundle.name: it is False and no text"),
    "a bundle that is a text": (MAIN, INCLUDE, INCLUDE + "presets: PAUSED\n", "presets is no mapping"),
    "an include that is absolute": (MAIN, "  - resources", "  - /resources", "include: '/resources/*.yml' is no relative"),
    "an include that is empty": (MAIN, INCLUDE, INCLUDE + "  -\n", "include: None is no relative path"),
    "a target that is a text": (MAIN, "  prod:\n", "  test: development\n\n  prod:\n", "targets.test is no mapping"),
    "a variable that is a text": (MAIN, "\nvariables:\n", "\nvariables:\n  more: a\n", "variables.more is no mapping"),
    "a kind that is a list": (JOB, "  jobs:\n", "  dashboards: [a]\n  jobs:\n", "resources.dashboards is no mapping"),
    "a job that is empty": (JOB, "  jobs:\n", "  jobs:\n    more:\n", "resources.jobs.more is no mapping"),
    "a resource of a target": (MAIN, "        enrichment: *seen", "        enrichment: seen", "jobs.enrichment is no mapping"),
}  # fmt: skip


def resolved(root: Path, target: str = "prod") -> Bundle:
    """The bundle of a target, after everything that a check does with it."""
    bundle = load(root, target)
    files.pipelines(bundle)
    rules.unchecked(bundle)
    return bundle


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_told(name: str, tmp_path: Path) -> None:
    file, text, instead, told = REFUSED[name]
    root = plant(Mistake(file, text, instead, ""), tmp_path)
    with pytest.raises(LakestreamsError) as error:
        resolved(root, "test" if "test:" in instead else "prod")
    assert told in error.value.message


EMPTY = {
    "include": (MAIN, INCLUDE, "include:\n"),
    "a kind": (JOB, "resources:\n", "resources:\n  pipelines:\n"),
    "tags": (JOB, '      tags:\n        project: "lakestreams"\n', "      tags:\n"),
    "libraries": (JOB, "          max_retries", "          libraries:\n          depends_on:\n          max_retries"),
    "parameters": (JOB, "      tasks:\n", "      parameters:\n      job_clusters:\n      tasks:\n"),
    "an item": (JOB, "      tasks:\n", "      tasks:\n        -\n"),
    "a schedule of a target": (MAIN, "        enrichment: *seen", "        enrichment: {<<: *seen, schedule: }"),
    "artifacts of a target": (MAIN, "  prod:\n", "  prod:\n    artifacts:\n    presets:\n"),
}


@pytest.mark.parametrize("name", EMPTY)
def test_what_is_empty_is_not_given(name: str, tmp_path: Path) -> None:
    bundle = resolved(plant(Mistake(*EMPTY[name], ""), tmp_path))
    if name == "include":
        assert "tasks" not in bundle.jobs["enrichment"], "no file says anything of it but the target"
        return
    assert rules.faults(bundle) == []
    assert "schedule" in job_bodies(bundle)["enrichment"]
    dbx.deployment(bundle.root, None)


@pytest.mark.parametrize("part", ["tasks: 7", "tasks: [look]", "environments: {a: 1}"])
def test_another_shape_is_told_also_where_nobody_knows_the_fields(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = plant(Mistake(JOB, "  jobs:\n", f"  jobs:\n    more: {{{part}}}\n", ""), tmp_path)
    assert any(fault.where == f"{JOB}  jobs.more" for fault in rules.faults(resolved(root)))
    monkeypatch.setattr(fields, "known", lambda: False)
    (told,) = rules.faults(resolved(root))
    assert told.message == "it has not the shape of a job"


def test_a_schema_without_its_catalog_is_told_before_the_workspace_is_asked(tmp_path: Path) -> None:
    root = plant(Mistake(STORE, "      catalog_name: ${var.catalog}\n      name: ${var.silver", "      name: ${var.silver", ""), tmp_path)  # fmt: skip
    (told,) = rules.faults(resolved(root))
    assert (told.message, told.where) == ("catalog_name is not given", f"{STORE}  schemas.silver")


def test_values_of_this_machine_that_are_no_json_are_told(tmp_path: Path) -> None:
    root = plant(Mistake(MAIN, "", "", ""), tmp_path)
    own = root / ".databricks" / "bundle" / "prod" / "variable-overrides.json"
    own.parent.mkdir(parents=True)
    own.write_text("{", encoding="utf-8")
    with pytest.raises(ConfigUnreadable, match=r"variable-overrides\.json cannot be read"):
        load(root, "prod")


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["no", "null", "on", "true"])
def test_a_project_may_be_named_by_a_word_of_yaml(name: str, tmp_path: Path) -> None:
    project = Project(name)
    init(tmp_path / name, project)
    (tmp_path / name / "wheels" / project.wheel_name).touch()
    bundle = resolved(tmp_path / name)
    assert {job["name"] for job in bundle.jobs.values()} >= {f"{name}-enrichment", f"{name}-verify"}
    assert {job["tags"]["project"] for job in bundle.jobs.values()} == {name}
    assert rules.faults(bundle) == []


@pytest.mark.parametrize("name", ["no", "null", "on", "True"])
def test_a_pipeline_may_not(name: str, tmp_path: Path) -> None:
    """It is a key of YAML files, and the name of a table."""
    init(tmp_path / "a", Project("a"))
    with pytest.raises(InvalidName, match=name):
        pipelines.add(tmp_path / "a", name, python=False)


@pytest.mark.parametrize(
    ("name", "short"), [("Jörg.Müller@x.de", "jörg_müller"), ("a.b_c@x.de", "a_b_c"), ("李@x.cn", "李")]
)
def test_short_names_keep_letters_of_every_alphabet(name: str, short: str) -> None:
    """As in the CLI's `libs/textutil`: the schemas of dev are named by it."""
    assert User(name).short_name == short


# --- patterns and paths ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern", ["/resources", "resources/", "*.job.yml", "!storage.yml", "resources/**", "res**/*.yml"]
)
def test_what_is_not_synced_is_said_as_git_says_it(pattern: str, tmp_path: Path) -> None:
    root = plant(Mistake(MAIN, "    - tests/**", f"    - tests/**\n    - '{pattern}'", ""), tmp_path)
    assert load(root, "prod").unmatched == ()


def test_a_file_is_included_once_and_two_stars_are_one_folder(tmp_path: Path) -> None:
    root = plant(Mistake(MAIN, INCLUDE, INCLUDE + "  - resources/*.job.yml\n", ""), tmp_path)
    bundle = load(root, "prod")
    assert (bundle.doubled, bundle.unmatched) == ((), ())
    text = (root / MAIN).read_text("utf-8")
    (root / MAIN).write_text(text.replace("  - resources/*.yml\n", "  - resources/**/*.yml\n"), "utf-8")
    assert load(root, "prod").unmatched == ("include: resources/**/*.yml",), (
        "the CLI finds nothing below resources either"
    )


def test_a_shared_root_path_is_found_without_the_prefix_that_the_cli_adds(tmp_path: Path) -> None:
    root = plant(Mistake(MAIN, "root_path: /Workspace/Users/", "root_path: /Shared/", ""), tmp_path)
    bundle = load(root, "staging")
    assert bundle.config["workspace"]["state_path"].startswith("/Workspace/Shared/0000")
    assert any("shared with everybody" in fault.message for fault in rules.faults(bundle))


# --- dbx, and time zones ---------------------------------------------------------------------------------------------


def test_dbx_has_the_names_and_tags_of_the_bundle(tmp_path: Path) -> None:
    text = "name: ${bundle.name}-enrichment"
    root = plant(Mistake(JOB, text, "name: '[eu] enrichment'", ""), tmp_path)
    job = root / JOB
    job.write_text(job.read_text("utf-8").replace("      tags:\n", "      tags:\n        dev: ops\n"), "utf-8")
    made = dbx.deployment(root, None)["environments"]
    workflows = [next(one for one in made[target]["workflows"] if "[eu]" in one["name"]) for target in ("dev", "prod")]
    assert [one["name"] for one in workflows] == ["[eu] enrichment"] * 2
    assert workflows[1]["tags"] == {"dev": "ops", "project": "lakestreams"}


def test_dbx_does_not_have_the_values_of_one_machine(tmp_path: Path) -> None:
    """Its file is for all, and a check on another machine would find that it differs."""
    root = plant(Mistake(MAIN, "", "", ""), tmp_path)
    before = dbx.deployment_text(root, None)
    own = root / ".databricks" / "bundle" / "prod" / "variable-overrides.json"
    own.parent.mkdir(parents=True)
    own.write_text(json.dumps({"kafka_bootstrap": "mine:9092"}), encoding="utf-8")
    assert load(root, "prod").variables["kafka_bootstrap"] == "mine:9092"
    assert dbx.deployment_text(root, None) == before


def test_a_machine_without_time_zones_says_so_and_finds_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = load(plant(Mistake(MAIN, "", "", ""), tmp_path), "prod")
    monkeypatch.setattr(zoneinfo, "available_timezones", set)
    assert rules.faults(bundle) == []
    assert any("pip install tzdata" in one for one in rules.unchecked(bundle))


def test_commands_to_paste_quote_what_has_a_space(tmp_path: Path) -> None:
    root = plant(Mistake(MAIN, "default: data-platform", "default: data platform", ""), tmp_path / "my streams")
    with serving(Workspace(tmp_path / "workspace")) as host:
        client = WorkspaceClient(config=Config(host=host, token="token-of-the-fake", retry_timeout_seconds=1))
        fixes = [one.fix for one in workspace.examine(client, load(root, "prod"), [("of kafka", "a key")])]
    assert any(fix.startswith("databricks groups create --display-name 'data platform';") for fix in fixes)
    assert {"databricks secrets create-scope 'of kafka'", "databricks secrets put-secret 'of kafka' 'a key'"} <= {
        *fixes
    }
    dbx.write(root)
    changed = root / JOB
    changed.write_text(changed.read_text("utf-8").replace("max_retries: 2", "max_retries: 3"), "utf-8")
    drift = dbx.drift(root)
    assert drift is not None
    assert shlex.split(drift.hint.partition(";")[0]) == ["lakestreams", "dbx", "--bundle", str(root)]


def test_the_errors_of_a_bundle_have_a_place(tmp_path: Path) -> None:
    root = plant(Mistake(MAIN, "bundle:\n", "bundel:\n", ""), tmp_path)
    with pytest.raises(BundleInvalid) as told:
        load(root, "prod")
    assert (told.value.where, bool(told.value.hint)) == (MAIN, True)
