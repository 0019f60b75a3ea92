"""`lakestreams init`: a bundle of one's own."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from lakestreams.cli.screen import Screen
from lakestreams.deploy.template import JOBS, Project, init
from lakestreams.run import failure


def run(screen: Screen, folder: Path, jobs: tuple[str, ...], wheel: Path | None, *, dbx: bool = False) -> int:
    """Writes the project and says how it goes on; returns the exit code."""
    project = Project(folder.resolve().name, jobs=jobs or JOBS, dbx=dbx)
    files = init(folder, project, wheel)
    for file in files:
        screen.say(f"  {file.relative_to(folder).as_posix()}")
    screen.say(Text.assemble(("written", "bold green"), f"  {len(files)} files in {folder}"))
    if wheel is None:
        screen.say(f"  the jobs run wheels/{project.wheel_name}; put it there")
    steps = [f"cd {folder}", "lakestreams test", "lakestreams check --target dev", "databricks bundle deploy -t dev"]
    for step in steps:
        screen.say(f"  {step}")
    screen.result({"ok": True, "folder": str(folder), "files": [file.relative_to(folder).as_posix() for file in files]})
    return failure.OK
