"""Pages say what is true: code runs, links lead somewhere, names that they give exist, made pages are up to date."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest
from tests.docs.blocks import blocks, topology_of

from lakestreams import errors
from lakestreams.config.compile import load_pipeline
from lakestreams.engine.ingest import reading
from lakestreams.engine.ledger import fence, rows
from lakestreams.engine.publish import events, orphans, quarantine
from lakestreams.engine.replay import requests as replays
from lakestreams.engine.runtime import failpoints
from lakestreams.evaluate.inputs import EXPECTATION

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
RUN, TABLES = ROOT / "docs" / "run.md", ROOT / "docs" / "tables.md"
PAGES = [
    README,
    *(ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


# --- README ----------------------------------------------------------------------------------------------------------


def test_the_readmes_python_builds_a_topology(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = [block.text for block in blocks(README) if block.language == "python"]
    topology = topology_of(code)
    assert [node.name for node in topology.sinks] == ["silver.enriched_page_views"]
    assert "Sink: silver.enriched_page_views (delta, append)" in capsys.readouterr().out
    assert len([line for line in code.splitlines() if line.strip()]) <= 10


def test_the_readmes_yaml_loads_and_is_the_file_in_conf(tmp_path: Path) -> None:
    (given,) = [block.text for block in blocks(README) if block.language == "yaml"]
    (name,) = re.findall(r"\A# (\S+)$", given, re.MULTILINE)
    file = tmp_path / "enrichment.yml"
    file.write_text(given, encoding="utf-8")
    shown = load_pipeline(file, ROOT / "conf" / "sources.yml").topology
    assert shown.describe() == load_pipeline(ROOT / name).topology.describe()


def test_the_first_screen_shows_what_is_needed_and_what_comes_out() -> None:
    from lakestreams.cli.demo import ENRICHED, OUTPUT

    head = text(README).partition("## ")[0]
    needed = (
        "Python 3.11",
        "JDK 17",
        "pip install '.[local]'",
        "lakestreams demo",
        "make demo",
        "make test",
        "](docs/images/overview.svg)",
    )
    assert all(what in head for what in (*needed, OUTPUT))
    rows = [re.split(r" {2,}", line.strip())[:3] for line in head.splitlines()]
    assert [row for row in rows if row in ENRICHED] == ENRICHED
    assert len(head.splitlines()) <= 50


def test_commands_of_pages_exist() -> None:
    from typer.main import get_command

    from lakestreams.cli.app import app

    used = [
        (page, *found)
        for page in PAGES
        for block in blocks(page)
        if block.language == "sh"
        for found in re.findall(r"^lakestreams (\S+)(.*?)(?:#|$)", block.text, re.MULTILINE)
    ]
    assert len({page for page, *_ in used}) > 5
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for page, name, rest in used:
        command = commands[name]
        if hasattr(command, "commands"):
            command = command.commands[rest.split()[0]]
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert set(re.findall(r"(?<= )--[\w-]+", rest)) <= options, f"{page.name}: lakestreams {name}{rest}"


def test_the_readmes_files_are_there() -> None:
    shell = "".join(block.text for block in blocks(README) if block.language == "sh")
    assert all((ROOT / file).is_file() for file in re.findall(r"\S+\.yml", shell))


# --- all pages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    without_code = re.sub(r"^```.*?^```$", "", text(page), flags=re.MULTILINE | re.DOTALL)
    for link in _LINK.findall(without_code):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in anchors(target), f"{link}: there is no such heading"


def test_no_page_names_a_place_of_one_machine() -> None:
    for page in PAGES:
        assert not re.search(r"/(?:home|root|work|Users)/\w", text(page).replace("/Workspace/Users/", "")), page


# --- a run, and tables ----------------------------------------------------------------------------------------------------


def test_every_failpoint_stands_in_the_run_step_by_step() -> None:
    named = set(re.findall(r"`([a-z]+\.(?:before|after|written))(?:/<\w+>)?`", text(RUN)))
    assert named == {*failpoints.NAMES, *failpoints.TAKING_OVER, *failpoints.MAINTENANCE}


@pytest.mark.parametrize(
    ("heading", "columns"),
    [
        ("_lakestreams.ledger", rows.SCHEMA),
        ("_lakestreams.epochs", fence.SCHEMA),
        ("_lakestreams.quarantine", quarantine.SCHEMA),
        ("_lakestreams.events", events.SCHEMA),
        ("_lakestreams.orphans", orphans.SCHEMA),
        ("_lakestreams.replays", replays.SCHEMA),
    ],
)
def test_every_column_stands_in_its_table(heading: str, columns: str) -> None:
    section = text(TABLES).partition(f"## `{heading}")[2].partition("\n## ")[0]
    top = re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*(?:<[^<>]*>[^<>]*)*>", "", columns))
    names = {part.split()[0] for part in top.split(",")}
    named = set(re.findall(r"\w+", "".join(re.findall(r"^\|(.*?)\|", section, re.MULTILINE))))
    assert names <= named, names - named


def test_every_quarantine_code_is_told() -> None:
    codes = {
        reading.MALFORMED_KEY,
        reading.MALFORMED_VALUE,
        reading.NO_TIMESTAMP,
        reading.FUTURE_TIMESTAMP,
    }
    codes |= {quarantine.NULL_KEY, quarantine.NULL_VALUE, quarantine.LATE, quarantine.NO_PARTNER, EXPECTATION}
    assert all(f"`{code}`" in text(TABLES) for code in codes)


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def error_pages():
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        yield importlib.import_module("error_pages")
    finally:
        sys.path.remove(str(ROOT / "scripts"))


def test_error_pages_are_up_to_date(error_pages) -> None:
    assert error_pages.outdated() == [], "run: python scripts/error_pages.py"


def test_every_code_has_one_example_of_its_own_class(error_pages) -> None:
    wanted = [errors.LakestreamsError, *errors.catalogue()]
    assert [type(one) for one in error_pages.EXAMPLES] == wanted


def test_a_page_that_was_changed_by_hand_is_found(error_pages, tmp_path: Path) -> None:
    for name, page in error_pages.pages().items():
        (tmp_path / name).write_text(page, encoding="utf-8")
    assert error_pages.outdated(tmp_path) == []
    (tmp_path / "LS104.md").write_text("no", encoding="utf-8")
    (tmp_path / "LS102.md").unlink()
    (tmp_path / "LS999.md").write_text("old", encoding="utf-8")
    assert error_pages.outdated(tmp_path) == ["LS102.md", "LS104.md", "LS999.md"]


# --- decisions -------------------------------------------------------------------------------------------------------


def test_decisions_are_numbered_listed_and_of_one_form() -> None:
    folder = ROOT / "docs" / "decisions"
    notes = sorted(file for file in folder.glob("*.md") if file.name != "README.md")
    numbers = [file.name[:4] for file in notes]
    assert numbers == [f"{number:04d}" for number in range(1, len(numbers) + 1)]
    for file in notes:
        assert text(file).startswith(f"# {file.name[:4]} ")
        assert re.findall(r"^\*\*(.*?)\.\*\*", text(file), re.MULTILINE) == [
            "Question",
            "Options",
            "Choice",
            "What would change it",
        ], file.name
        assert f"({file.name})" in text(folder / "README.md"), file.name


def test_decisions_that_the_code_cites_exist() -> None:
    cited = {
        name for file in (ROOT / "src").rglob("*.py") for name in re.findall(r"docs/decisions/([\w-]+\.md)", text(file))
    }
    assert cited
    assert all((ROOT / "docs" / "decisions" / name).is_file() for name in cited), cited


@pytest.mark.parametrize("file", sorted((ROOT / "notebooks").glob("*.py")), ids=lambda file: file.stem)
def test_a_notebook_is_in_databricks_source_format(file: Path) -> None:
    source = text(file)
    assert source.startswith("# Databricks notebook source\n")
    assert source.count("\n# COMMAND ----------\n") > 10
    compile(source, file.name, "exec")


# --- guarantees ------------------------------------------------------------------------------------------------------


def test_each_guarantee_names_a_test_that_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`", text(ROOT / "docs" / "guarantees.md"))
    promises = [
        line for line in text(ROOT / "docs" / "guarantees.md").splitlines() if re.match(r"\| (?!promise)[A-Z`]", line)
    ]
    assert len(named) >= len(promises) > 15
    for file, test in named:
        assert f"def {test}" in text(ROOT / file), f"{file} has no {test}"
