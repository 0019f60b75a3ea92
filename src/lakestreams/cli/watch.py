"""`lakestreams watch`: files are checked, and their cases run, whenever one changes."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.text import Text

from lakestreams.cli.screen import Screen
from lakestreams.cli.test import run_cases
from lakestreams.config.load import read
from lakestreams.errors import ConfigUnreadable, LakestreamsError
from lakestreams.run import failure
from lakestreams.run.options import FileOptions
from lakestreams.run.runner import load
from lakestreams.testing.case_files import find

DEFAULTS: Final = (Path("conf"), Path("tests"))
_ENDINGS: Final = (".yml", ".yaml", ".py", ".sql", ".avsc", ".json", ".proto")
_POLL_S: Final = 0.5

Times = Mapping[Path, int]


def run(
    screen: Screen,
    places: Sequence[Path],
    name: str | None,
    wait: Callable[[float], None] = time.sleep,
    cases: Callable[[Screen, Sequence[Path], str | None], int] = run_cases,
) -> int:
    """Checks and runs once, and again after each change, until Ctrl-C; returns the exit code.

    Args:
        places: files and folders; by default those of `DEFAULTS` that are there.
        name: a part of the names of the cases that are to run.
        wait: waits so many seconds.
        cases: runs the cases in files.

    Raises:
        ConfigUnreadable: if there is nothing to watch.
    """
    watched = list(places) or [one for one in DEFAULTS if one.exists()]
    absent = [one for one in watched if not one.exists()]
    if absent or not watched:
        what = f"there is no file or folder {absent[0]}" if absent else "there is no folder conf or tests here"
        raise ConfigUnreadable(what, hint="name files and folders: lakestreams watch my/conf my/tests")
    seen: Times | None = None  # so that a place without a file is looked at once, too
    try:
        while True:
            now = _times(watched)
            if now != seen:
                changed = [path for path in now if seen and seen.get(path) != now[path]]
                _look(screen, changed, now, watched, name, cases)
                seen = now
            wait(_POLL_S)
    except KeyboardInterrupt:
        screen.say()
        return failure.OK


def _look(
    screen: Screen,
    changed: Sequence[Path],
    files: Iterable[Path],
    watched: Sequence[Path],
    name: str | None,
    cases: Callable[[Screen, Sequence[Path], str | None], int],
) -> None:
    what = ", ".join(str(path) for path in changed[:3]) or "all files"
    screen.say(Text(f"{time.strftime('%H:%M:%S')} {what}", style="bold"))
    _forget(watched)
    sound = [_check(screen, path) for path in _pipelines(files)]
    if all(sound):
        try:
            case_files = find(watched).files
        except ConfigUnreadable:
            screen.say("no file of cases yet: lakestreams init pipeline NAME writes one")
        else:
            cases(screen, case_files, name)
    screen.say(Text("waiting for changes; Ctrl-C ends", style="dim"))


def _check(screen: Screen, path: Path) -> bool:
    """Whether a pipeline's files have no fault that shows without Spark; faults are shown."""
    try:
        load(FileOptions((path,)), screen.secrets)
    except LakestreamsError as error:
        screen.failure(error)
        return False
    screen.say(Text.assemble(("ok", "bold green"), f"  {path}"))
    return True


def _pipelines(files: Iterable[Path]) -> Iterator[Path]:
    """The files that say `pipeline: <name>` and are no cases; also those that cannot be read, so that this is shown."""
    for path in files:
        if path.suffix in (".yml", ".yaml") and path.name != "sources.yml":
            try:
                keys = read(path).written
            except LakestreamsError:
                yield path
                continue
            if "pipeline" in keys and "cases" not in keys:
                yield path


def _times(watched: Iterable[Path]) -> Times:
    """Files with the time of their last change."""
    times: dict[Path, int] = {}
    for place in watched:
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            below = path.relative_to(place).parts  # where the place itself lies does not matter
            hidden = any(part.startswith((".", "__pycache__")) for part in below)
            try:
                if path.suffix in _ENDINGS and path.is_file() and not hidden:
                    times[path] = path.stat().st_mtime_ns
            except OSError:  # removed in between
                continue
    return times


def _forget(watched: Iterable[Path]) -> None:
    """Lets modules below the watched folders be imported again."""
    folders = [place.resolve() if place.is_dir() else place.resolve().parent for place in watched]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        own = name.partition(".")[0] == "lakestreams"
        if file is not None and not own and any(folder in Path(file).resolve().parents for folder in folders):
            del sys.modules[name]
    importlib.invalidate_caches()  # else a new file may stay unseen
