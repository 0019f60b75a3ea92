"""`lakestreams init`: a new bundle, and a further pipeline of a project."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from uuid import uuid4

import typer
from rich.text import Text

from lakestreams.cli.options import NewBundle
from lakestreams.cli.screen import Screen
from lakestreams.deploy.pipelines import add
from lakestreams.deploy.template import FIRST_STEPS, JOBS, Project, init
from lakestreams.run import failure


def is_pipeline(folder: str, pipeline: str | None, wanted: NewBundle, *, python: bool) -> bool:
    """Whether the arguments ask for a further pipeline, not for a bundle.

    Raises:
        typer.BadParameter: if they ask for neither.
    """
    if folder == "pipeline":
        if pipeline is None:
            msg = "init pipeline needs a name; a bundle of that name is made by: init ./pipeline"
            raise typer.BadParameter(msg)
        if wanted != NewBundle():
            msg = "init pipeline takes --python alone; --job, --wheel, --host, --cloud and --dbx are for a new bundle"
            raise typer.BadParameter(msg)
        return True
    if pipeline is not None or python:
        msg = "a bundle has no further name, and no --python: is this init pipeline NAME?"
        raise typer.BadParameter(msg)
    return False


def run(screen: Screen, folder: Path, wanted: NewBundle) -> int:
    """Writes the project and says how it goes on; returns the exit code."""
    name, own, wheel = folder.resolve().name, str(uuid4()), wanted.wheel
    jobs = tuple(dict.fromkeys(wanted.job or JOBS))
    project = Project(name, jobs=jobs, dbx=wanted.for_dbx, host=wanted.host, cloud=wanted.cloud, uuid=own)
    files = init(folder, project, wheel)
    for file in files:
        screen.say(f"  {file.relative_to(folder).as_posix()}")
    screen.say(Text.assemble(("written", "bold green"), f"  {len(files)} files in {folder}"))
    if wheel is None:
        screen.say(f"  the jobs run wheels/{project.wheel_name}; put it there")
    for step in (f"cd {quote(str(folder))}", *FIRST_STEPS):
        screen.say(f"  {step}")
    screen.result({"ok": True, "folder": str(folder), "files": [file.relative_to(folder).as_posix() for file in files]})
    return failure.OK


def add_pipeline(screen: Screen, name: str, *, python: bool) -> int:
    """Writes a further pipeline of the project in this folder; returns the exit code."""
    files = [path.as_posix() for path in add(Path(), name, python=python)]
    for file in files:
        screen.say(f"  {file}")
    screen.say(Text.assemble(("written", "bold green"), f"  pipeline {name}"))
    if f"resources/{name}.job.yml" in files:
        screen.say("  a job runs it; for maintenance and verify, add this to `pipeline` of both jobs, after a comma:")
        screen.say(f"  ${{workspace.file_path}}/conf/{name}.yml")
        screen.say("  for prod's viewers, add this to databricks.yml, under targets.prod.resources.jobs:")
        screen.say(f"  {name}: *seen")
    for step in ("lakestreams watch", f"lakestreams test tests/cases/{name}.yml", f"lakestreams run conf/{name}.yml"):
        screen.say(f"  {step}")
    screen.result({"ok": True, "pipeline": name, "files": files})
    return failure.OK
