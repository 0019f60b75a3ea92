"""Mistakes planted into the bundle: ours are found by the check; the fake workspace refuses those that a real one does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.core import Config
from databricks.sdk.errors import InvalidParameterValue
from tests.deploy.deploying import create
from tests.deploy.fake_workspace import Workspace, serving
from tests.deploy.planted import MISSED, OTHERS, ROOT, Mistake, plant
from tests.sampling import sampled

from lakestreams.deploy import files
from lakestreams.deploy.bodies import job_bodies
from lakestreams.deploy.read import load
from lakestreams.deploy.rules import faults

if TYPE_CHECKING:
    from lakestreams.deploy.read import Bundle

PLANTED = MISSED | OTHERS


def test_the_bundle_without_a_mistake_has_no_fault(tmp_path: Path) -> None:
    assert faults(load(plant(Mistake("databricks.yml", "", "", ""), tmp_path), "prod")) == []


@pytest.mark.parametrize("name", sampled(PLANTED, 20))
def test_a_planted_mistake_is_found(name: str, tmp_path: Path) -> None:
    mistake = PLANTED[name]
    found = faults(load(plant(mistake, tmp_path), "prod"))
    told = [fault for fault in found if mistake.told in fault.message]
    assert told, [fault.message for fault in found]
    assert all(fault.hint and fault.where for fault in told)


def test_two_tasks_of_one_pipeline_may_follow_each_other_or_be_started_by_hand(tmp_path: Path) -> None:
    again = (
        "        - task_key: again\n          environment_key: default\n          depends_on: [{task_key: enrich}]\n"
        "          python_wheel_task:\n            package_name: lakestreams\n            entry_point: enrichment\n"
        "            parameters: ['--pipeline=${workspace.file_path}/conf/enrichment.yml', '--catalog=${var.catalog}',\n"
        "              '--schemas=bronze=${resources.schemas.bronze.name},silver=${resources.schemas.silver.name},control=${resources.schemas.control.name}']\n"
        "      environments:\n"
    )
    plant(Mistake("resources/enrichment.job.yml", "      environments:\n", again, ""), tmp_path)
    assert faults(load(tmp_path, "prod")) == []
    job = tmp_path / "resources/enrichment.job.yml"
    job.write_text(job.read_text("utf-8").replace("          depends_on: [{task_key: enrich}]\n", ""), "utf-8")
    (fault,) = faults(load(tmp_path, "prod"))
    assert "task again runs" in fault.message
    assert "as task enrich does: each would end the other" in fault.message


def test_a_paused_job_overlaps_with_none(tmp_path: Path) -> None:
    same = Mistake(
        "resources/fk_join.job.yml",
        "conf/fk_join.yml\n              sources",
        "conf/enrichment.yml\n              sources",
        "",
    )
    job = plant(same, tmp_path) / "resources/fk_join.job.yml"
    assert len(faults(load(tmp_path, "prod"))) == 1
    text = job.read_text("utf-8").replace("        timezone_id", "        pause_status: PAUSED\n        timezone_id")
    job.write_text(text, "utf-8")
    assert faults(load(tmp_path, "prod")) == []


def test_parameters_in_a_list_are_read_as_those_with_names(tmp_path: Path) -> None:
    path = "${workspace.file_path}/conf/"
    listed = (
        f"parameters: ['--pipeline', '{path}enrichment.yml', '--pipeline={path}correlation.yml', '--sources={path}sources.yml',"
        " '--catalog=${var.catalog}', '--bootstrap-servers', 'other:9092']\n            x_named:"
    )
    plant(Mistake("resources/enrichment.job.yml", "named_parameters:", listed, ""), tmp_path)
    bundle = load(tmp_path, "prod")
    used, unusable = files.pipelines(bundle)
    assert not unusable
    readings, _ = files.readings(bundle, used)
    mine = [one for one in readings if one.where.endswith("jobs.enrichment")]
    assert [one.pipeline.path.name for one in mine] == ["enrichment.yml", "correlation.yml"]
    assert {one.pipeline.kafka.bootstrap_servers for one in mine} == {"other:9092"}


def test_a_resource_in_two_files_is_found(tmp_path: Path) -> None:
    plant(Mistake("databricks.yml", "", "", ""), tmp_path)
    (tmp_path / "resources" / "more.yml").write_text(
        (tmp_path / "resources/verify.job.yml").read_text("utf-8"), "utf-8"
    )
    (fault,) = faults(load(tmp_path, "dev"))
    assert (fault.message, fault.where) == (
        "jobs.verify is declared in two files",
        "resources/verify.job.yml  jobs.verify",
    )


# --- what a workspace refuses ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """With what the jobs of prod name: the wheel (its metadata), the notebook, the service principal."""
    made = Workspace(tmp_path_factory.mktemp("workspace"))
    made.principals.add("00000000-0000-0000-0000-000000000000")
    return made


@pytest.fixture(scope="module")
def client(workspace: Workspace) -> Iterator[WorkspaceClient]:
    with serving(workspace) as host:
        yield WorkspaceClient(config=Config(host=host, token="token-of-the-fake", retry_timeout_seconds=1))


def post(workspace: Workspace, bundle: Bundle, wheel: Path, send: Callable[[dict[str, Any]], object]) -> None:
    paths = bundle.config["workspace"]
    place = workspace.disk / paths["artifact_path"].lstrip("/") / ".internal"
    place.mkdir(parents=True, exist_ok=True)
    (place / wheel.name).write_bytes(wheel.read_bytes())
    notebook = workspace.disk / paths["file_path"].lstrip("/") / "notebooks" / "explore_enrichment"
    notebook.parent.mkdir(parents=True, exist_ok=True)
    notebook.touch()
    for body in job_bodies(bundle).values():
        send(body)


@pytest.mark.parametrize("target", ["dev", "staging", "prod"])
def test_a_workspace_takes_all_jobs_as_they_are(
    target: str, client: WorkspaceClient, workspace: Workspace, shell_wheel: Path
) -> None:
    before = set(workspace.jobs)
    bundle = load(ROOT, target)
    post(workspace, bundle, shell_wheel, lambda body: create(client, body))
    sent = {
        workspace.jobs[one]["settings"]["name"]: workspace.jobs[one]["settings"]
        for one in workspace.jobs.keys() - before
    }
    assert sent == {body["name"]: body for body in job_bodies(bundle).values()}, "the SDK lost or added something"


@pytest.mark.parametrize("name", [name for name, mistake in PLANTED.items() if mistake.posted])
def test_a_workspace_refuses_it_too(
    name: str, client: WorkspaceClient, workspace: Workspace, shell_wheel: Path, tmp_path: Path
) -> None:
    """As it stands: the SDK's types would lose some of the mistakes on the way."""
    bundle = load(plant(PLANTED[name], tmp_path), "prod")
    with pytest.raises(InvalidParameterValue):
        post(
            workspace, bundle, shell_wheel, lambda body: client.api_client.do("POST", "/api/2.2/jobs/create", body=body)
        )
