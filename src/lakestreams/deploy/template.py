"""The template of a bundle, and what `lakestreams init` makes of it.

This repository's own databricks.yml, resources/, dashboards/ and conf/deployment.yml are the same template rendered with `OWN`; a
test compares them, and `scripts/bundle_files.py` rewrites them. `scripts/bundle_template.py` makes the template of
`databricks bundle init` of the same files, in `bundle-template/`. A template file is plain text with two marks:
`@{name}` is a value, which on a line of its own may have several lines; the lines from `@{if name}` to `@{end}` are kept
if the name is one of the project's jobs, `built`, `dbx` or `clusters`. `${...}` is the bundle's own and stays.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import lakestreams
from lakestreams.config.schema import SCHEMAS, schema_text
from lakestreams.deploy import dbx
from lakestreams.errors import InvalidName, InvalidOption, ProjectExists

JOBS: Final = ("enrichment", "correlation", "fk_join")
"""The jobs that a project may have besides `maintenance` and `verify`; each has a ready pipeline of its name."""

_PACKAGE: Final = Path(lakestreams.__file__).parent
_TEMPLATE: Final = Path(__file__).with_name("template")
NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,60}")
NAME_HINT: Final = "letters, digits, - and _, beginning with a letter"
HOST: Final = re.compile(r"https?://[A-Za-z0-9.:-]+")
HOST_HINT: Final = "such as https://adb-1.azuredatabricks.net, without a path"
FIRST_STEPS: Final = ("lakestreams test", "lakestreams check --target dev", "databricks bundle deploy -t dev")
"""What comes after a new project, in its folder."""
_PAGES: Final = {"README.md": "README.md", ".gitignore": "gitignore"}
_PIPELINES: Final = ("conf", "tests/cases")
_DASHBOARD: Final = "dashboards/quality.lvdash.json"
_CLUSTERS: Final = {"aws": "i3.xlarge", "azure": "Standard_D4ds_v5", "gcp": "n2-highmem-4"}
CLOUDS: Final = tuple(_CLUSTERS)
MARK: Final = re.compile(r"@\{(\w+)\}")


@dataclass(frozen=True)
class Project:
    """What a bundle is rendered for.

    Attributes:
        name: of the bundle; letters, digits, - and _.
        title: the same in a sentence.
        jobs: which of `JOBS` it has.
        build: the command that builds the wheel, if the bundle's own folder is what it is built from.
        exclude: folders that no job reads.
        dbx: whether it has the same jobs for dbx, too.
        cloud: of the workspace, one of `CLOUDS`; it decides the machine of job clusters.
        host: the workspace's address; empty leaves a line to fill in.
        uuid: of the bundle; by default one that the name decides.
    """

    name: str
    title: str = ""
    jobs: tuple[str, ...] = JOBS
    build: str | None = None
    exclude: tuple[str, ...] = ("tests",)
    dbx: bool = False
    cloud: str = "aws"
    host: str = ""
    uuid: str = ""

    def __post_init__(self) -> None:
        """Refuses a name that folders, scopes or bundles cannot carry, and jobs that there are none of.

        Raises:
            InvalidName, InvalidOption
        """
        if not NAME.fullmatch(self.name):
            msg = f"the bundle's name {self.name!r}"
            raise InvalidName(msg, hint=NAME_HINT)
        unknown = [job for job in self.jobs if job not in JOBS]
        if unknown or not self.jobs:
            msg = f"there is no job {', '.join(unknown)}" if unknown else "a bundle without jobs"
            raise InvalidOption(msg, hint=f"one or more of {', '.join(JOBS)}")
        if self.cloud not in CLOUDS:
            msg = f"there is no cloud {self.cloud}"
            raise InvalidOption(msg, hint=f"one of {', '.join(CLOUDS)}")
        if self.host and not HOST.fullmatch(self.host.removesuffix("/")):
            msg = f"the workspace's address {self.host!r}"
            raise InvalidOption(msg, hint=HOST_HINT)

    @property
    def wheel_name(self) -> str:
        """The file name of this version's wheel."""
        return f"lakestreams-{lakestreams.__version__}-py3-none-any.whl"

    @property
    def wheel(self) -> str:
        """The wheel as files in resources/ and notebooks/ refer to it: the one of its folder, whatever its version."""
        return "../dist/*.whl" if self.build else "../wheels/*.whl"


OWN: Final = Project(
    "lakestreams",
    title="lakestreams' jobs",
    build="uv build --wheel || python3 -m build --wheel",
    exclude=("tests", "bench", "docs", "requirements", "bundle-template"),
    dbx=True,
    uuid="6f0c1f5e-3c0b-4f0a-9d53-2a7a3b1c9e44",
)
"""This repository's own bundle."""


def render(project: Project) -> dict[str, str]:
    """The bundle's own files, path to text: databricks.yml, resources/, dashboards/; for dbx conf/deployment.yml."""
    return {name: text for name, text in _filled(project).items() if name not in _PAGES}


def whole(project: Project) -> dict[str, str]:
    """Every text file of a user's own project: the bundle's, pipelines, topics, cases, notebooks and a README."""
    fixed = unmarked(project)
    pipelines = "\n".join(fixed[f"conf/{job}.yml"] for job in project.jobs)
    return _filled(project) | fixed | {"conf/sources.yml": only_used(shipped("conf/sources.yml"), pipelines)}


def marked(project: Project) -> dict[str, str]:
    """The files of a project that have marks, path to text, before a mark is replaced."""
    names = ["databricks.yml", *(f"resources/{file}" for file in _resource_files(project)), _DASHBOARD]
    files = {name: name for name in names} | _PAGES
    return {name: (_TEMPLATE / file).read_text(encoding="utf-8") for name, file in files.items()}


def unmarked(project: Project) -> dict[str, str]:
    """The files of a user's project that are copied, path to text: pipelines, cases, JSON Schemas, notebooks."""
    made = {f"{folder}/{job}.yml": shipped(f"{folder}/{job}.yml") for job in project.jobs for folder in _PIPELINES}
    made |= {f"conf/schema/{name}.json": schema_text(name) for name in SCHEMAS}
    for name in ("tutorial_joins", *(f"explore_{job}" for job in project.jobs)):
        text = shipped(f"notebooks/{name}.py")
        made[f"notebooks/{name}.py"] = text.replace(OWN.wheel, project.wheel)
    return made


def _filled(project: Project) -> dict[str, str]:
    values, kept = values_of(project), kept_in(project)
    texts = {name: rendered(text, values, kept) for name, text in marked(project).items()}
    if not project.dbx:
        return texts
    with tempfile.TemporaryDirectory() as folder:  # the jobs for dbx are those of the bundle, so it is read
        extra = [f"{part}/.keep" for part in project.exclude]
        extra += [] if project.build else [f"wheels/{project.wheel_name}"]
        _write(Path(folder), texts | dict.fromkeys(extra, ""))
        texts["conf/deployment.yml"] = dbx.deployment_text(Path(folder), project.build)
    return texts


def job_text(pipeline: str) -> str:
    """The text of a job that runs one pipeline of a user's project: resources/<pipeline>.job.yml."""
    text = (_TEMPLATE / "resources" / "pipeline.job.yml").read_text(encoding="utf-8")
    return rendered(text, values_of(Project("any")) | {"pipeline": pipeline}, frozenset())


def init(folder: Path, project: Project, wheel: Path | None = None) -> list[Path]:
    """Writes a project, and its wheel if there is one; returns the paths of the files.

    Args:
        folder: made if need be.
        project: what to write.
        wheel: the wheel that the jobs are to run; None leaves the place empty, and a check says so.

    Raises:
        ProjectExists: if the folder has files already.
        InvalidOption: if the wheel is another version's, or none.
    """
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        msg = f"the folder {folder} has files already" if folder.is_dir() else f"{folder} is a file"
        raise ProjectExists(msg)
    if wheel is not None and (wheel.name != project.wheel_name or not wheel.is_file()):
        msg = f"the wheel {wheel} is not the file {project.wheel_name}"
        raise InvalidOption(msg, hint="the wheel of the version that writes the project: python3 -m build --wheel")
    texts = whole(project)
    _write(folder, texts)
    written = [folder / name for name in texts]
    (folder / "wheels").mkdir()
    if wheel is not None:
        written.append(Path(shutil.copy2(wheel, folder / "wheels")))
    return sorted(written)


def shipped(name: str) -> str:
    """A file of this repository that travels with the wheel."""
    places = (_PACKAGE / name, _PACKAGE.parents[1] / name)
    return next(place for place in places if place.is_file()).read_text(encoding="utf-8")


# --- rendering -------------------------------------------------------------------------------------------------------


def rendered(text: str, values: Mapping[str, str], kept: frozenset[str]) -> str:
    """A template's text with its marks replaced.

    Raises:
        KeyError: for a mark that has no value.
    """
    lines, keep = [], True
    for line in text.splitlines():
        condition = re.fullmatch(r"@\{if (\w+)\}", line)
        if condition:
            keep = condition[1] in kept
        elif line == "@{end}":
            keep = True
        elif keep:
            lines.append(MARK.sub(lambda mark: values[mark[1]], line))
    return "\n".join(lines) + "\n"


def kept_in(project: Project) -> frozenset[str]:
    """The names whose `@{if name}` holds."""
    others = {
        "built": project.build,
        "dbx": project.dbx,
        "clusters": project.dbx or "correlation" in project.jobs,
    }
    return frozenset({*project.jobs, *(name for name, kept in others.items() if kept)})


def _resource_files(project: Project) -> Iterator[str]:
    yield from (f"{job}.job.yml" for job in (*project.jobs, "maintenance", "verify"))
    yield from ("quality.dashboard.yml", "storage.yml")


def values_of(project: Project) -> dict[str, str]:
    """What stands for each `@{name}`."""
    pipelines = ",".join(f"${{workspace.file_path}}/conf/{job}.yml" for job in project.jobs)
    return {
        "name": project.name,
        "title": project.title or project.name,
        "build": project.build or "",
        "exclude": "\n".join(f"    - {folder}/**" for folder in project.exclude),
        "wheel": project.wheel,
        "wheel_name": project.wheel_name,
        "pipelines": pipelines,
        "uuid": project.uuid or str(uuid.uuid5(uuid.NAMESPACE_DNS, project.name)),
        "host": _host(project),
        "host_of_dev": _host(project, "    workspace:\n"),
        "node_type": _CLUSTERS[project.cloud],
        "storing": _STORING,
        "reading": _READING,
        "grants": _GRANTS,
        "alerts": _ALERTS,
        # a run a quarter of an hour: an hour without progress means that three have brought none
        "health_scheduled": _HEALTH.format(seconds=3600) + _DURATION + _ALERTS + _BACKLOG + _LONG,
        "health_continuous": _HEALTH.format(seconds=600) + _ALERTS + _BACKLOG,
        "serverless": _SERVERLESS.format(wheel=project.wheel),
    }


def _host(project: Project, before: str = "") -> str:
    """The workspace of a target; as a comment where it is not known, with what else would be empty without it."""
    if project.host:
        return f"{before}      host: {project.host.rstrip('/')}"
    known = f"{before}      host: https://<workspace> # put yours here; else the deployer's profile decides"
    return "\n".join(f"{line[:4]}# {line[4:]}" for line in known.splitlines())


_SCHEMAS: Final = ",".join(f"{room}=${{resources.schemas.{room}.name}}" for room in ("bronze", "silver", "control"))
_STORING: Final = f"""\
              sources: ${{workspace.file_path}}/conf/sources.yml
              catalog: ${{var.catalog}}
              schemas: {_SCHEMAS}
              checkpoint-root: /Volumes/${{var.catalog}}/${{resources.schemas.control.name}}/${{var.checkpoint_volume}}"""
_READING: Final = f"""\
{_STORING}
              bootstrap-servers: ${{var.kafka_bootstrap}}
              secret-scope: ${{resources.secret_scopes.kafka.name}}"""
_GRANTS: Final = """\
      grants:
        - principal: ${var.runner}
          privileges: [USE_SCHEMA, CREATE_TABLE, SELECT, MODIFY]"""
_HEALTH: Final = """\
      health: # of all streams of the job the one that is worst
        rules:
          - metric: STREAMING_BACKLOG_RECORDS
            op: GREATER_THAN
            value: 1000000
          - metric: STREAMING_BACKLOG_SECONDS
            op: GREATER_THAN
            value: {seconds}
"""
_DURATION: Final = """\
          - metric: RUN_DURATION_SECONDS
            op: GREATER_THAN
            value: 1800
"""
_ALERTS: Final = """\
      notification_settings:
        no_alert_for_canceled_runs: true
      email_notifications:
        on_failure:
          - ${var.alerts_to}"""
_BACKLOG: Final = """
        on_streaming_backlog_exceeded:
          - ${var.alerts_to}"""
_LONG: Final = """
        on_duration_warning_threshold_exceeded:
          - ${var.alerts_to}"""
_SERVERLESS: Final = """\
      environments:
        - environment_key: default
          spec:
            environment_version: "4" # Python 3.12, Spark 4
            dependencies:
              - {wheel}"""


# --- a user's own files ----------------------------------------------------------------------------------------------


def only_used(sources: str, pipelines: str) -> str:
    """The text of a sources' file with the topics that the pipelines name, and their comments."""
    head, topics = split_topics(sources)
    said = re.sub(r"(?m)^#.*$", "", pipelines)  # a comment names things, too
    used = [text for name, text in topics.items() if re.search(rf"\b{name}\b", said)]
    return head + "".join(used)


def split_topics(sources: str) -> tuple[str, dict[str, str]]:
    """A sources' file: the text before its topics, and the text of each with its comments."""
    head, mark, body = sources.partition("\ntopics:\n")
    blocks = re.finditer(r"(?m)^(?:(?:  #.*)?\n)*  (\w+):\n(?:    .*\n)+", body)
    return head + mark, {block[1]: block[0].strip("\n") + "\n" for block in blocks}


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
