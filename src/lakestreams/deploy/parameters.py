"""What a bundle's tasks say to the wheel's entry points, read as a run reads it: and which tasks would end each other."""

from __future__ import annotations

import contextlib
import io
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

from lakestreams.deploy.parts import read_yaml
from lakestreams.deploy.presets import TRIGGERS
from lakestreams.deploy.read import Bundle
from lakestreams.errors import BundleInvalid, LakestreamsError
from lakestreams.run.arguments import PACKAGE, READERS, pipeline_options, reader_parser
from lakestreams.topology.durations import retention_ms, to_ms

LATER: Final = "${"
"""Of a reference whose value is known elsewhere."""
_REFERENCES: Final = (LATER, "{{")  # of the bundle, and of a run
_ANY_TEXT: Final = ("--pipeline=", "--catalog=", "--root=", "--checkpoint-root=")  # whatever they refer to is text
_TIMES: Final = {"interval": to_ms, "idle_timeout": to_ms, "retention": retention_ms, "vacuum_retention": to_ms}
_NO_TIMES: Final = (None, "none", "once")


@dataclass(frozen=True)
class Said:
    """What tokens say.

    Attributes:
        arguments: by their names; None if they cannot be read.
        faults: messages with hints.
    """

    arguments: Namespace | None
    faults: list[tuple[str, str]] = field(default_factory=list)


def tokens_of(wheel: Mapping[str, Any]) -> list[str]:
    """The command line of a `python_wheel_task`."""
    named = wheel.get("named_parameters") or {}
    return [*(wheel.get("parameters") or []), *(f"--{name}={value}" for name, value in named.items())]


def said(parser: ArgumentParser, tokens: list[str]) -> Said:
    """What tokens say to an entry point, and what it would refuse when it runs."""
    known = [token for token in tokens if not any(one in token for one in _REFERENCES) or token.startswith(_ANY_TEXT)]
    known = [token for token in known if token.partition("=")[1:] != ("=", "")]  # a run takes it for not given
    told, see = io.StringIO(), f"see {parser.prog} --help"
    try:
        with contextlib.redirect_stderr(told):
            given, unknown = parser.parse_known_args(known)
            pipeline_options(parser, given)
    except SystemExit:
        why = told.getvalue().strip().rpartition("error: ")[2]
        return Said(None, [(f"{parser.prog} cannot read its parameters: {why}", see)])
    except LakestreamsError as error:
        return Said(None, [(error.message, error.hint)])
    faults = [(f"{token.partition('=')[0]} is no parameter of {parser.prog}", see) for token in unknown]
    for name, read in _TIMES.items():
        text = getattr(given, name, None)
        try:
            if text not in _NO_TIMES:
                read(text, f"--{name.replace('_', '-')}")
        except LakestreamsError as error:
            faults.append((error.message, error.hint))
    return Said(given, faults)


# --- two drivers of one pipeline -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Reader:
    """A task that runs pipelines.

    Attributes:
        job, task: their keys.
        lake: what tells its lake from others.
        pipelines: the files that it runs, as they are written.
    """

    job: str
    task: str
    lake: tuple[object, ...]
    pipelines: frozenset[str]


def overlaps(bundle: Bundle) -> Iterator[BundleInvalid]:
    """Tasks that would run a pipeline while another one does: the second driver fences the first, which fails.

    Args:
        bundle: without any other fault.
    """
    readers = list(_readers(bundle))
    for key in dict.fromkeys(one.job for one in readers):
        runs = bundle.jobs[key].get("max_concurrent_runs", 1)
        if isinstance(runs, int) and runs > 1 and not is_of_development(bundle, key):
            message = f"max_concurrent_runs is {runs}: a second run of a pipeline would end the first"
            hint = "max_concurrent_runs: 1, written out, since development mode allows more"
            yield BundleInvalid(message, hint, bundle.where(f"jobs.{key}"))
    for one, other in combinations(readers, 2):
        both = sorted(one.pipelines & other.pipelines)
        if both and one.lake == other.lake and _at_once(bundle, one, other):
            place = "" if one.job == other.job else f" of the job {one.job}"
            message = f"task {other.task} runs {both[0]}, as task {one.task}{place} does: each would end the other"
            hint = "keep one of them; pause the one that is started by hand, or let it depend on the other"
            yield BundleInvalid(message, hint, bundle.where(f"jobs.{other.job}"))


def is_of_development(bundle: Bundle, key: str) -> bool:
    """Whether nobody has said how many runs of a job there may be: development mode allows more, and starts none by itself."""
    presets = bundle.config.get("presets") or {}
    is_said = "max_concurrent_runs" in written(bundle, key) or "jobs_max_concurrent_runs" in presets
    return bundle.config.get("mode") == "development" and not is_said


def _readers(bundle: Bundle) -> Iterator[_Reader]:
    for key, job in bundle.jobs.items():
        for task in job.get("tasks") or []:
            wheel = task.get("python_wheel_task") or {}
            entry = wheel.get("entry_point")
            if entry not in READERS or wheel.get("package_name") != PACKAGE:
                continue
            parser = reader_parser(str(entry))
            given = said(parser, tokens_of(wheel)).arguments
            if given is not None:
                files = frozenset(map(str, pipeline_options(parser, given).files.pipelines))
                lake = (given.catalog, given.schemas) if given.catalog else (None, given.root)
                yield _Reader(key, str(task.get("task_key")), lake, files)


def _at_once(bundle: Bundle, one: _Reader, other: _Reader) -> bool:
    """Whether two tasks may run at the same time, without anybody who starts one of them by hand."""
    if one.job != other.job:
        return all(_starts_itself(bundle.jobs[key]) for key in (one.job, other.job))
    waits = {
        str(task.get("task_key")): [str(on.get("task_key")) for on in task.get("depends_on") or []]
        for task in bundle.jobs[one.job]["tasks"]
    }
    return not _waits(waits, one.task, other.task) and not _waits(waits, other.task, one.task)


def _waits(waits: Mapping[str, list[str]], task: str, on: str) -> bool:
    """Whether a task waits for another one, directly or not."""
    left, seen = [task], set[str]()
    while left:
        here = left.pop()
        if here in seen:
            continue
        seen.add(here)
        left += waits.get(here, [])
    return on in seen - {task}


def _starts_itself(job: Mapping[str, Any]) -> bool:
    """Whether a job has a trigger that is not paused in the target."""
    triggers = [job[name] for name in TRIGGERS if name in job]
    return any(not isinstance(one, Mapping) or one.get("pause_status") != "PAUSED" for one in triggers)


def written(bundle: Bundle, key: str) -> Mapping[str, Any]:
    """The job as its file says it, before mode and presets."""
    resources = read_yaml(bundle.files[f"jobs.{key}"]).get("resources") or {}
    job = (resources.get("jobs") or {}).get(key)  # not there, if a target alone has it
    return job if isinstance(job, Mapping) else {}


__all__ = ["LATER", "Said", "overlaps", "said", "tokens_of", "written"]
