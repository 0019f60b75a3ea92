"""Names and types of a job's fields, judged by databricks-sdk's own dataclasses: what is wrong, and what is not."""

from __future__ import annotations

from typing import Any

import pytest
from databricks.sdk.service.jobs import JobSettings

from lakestreams.deploy import fields
from lakestreams.deploy.read import load
from lakestreams.deploy.template import JOBS, Project, init


@pytest.mark.parametrize(
    "job",
    [
        {"tasks": [{"task_key": "a", "max_retries": "2", "retry_on_timeout": "no"}]},  # as `--var retries=2` gives it
        {"tasks": [{"task_key": "a", "run_job_task": {"job_id": "<jobs.other>"}}]},  # known once it is deployed
        {"tasks": [{"task_key": "a", "for_each_task": {"inputs": "[1]", "task": {"task_key": "b"}}}]},
        {"job_clusters": [{"job_cluster_key": "c", "new_cluster": {"spark_conf": {"spark.sql.shuffle.partitions": 8}}}]},
        {"permissions": [{"level": "CAN_VIEW", "group_name": "users"}], "lifecycle": {"prevent_destroy": True}},
        {"description": None, "timeout_seconds": None, "max_concurrent_runs": "${var.nowhere}"},
        {"health": {"rules": [{"metric": "RUN_DURATION_SECONDS", "op": "GREATER_THAN", "value": 1}]}},
    ],
)  # fmt: skip
def test_what_the_cli_takes_is_no_mistake(job: dict[str, Any]) -> None:
    assert list(fields.mistakes(job)) == []


@pytest.mark.parametrize(
    ("job", "message", "hint"),
    [
        ({"timeout_seconds": "soon"}, "timeout_seconds is 'soon'", "a whole number, such as 2"),
        ({"timeout_seconds": 1.5}, "timeout_seconds is 1.5", "a whole number, such as 2"),
        ({"zzz": 2}, "unknown key zzz", "one of budget_policy_id"),
        ({"format": "MULTI_TASK"}, "unknown key format", "one of"),
        ({"continuous": {"task_retry_mode": "ALWAYS"}}, "continuous: task_retry_mode is 'ALWAYS'", "one of NEVER, ON_FAILURE"),
        ({"email_notifications": {"on_failures": []}}, "email_notifications: unknown key on_failures", "did you mean on_failure?"),
        ({"tasks": {"a": {}}}, "tasks is a mapping", "a list, as the Jobs API has it"),
        ({"tasks": ["a"]}, "tasks[0] is 'a'", "a mapping, as the Jobs API has it"),
        ({"tags": {"team": ["a"]}}, "tags.team is a list", "a single value, as the Jobs API has it"),
        ({"tasks": [{"task_key": "a", "libraries": [{"wheel": "x"}]}]}, "task a: libraries[0]: unknown key wheel", "did you mean whl?"),
        ({"tasks": [{"task_key": "a", "for_each_task": {"task": {"task_key": "b", "max_retries": "x"}}}]},
         "task a: for_each_task: task: max_retries is 'x'", "a whole number"),
        ({"environments": [{"environment_key": "e", "spec": {"dependency": []}}]}, "environment e: spec: unknown key dependency", "did you mean dependencies?"),
        ("job", "is 'job'", "a mapping"),
    ],
)  # fmt: skip
def test_what_it_does_not_take_is_told_with_its_place(job: Any, message: str, hint: str) -> None:
    (wrong,) = fields.mistakes(job)
    assert wrong.message == message
    assert wrong.hint.startswith(hint)


def test_the_sdk_names_its_fields_as_the_api_does() -> None:
    """The walk takes the names of the dataclasses for those of the API: none has another one for Python's sake."""
    seen: set[type] = set()
    waiting: list[Any] = [JobSettings]
    while waiting:
        kind = waiting.pop()
        parts = [*getattr(kind, "__args__", ())]
        if hasattr(kind, "__dataclass_fields__") and kind not in seen:
            seen.add(kind)
            hints = fields._hints(kind)
            assert not [name for name in hints if name.endswith("_")], kind
            parts += hints.values()
        waiting += parts
    assert len(seen) > 50


def test_every_job_of_a_project_is_without_mistakes_and_without_the_sdk_nothing_is_said(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    init(tmp_path / "mine", Project("mine", jobs=JOBS))
    for job in load(tmp_path / "mine", "prod").jobs.values():
        assert list(fields.mistakes(job)) == []
    monkeypatch.setattr(fields, "known", lambda: False)
    assert list(fields.mistakes({"timeout_seconds": "soon"})) == []
