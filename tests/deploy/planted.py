"""Mistakes to plant into a copy of the bundle: (file, text, what stands there instead, the fault that is told)."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from lakestreams.deploy.template import OWN

ROOT = Path(__file__).parents[2]
JOB, STREAM, MAIN, STORE = (
    "resources/enrichment.job.yml",
    "resources/correlation.job.yml",
    "databricks.yml",
    "resources/storage.yml",
)
MAINTENANCE, FK = "resources/maintenance.job.yml", "resources/fk_join.job.yml"
PIPELINES = "pipeline: " + ",".join(
    f"${{workspace.file_path}}/conf/{name}.yml" for name in ("enrichment", "correlation", "fk_join")
)
BOARD, BOARD_FILE = "resources/quality.dashboard.yml", "dashboards/quality.lvdash.json"


@dataclass(frozen=True)
class Mistake:
    """`posted`: whether a workspace refuses the job too, so that the fake must."""

    file: str
    text: str
    instead: str
    told: str
    posted: bool = True


# `databricks bundle validate --strict` lets each of these through, and of the others all but REFUSED.
MISSED = {
    "dangling environment_key": Mistake(
        JOB, "          environment_key: default", "          environment_key: defualt", "environment_key defualt is not declared"
    ),
    "dangling depends_on": Mistake(
        JOB, "          max_retries", "          depends_on: [{task_key: ingest}]\n          max_retries", "depends on ingest, which is no task"
    ),
    "wrong entry point": Mistake(JOB, "entry_point: enrichment", "entry_point: enrich", "the wheel has no entry point enrich"),
    "wrong package_name": Mistake(JOB, "package_name: lakestreams", "package_name: lakestream", "no wheel of the bundle is the package lakestream"),
    "bad cron": Mistake(MAIN, "default: 0 0/15 * * * ?", "default: 0/15 * * * *", "'0/15 * * * *' is no Quartz expression"),
    "schedule and continuous": Mistake(JOB, "      tasks:", "      continuous: {}\n      tasks:", "it is started by schedule and continuous"),
    "number in named_parameters": Mistake(
        JOB, "              catalog:", "              max-bad-share: 1\n              catalog:", "parameter max-bad-share is 1 and no text"
    ),
    "task_key twice": Mistake(
        JOB, "      environments:\n", "        - task_key: enrich\n          notebook_task:\n            notebook_path: ../notebooks/explore_enrichment.py\n"
        "          environment_key: default\n      environments:\n", "task_key enrich appears twice"
    ),
    "include that matches nothing": Mistake(MAIN, "  - resources/*.yml", "  - resources/*.yml\n  - jobs/*.yml", "include: jobs/*.yml matches no file", posted=False),
    "missing resource": Mistake(JOB, "resources.schemas.control.name", "resources.schemas.ops.name", "reference to nothing: resources.schemas.ops.name"),
}  # fmt: skip
OTHERS = {
    "unknown variable": Mistake(JOB, "${var.kafka_bootstrap}", "${var.kafka}", "reference to nothing: var.kafka"),
    "cyclic variable": Mistake(MAIN, "default: checkpoints", "default: ${var.checkpoint_volume}", "reference to nothing: var.checkpoint_volume"),
    "variable of a target": Mistake(MAIN, "catalog: prod", "catalogue: prod", "reference to nothing: targets.prod.variables.catalogue", posted=False),
    "no root path": Mistake(MAIN, "      root_path:", "      file_path:", "mode production without workspace.root_path", posted=False),
    "shared root path": Mistake(MAIN, "root_path: /Workspace/Users/${var.runner}", "root_path: /Workspace/Shared", "the root_path is shared with everybody", posted=False),
    "exclude that matches nothing": Mistake(MAIN, "    - tests/**", "    - tests/**\n    - scratch/**", "sync.exclude: scratch/** matches no file", posted=False),
    "job cluster": Mistake(STREAM, "          job_cluster_key: stream\n", "          job_cluster_key: streams\n", "job_cluster_key streams is not declared"),
    "no compute": Mistake(JOB, "          environment_key: default\n", "", "task enrich: no compute"),
    "two computes": Mistake(JOB, "          environment_key: default\n", "          environment_key: default\n          existing_cluster_id: 1-2-3\n", "task enrich: environment_key and existing_cluster_id"),
    "notebook": Mistake(JOB, "      environments:", "        - {task_key: look, environment_key: default, notebook_task: {notebook_path: ../notebooks/look.py}}\n      environments:", "there is no notebook ../notebooks/look.py"),
    "file as notebook": Mistake(JOB, "      environments:", "        - {task_key: look, environment_key: default, notebook_task: {notebook_path: ../src/lakestreams/errors.py}}\n      environments:", "is a file and no notebook"),
    "circle": Mistake(
        JOB, "          max_retries", "          depends_on: [{task_key: enrich}]\n          max_retries", "task enrich depends on itself"
    ),
    "order in a continuous job": Mistake(
        STREAM, "          python_wheel_task", "          depends_on: [{task_key: correlate}]\n          python_wheel_task", "tasks of a continuous job may not wait"
    ),
    "parameter": Mistake(JOB, "checkpoint-root:", "checkpoints-root:", "--checkpoints-root is no parameter of enrichment", posted=False),
    "value": Mistake(JOB, "              catalog:", "              max-bad-share: five\n              catalog:", "cannot read its parameters: argument --max-bad-share", posted=False),
    "address of cloud storage": Mistake(JOB, "checkpoint-root: /Volumes/", "checkpoint-root: abfss://a@b/", "argument --checkpoint-root: the folder 'abfss://a@b/", posted=False),
    "file of a parameter": Mistake(JOB, "conf/enrichment.yml\n              sources", "conf/enrich.yml\n              sources", "it reads conf/enrich.yml, which the bundle does not have", posted=False),
    "empty catalog": Mistake(JOB, "catalog: ${var.catalog}", 'catalog: ""', "--checkpoint-root is given without a catalog", posted=False),
    "no catalog": Mistake(MAINTENANCE, "              catalog: ${var.catalog}\n", "", "--checkpoint-root is given without a catalog", posted=False),
    "empty pipeline": Mistake(MAINTENANCE, PIPELINES, 'pipeline: ""', "the following arguments are required: --pipeline", posted=False),
    "pipelines that are none": Mistake(MAINTENANCE, PIPELINES, 'pipeline: ","', "the following arguments are required: --pipeline", posted=False),
    "interval that is no time": Mistake(STREAM, "interval: ${var.correlation_interval}", "interval: often", "--interval 'often' is not a duration", posted=False),
    "time that is none": Mistake(JOB, "              catalog:", "              idle-timeout: 5 M\n              catalog:", "--idle-timeout '5 M' may mean months or minutes", posted=False),
    "retention that is too short": Mistake(MAINTENANCE, "              catalog:", "              retention: 30 s\n              catalog:", "--retention '30 s' is shorter than an hour", posted=False),
    "runs at a time": Mistake(JOB, "max_concurrent_runs: 1 ", "max_concurrent_runs: 2 ", "max_concurrent_runs is 2: a second run of a pipeline would end the first", posted=False),
    "two jobs of one pipeline": Mistake(FK, "conf/fk_join.yml\n              sources", "conf/enrichment.yml\n              sources", "files/conf/enrichment.yml, as task enrich of the job enrichment does", posted=False),
    "wheel's place": Mistake(JOB, "- ../dist/*.whl", "- dist/*.whl", "there is no wheel dist/*.whl", posted=False),
    "key of a job": Mistake(JOB, "timeout_seconds", "timeout_second", "unknown key timeout_second"),
    "key of a task": Mistake(JOB, "retry_on_timeout", "retry_on_time_out", "unknown key retry_on_time_out"),
    "text for a number": Mistake(JOB, "max_retries: 2 ", "max_retries: two ", "task enrich: max_retries is 'two'"),
    "text for a number, of a cluster": Mistake(MAIN, "default: 2\n", "default: a few\n", "job_cluster stream: new_cluster: num_workers is 'a few'"),
    "text for true or false": Mistake(JOB, "retry_on_timeout: false", "retry_on_timeout: never", "task enrich: retry_on_timeout is 'never'"),
    "word that is none of the API's": Mistake(STREAM, "task_retry_mode: ON_FAILURE", "task_retry_mode: ALWAYS", "continuous: task_retry_mode is 'ALWAYS'"),
    "key inside of a part": Mistake(JOB, "        on_failure:", "        on_failures:", "email_notifications: unknown key on_failures"),
    "list for a mapping": Mistake(JOB, "      queue:\n        enabled: false", "      queue:\n        - enabled: false", "queue is a list"),
    "mapping for a list": Mistake(JOB, "        on_failure:\n          - ${var.alerts_to}", "        on_failure: ${var.alerts_to}", "email_notifications: on_failure is 'oncall@example.com'"),
    "mode": Mistake(MAIN, "    mode: production", "    mode: prod", "the mode is 'prod'", posted=False),
    "timezone": Mistake(JOB, "timezone_id: UTC", "timezone_id: CEST", "timezone_id is 'CEST'", posted=False),
    "pause that is written out": Mistake(JOB, "        timezone_id", "        pause_status: UNPAUSED\n        timezone_id", "schedule says pause_status UNPAUSED", posted=False),
    "interval on serverless": Mistake(JOB, "              catalog:", "              interval: 30s\n              catalog:", "an interval on serverless compute", posted=False),
    "continuous and once": Mistake(STREAM, "              interval: ${var.correlation_interval}\n", "", "a continuous job whose task ends at once", posted=False),
    "environment version": Mistake(JOB, 'environment_version: "4"', "environment_version: 4", "environment_version 4"),
    "libraries on serverless": Mistake(JOB, "          python_wheel_task", "          libraries: [{whl: ../dist/*.whl}]\n          python_wheel_task", "libraries on serverless compute"),
    "default of a parameter": Mistake(JOB, "      tasks:", "      parameters: [{name: n, default: 1}]\n      tasks:", "parameter n has no text as default"),
    "file of a dashboard": Mistake(BOARD, "quality.lvdash.json", "qualities.lvdash.json", "there is no dashboard ../dashboards/qualities.lvdash.json", posted=False),
    "dashboard without a file": Mistake(BOARD, "      file_path: ../dashboards/quality.lvdash.json\n", "", "no file_path", posted=False),
    "dashboard without a warehouse": Mistake(BOARD, "      warehouse_id: ${var.warehouse_id}\n", "", "no warehouse_id", posted=False),
    "warehouse that is a number": Mistake(MAIN, 'default: "0000000000000000"', "default: 4711", "the warehouse_id is 4711 and no text", posted=False),
    "key of a dashboard": Mistake(BOARD, "embed_credentials", "embed_credential", "unknown key embed_credential", posted=False),
    "credentials for everybody": Mistake(BOARD, "embed_credentials: false", "embed_credentials: true", "embed_credentials would show everybody", posted=False),
    "dashboard that is no JSON": Mistake(BOARD_FILE, '{\n  "datasets"', "{\n  datasets", "quality.lvdash.json: it is no JSON", posted=False),
    "column that the event log does not have": Mistake(BOARD_FILE, "MAX(cycle) AS cycle", "MAX(cycles) AS cycle", "dataset last_cycles: Column 'cycles' could not be resolved", posted=False),
    "query that is none": Mistake(BOARD_FILE, "SELECT pipeline, origin:flow_name AS node, reason,", "SELECT pipeline origin:flow_name reason,", "dataset quarantine: it is no query", posted=False),
    "column that its dataset does not have": Mistake(BOARD_FILE, '"expression": "`lag_records`"', '"expression": "`lag`"', "widget lag: the dataset lag has no column lag", posted=False),
    "field that its query does not give": Mistake(BOARD_FILE, '"fieldName": "lag_records"', '"fieldName": "lag"', "widget lag: it shows lag, which none of its queries gives", posted=False),
    "unknown dataset": Mistake(BOARD_FILE, '"datasetName": "stages"', '"datasetName": "steps"', "widget seconds-by-stage: there is no dataset steps", posted=False),
    "unknown query of a filter": Mistake(BOARD_FILE, '"queryName": "filter-pipeline_lag"', '"queryName": "filter_lag"', "widget filter-pipeline: there is no query filter_lag", posted=False),
    "parameter that is not declared": Mistake(BOARD_FILE, ":period.max", ":range.max", "dataset cycles: the parameter range is not declared", posted=False),
    "version of a widget": Mistake(BOARD_FILE, '"widgetType": "line"', '"widgetType": "table"', "widget lag: a table of version 3, which Databricks does not draw: use 2", posted=False),
    "widgets upon each other": Mistake(BOARD_FILE, '{"x": 6, "y": 4, "width": 6, "height": 6}', '{"x": 5, "y": 4, "width": 6, "height": 6}', "widgets records-per-cycle and lag overlap", posted=False),
    "widget beside the page": Mistake(BOARD_FILE, '{"x": 6, "y": 4, "width": 6, "height": 6}', '{"x": 6, "y": 4, "width": 7, "height": 6}', "widget lag: it is outside the 12 columns", posted=False),
    "widget that stands twice": Mistake(BOARD_FILE, '"name": "quality-title"', '"name": "overview-title"', "the widget overview-title appears twice", posted=False),
}  # fmt: skip

# What `databricks bundle validate --strict` of CLI 1.13 says of those that it does find, for prod.
REFUSED = {
    "unknown variable": "reference does not exist: ${var.kafka}",
    "cyclic variable": "cycle detected in field resolution",
    "variable of a target": "variable catalogue is not defined but is assigned a value",
    "shared root path": "is writable by all workspace users",
    "exclude that matches nothing": "Pattern scratch/** does not match any files",
    "job cluster": "job_cluster_key streams is not defined",
    "no compute": "Missing required cluster or environment settings",
    "notebook": "notebook notebooks/look.py not found",
    "file as notebook": "but got a file",
    "key of a job": "unknown field: timeout_second",
    "key of a task": "unknown field: retry_on_time_out",
    "text for a number": 'cannot parse "two" as an integer',
    "text for a number, of a cluster": 'cannot parse "a few" as an integer',
    "text for true or false": "expected bool, found string",
    "word that is none of the API's": 'invalid value "ALWAYS" for enum field',
    "key inside of a part": "unknown field: on_failures",
    "list for a mapping": "expected map, found sequence",
    "mapping for a list": "expected sequence, found string",
    "mode": "unsupported value 'prod' specified for 'mode'",
    "file of a dashboard": "failed to read serialized dashboard",
    "dashboard without a warehouse": "dashboard warehouse_id is required",
    "key of a dashboard": "unknown field: embed_credential",
    "credentials for everybody": "do not support a setting a run_as user that is different from the owner",
}


def plant(mistake: Mistake, folder: Path) -> Path:
    """A copy of what the bundle consists of, with the mistake in it."""
    for name in ("conf", "dashboards", "resources", "notebooks"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("databricks.yml", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    for name in (*OWN.exclude, "src/lakestreams"):
        (folder / name).mkdir(parents=True)
        (folder / name / "errors.py").write_text("", encoding="utf-8")
    file = folder / mistake.file
    text = file.read_text(encoding="utf-8")
    assert mistake.text in text, f"{mistake.text!r} does not stand in {mistake.file}"
    file.write_text(text.replace(mistake.text, mistake.instead), encoding="utf-8")
    return folder
