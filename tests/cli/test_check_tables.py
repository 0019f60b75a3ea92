"""The tables that `check --explain` lists are those that rounds of the pipeline write; without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakestreams import StreamsBuilder, Text, invariants
from lakestreams.cli import check
from lakestreams.config.compile import Pipeline, load_pipeline
from lakestreams.costs import commits
from lakestreams.engine.runtime.lake import Lake
from lakestreams.run.runner import Job

CONF = Path(__file__).parents[2] / "conf"
READY = [file for file in sorted(CONF.glob("*.yml")) if "\npipeline:" in file.read_text(encoding="utf-8")]


def listed(pipeline: Pipeline) -> set[str]:
    job = Job((pipeline,), (), Lake("lake").naming(pipeline.topology), None)
    return {one["name"] for one in check.tables(check.Report(pipeline), job)}


def written(pipeline: Pipeline, *, orphaned: bool = False) -> set[str]:
    """By everything that a round may do; `tests/costs` compares these with the logs of real ones."""
    everything = commits.Round(starts=True, stored=1.0, refused=True, orphaned=orphaned)
    return set(commits.of_round(pipeline.topology, Lake("lake").naming(pipeline.topology), everything))


@pytest.mark.parametrize("file", READY, ids=lambda file: file.stem)
def test_they_are_those_that_rounds_write(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "broker:9092")
    pipeline = load_pipeline(file)
    assert listed(pipeline) == written(pipeline)


def test_orphans_are_listed_where_they_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "broker:9092")
    builder = StreamsBuilder("p")
    orders = builder.table("orders", key=Text("id"), value=Text("customer"))
    customers = builder.table("customers", key=Text("customer"), value=Text("name"))
    joined = orders.left_join(customers, left_on="customer")
    joined.holds(invariants.ForeignKeyExists()).to_delta("silver.x")
    pipeline = replace(load_pipeline(CONF / "fk_join.yml"), topology=builder.build())
    assert listed(pipeline) == written(pipeline, orphaned=True) >= {"_lakestreams.orphans"}
