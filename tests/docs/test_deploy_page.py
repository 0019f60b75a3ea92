"""`docs/deploy.md`: its local commands run, its table of jobs is the bundle's, its Kafka section loads."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.docs.blocks import blocks
from tests.docs.walking import command, ran
from typer.main import get_command

from lakestreams.cli.app import app
from lakestreams.config.compile import load_pipeline
from lakestreams.costs import commits
from lakestreams.deploy.read import load
from lakestreams.deploy.template import Project
from lakestreams.engine.runtime.lake import Lake
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "deploy.md"
SHELL = [block.text for block in blocks(PAGE) if block.language == "sh"]
HERE = "# on this machine\n"


@pytest.mark.slow
def test_the_local_commands_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the session of all tests; what commands as processes of their own do is shown in `tests/deploy`."""
    lines = [line for text in SHELL if text.startswith(HERE) for line in filter(None, map(command, text.splitlines()))]
    assert len(lines) == sum(len(text.splitlines()) - 1 for text in SHELL if text.startswith(HERE)), "no other program"
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / Project("my-streams").wheel_name).touch()  # what a job is made of is not looked into here
    for name in [name for name in os.environ if name.startswith(("DATABRICKS_", "BUNDLE_VAR_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))
    monkeypatch.chdir(tmp_path)
    with small(spark):
        told = "".join(ran(line, servers="") for line in lines)
    assert re.search(r"\d+ passed", told)
    assert "ok  target prod: jobs enrichment, maintenance, verify" in told
    assert "ok  target dev: jobs enrichment, maintenance, orders, verify" in told


def test_all_commands_exist() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    used = [line for text in SHELL for line in re.findall(r"^lakestreams (.*)$", text, re.MULTILINE)]
    used += re.findall(r"`lakestreams ([^`]*)`", PAGE.read_text(encoding="utf-8"))
    assert len(used) > 5
    for line in used:
        name, *rest = line.split()
        options = {
            option for parameter in commands[name].params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        assert {one for one in rest if one.startswith("-")} <= options, line


def test_the_table_of_jobs_is_the_bundle() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("| job | starts |")[2].partition("\n\n")[0]
    told = {cells[1]: cells[2:-1] for line in table.splitlines()[2:] if (cells := [c.strip() for c in line.split("|")])}
    jobs = load(ROOT, "prod").jobs
    assert set(told) == set(jobs)
    for name, job in jobs.items():
        starts, compute, repeats, ends = told[name]
        assert starts == (job["schedule"]["quartz_cron_expression"] if "schedule" in job else "continuous")
        workers = [one["new_cluster"]["num_workers"] for one in job.get("job_clusters", [])]
        assert compute == (f"job cluster, {workers[0]} workers" if workers else "serverless")
        again = job["tasks"][0].get("max_retries", -1 if "continuous" in job else 0)
        assert repeats == {-1: "for ever", 0: "never", 1: "1 time"}.get(again, f"{again} times")
        assert ends == (f"{job['timeout_seconds'] // 60} min" if "timeout_seconds" in job else "never")


def test_the_kafka_section_loads_and_its_secret_is_found(tmp_path: Path) -> None:
    (text,) = [block.text for block in blocks(PAGE) if block.language == "yaml"]
    topics = yaml.safe_load((ROOT / "conf" / "sources.yml").read_text(encoding="utf-8"))["topics"]
    (tmp_path / "sources.yml").write_text(f"{text}\n{yaml.safe_dump({'topics': topics})}", encoding="utf-8")
    shutil.copy(ROOT / "conf" / "enrichment.yml", tmp_path)
    pipeline = load_pipeline(tmp_path / "enrichment.yml")
    assert pipeline.kafka.secrets() == [("kafka", "password")]


def test_what_a_day_of_enrichment_costs_is_calculated_as_the_page_says() -> None:
    """Commits are those that `check --explain` counts; the page says how CPU seconds come of its own three numbers."""
    topology = load_pipeline(ROOT / "conf" / "enrichment.yml").topology
    text = PAGE.read_text(encoding="utf-8")
    (warm, most, million) = map(int, re.search(  # type: ignore[union-attr]
        r"cycles times (\d+) or (\d+), and\n(\d+) for the million", text
    ).group(2, 1, 3))  # fmt: skip
    rows = re.findall(r"^\| (?:one|a) (run|round) .*? \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", text, re.MULTILINE)
    assert len(rows) == 4
    for what, *cells in rows:
        cycles, committed, seconds = (int(cell.replace(",", "")) for cell in cells)
        once = sum(commits.of_round(topology, Lake("lake"), commits.Round(starts=what == "run")).values())
        assert (committed, seconds) == (cycles * once, cycles * (most if what == "run" else warm) + million)


def test_what_photon_has_to_gain_is_calculated_from_the_measured_shares() -> None:
    """Of each shape the later row of the notes' table: CPU, tasks, Python workers."""
    notes = (ROOT / "docs" / "performance-notes.md").read_text(encoding="utf-8").partition("## CPU of whole runs")[2]
    measured = re.findall(
        r"^\| (.+), before \|.*\n\| after \| \| [\d.]+ \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", notes, re.MULTILINE
    )
    assert len(measured) == 3
    text = PAGE.read_text(encoding="utf-8").partition("**Photon.**")[2]
    for shape, *seconds in measured:
        cpu, tasks, workers = map(float, seconds)
        share = tasks / cpu
        break_even = [share / (1 / factor - 1 + share) for factor in (1.5, 2)]
        row = f"| {shape} | {share:.0%} | {workers / cpu:.0%} | {break_even[0]:.1f} | {break_even[1]:.1f} |"
        assert row.replace("%", " %") in text
