"""`docs/deploy.md`: its local commands run, its table of jobs is the bundle's, its Kafka section loads."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.docs.blocks import blocks
from typer.main import get_command

from lakestreams.cli.app import app
from lakestreams.config.compile import load_pipeline
from lakestreams.costs import commits
from lakestreams.deploy.read import load
from lakestreams.deploy.template import Project
from lakestreams.engine.runtime.lake import Lake

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "deploy.md"
SHELL = [block.text for block in blocks(PAGE) if block.language == "sh"]
HERE = "# on this machine\n"


@pytest.mark.slow
def test_the_local_commands_run(tmp_path: Path) -> None:
    commands = "\n".join(text for text in SHELL if text.startswith(HERE))
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / Project("my-streams").wheel_name).touch()  # what a job is made of is not looked into here
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "lakestreams").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lakestreams "$@"\n', encoding="utf-8")
    (tools / "lakestreams").chmod(0o755)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("DATABRICKS_", "BUNDLE_VAR_"))},
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
    }
    done = subprocess.run(
        ["sh", "-e", "-c", commands], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d+ passed", done.stdout)
    assert "ok  target prod: jobs enrichment, maintenance, verify" in done.stdout
    assert "ok  target dev: jobs enrichment, maintenance, orders, verify" in done.stdout


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
