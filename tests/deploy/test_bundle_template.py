"""The template of `databricks bundle init`: it is up to date, and writes what `lakestreams init` writes for the same answers.

`test_cli.py` shows the same with the CLI itself.
"""

from __future__ import annotations

import importlib
import itertools
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.cli import ROOT
from tests.deploy.go_templates import NotRendered, Rendering

from lakestreams.cli.options import NewBundle
from lakestreams.deploy.template import CLOUDS, HOST, JOBS, NAME, Project, whole
from lakestreams.errors import InvalidName, InvalidOption

TEMPLATE = ROOT / "bundle-template"
SOME = [jobs for count in range(1, len(JOBS) + 1) for jobs in itertools.combinations(JOBS, count)]
MARKS = {"name": "my-streams", "other": "", "yes": "yes", "no": "no"}


@pytest.fixture
def bundle_template(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("bundle_template")


def answers(name: str, jobs: tuple[str, ...], host: str, cloud: str) -> dict[str, str]:
    wanted = {f"include_{job}": "yes" if job in jobs else "no" for job in JOBS}
    return {"project_name": name, "host": host, "cloud": cloud} | wanted


def questions() -> dict[str, dict[str, Any]]:
    asked: dict[str, dict[str, Any]] = json.loads(
        (TEMPLATE / "databricks_template_schema.json").read_text(encoding="utf-8")
    )["properties"]
    return asked


# --- one source ------------------------------------------------------------------------------------------------------


def test_it_is_made_of_the_files_of_lakestreams_init(bundle_template: Any) -> None:
    assert bundle_template.outdated() == [], "run: python scripts/bundle_template.py"


@pytest.mark.parametrize("jobs", SOME, ids="-".join)
@pytest.mark.parametrize("host", ["", "https://adb-1.azuredatabricks.net"])
def test_it_writes_what_lakestreams_init_writes(jobs: tuple[str, ...], host: str) -> None:
    for cloud in CLOUDS:
        made = Rendering(answers("our_streams", jobs, host, cloud), "a-uuid").folder(TEMPLATE / "template")
        wanted = whole(Project("our_streams", jobs=jobs, host=host, cloud=cloud, uuid="a-uuid"))
        assert made.keys() == {f"our_streams/{name}" for name in wanted}
        for name, text in wanted.items():
            assert made[f"our_streams/{name}"] == text, (name, cloud)


def test_a_bundle_without_jobs_is_refused() -> None:
    with pytest.raises(NotRendered, match="a bundle without jobs: one or more of enrichment, correlation, fk_join"):
        Rendering(answers("a", (), "", "aws")).folder(TEMPLATE / "template")


# --- what it asks ----------------------------------------------------------------------------------------------------


def test_its_questions_are_the_options_of_lakestreams_init() -> None:
    asked = set(questions())
    assert asked == set(answers("a", JOBS, "", "aws"))
    options = {"job" if name.startswith("include_") else name for name in asked - {"project_name"}}
    # a wheel is copied, and jobs for dbx are computed: no template of the CLI can do either
    assert options == {option.name for option in fields(NewBundle)} - {"wheel", "for_dbx"}
    assert questions()["cloud"]["enum"] == list(CLOUDS)


def test_each_question_is_what_the_cli_takes() -> None:
    for place, (name, question) in enumerate(questions().items(), start=1):
        assert (question["type"], question["order"], bool(question["description"])) == ("string", place, True), name
        assert question["default"] in question.get("enum", [question["default"]])


@pytest.mark.parametrize("name", ["a", "my-streams", "our_2", "4 streams", "", "a b", "a" * 62, "ä", "a\nb"])
def test_a_name_is_refused_by_both(name: str) -> None:
    told = re.search(questions()["project_name"]["pattern"], name)
    if told:
        assert Project(name).name == name
    else:
        with pytest.raises(InvalidName):
            Project(name)
    assert NAME.pattern in questions()["project_name"]["pattern"]


@pytest.mark.parametrize("host", ["", "https://a.b", "http://127.0.0.1:80", "a.b", "https://a.b/c", "https://"])
def test_an_address_is_refused_by_both(host: str) -> None:
    if re.search(questions()["host"]["pattern"], host):
        assert Project("a", host=host).host == host
    else:
        with pytest.raises(InvalidOption):
            Project("a", host=host)
    assert HOST.pattern in questions()["host"]["pattern"]


# --- marks of Go -----------------------------------------------------------------------------------------------------


def test_a_text_that_go_would_take_for_a_mark_is_refused(bundle_template: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_template, "marked", lambda _: {"a.yml": "run: {{job.id}}\n"})
    monkeypatch.setattr(bundle_template, "schema", dict)
    with pytest.raises(ValueError, match=r"Go would read this as a mark: '\{\{job.id"):
        bundle_template.template()


def test_a_file_that_is_not_the_templates_is_found(bundle_template: Any, tmp_path: Path) -> None:
    for name, text in bundle_template.template().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert bundle_template.outdated(tmp_path) == []
    (tmp_path / "more.txt").touch()
    (tmp_path / "README.md").write_text("other\n", encoding="utf-8")
    assert bundle_template.outdated(tmp_path) == ["README.md", "more.txt"]


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("a ${x} {b}", "a ${x} {b}"),
        ("{{.name}}!", "my-streams!"),
        ("{{if .other}}a{{else}}b{{end}}c", "bc"),
        ('{{if eq .yes "yes"}}a{{if .other}}b{{else}}c{{end}}{{end}}', "ac"),
        ('{{if eq .no "yes"}}a{{if .name}}b{{else}}c{{fail "no"}}{{end}}{{end}}d', "d"),
        ('{{if or (eq .no "yes") (eq .yes "yes")}}a{{end}}', "a"),
        ('{{if not (or (eq .no "yes") (eq .other "a b"))}}a{{end}}', "a"),
    ],
)
def test_marks_are_rendered(text: str, made: str) -> None:
    assert Rendering(MARKS).text(text) == made


@pytest.mark.parametrize(
    "text",
    [
        "{{.name", "name}}", "{{ .name }}", "{{- .name}}", "{{.name | upper}}", "{{end}}", "{{else}}", "{{if .name}}", "{{user_name}}",
        '{{template "x"}}', "{{if .name}}a{{else}}b{{else}}c{{end}}", "{{if name}}a{{end}}", '{{if eq .name "a" }}{{end}}', "{{range .name}}{{end}}",
        "{{if not .name}}a{{end}}", '{{if eq .name "a" "b"}}{{end}}', '{{fail "no"}}',
    ],
)  # fmt: skip
def test_other_marks_are_refused(text: str) -> None:
    with pytest.raises(NotRendered):
        Rendering(MARKS).text(text)
    with pytest.raises(KeyError):
        Rendering(MARKS).text("{{.unknown}}")
