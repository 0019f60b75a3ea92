"""`lakestreams test`: cases of topologies from YAML files, without a broker and without tables."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rich.text import Text

from lakestreams.cli.screen import Screen, table
from lakestreams.config.python import importing_from
from lakestreams.errors import ConfigInvalid, LakestreamsError
from lakestreams.run import failure
from lakestreams.run.locating import locate
from lakestreams.run.runner import open_session
from lakestreams.testing.case_files import find, load
from lakestreams.testing.case_runs import Outcome, run
from lakestreams.testing.cases import Suite
from lakestreams.testing.difference import FIRST, FURTHER
from lakestreams.testing.small import small

DEFAULT: Final = Path("tests")


def run_cases(screen: Screen, places: Sequence[Path], name: str | None) -> int:
    """Runs the cases in files and folders; returns the exit code.

    Args:
        places: files and folders; by default the folder `tests`.
        name: a part of the names of the cases that are to run, capitals or not.
    """
    began = time.monotonic()
    try:
        files = find(places or [DEFAULT])
        suites = _named(load(files.files), name)
        for pipeline in (suite.pipeline for suite in suites if suite.pipeline is not None):
            screen.secrets.add(pipeline.kafka, pipeline.references, pipeline.registry)
    except LakestreamsError as error:
        screen.fail(error)
        return failure.USAGE
    with screen.working("starting Spark"):
        spark = open_session(ends=screen.ends, quick=True, progress=screen.say)
    count = sum(len(suite.cases) for suite in suites)
    try:
        with screen.working(f"running {_count(count, 'case')}"), small(spark), importing_from(Path.cwd()):
            outcomes = run(suites, spark)
    except LakestreamsError as error:
        for suite in suites:
            if suite.pipeline is not None:
                locate(error, suite.pipeline)
        screen.fail(error)
        return failure.USAGE
    _show(screen, outcomes, time.monotonic() - began, files.others)
    screen.result(_as_dict(outcomes, time.monotonic() - began, screen.secrets))
    return failure.OK if all(one.passed for one in outcomes) else failure.FAILED


def _named(suites: Sequence[Suite], name: str | None) -> list[Suite]:
    if name is None:
        return list(suites)
    chosen = [
        replace(suite, cases=tuple(case for case in suite.cases if name.lower() in case.name.lower()))
        for suite in suites
    ]
    chosen = [suite for suite in chosen if suite.cases]
    if not chosen:
        msg = f"-k {name!r} is in the name of no case"
        names = [case.name for suite in suites for case in suite.cases]
        raise ConfigInvalid(msg, hint=f"there are: {'; '.join(names)}"[:500])
    return chosen


# --- showing -------------------------------------------------------------------------------------------------------


def _show(screen: Screen, outcomes: Sequence[Outcome], seconds: float, others: int) -> None:
    rows = [(_verdict(one), one.case.name, one.case.where) for one in outcomes]
    screen.show(table("result", "case", "where", rows=rows))
    for one in outcomes:
        if not one.passed:
            _show_failure(screen, one)
    failed = sum(not one.passed for one in outcomes)
    passed = len(outcomes) - failed
    style = "bold red" if failed else "bold green"
    screen.say(Text.assemble((f"{passed} passed, {failed} failed", style), f" in {seconds:.1f} s"))
    if others:
        screen.say(Text(f"{_count(others, 'YAML file')} without the key `cases` left out", style="dim"))


def _verdict(one: Outcome) -> Text:
    return Text("pass", style="green") if one.passed else Text("FAIL", style="bold red")


def _show_failure(screen: Screen, one: Outcome) -> None:
    screen.say(Text.assemble(("FAIL", "bold red"), f"  {one.case.name}   {one.case.where}"))
    if one.error is not None:
        screen.failure(one.error)
    for what, text in one.differences.items():
        screen.say(Text(f"  {what}", style="bold"))
        for line in text.splitlines():
            screen.say(Text(f"  {line}", style="red" if line.startswith((FIRST, FURTHER)) else ""))
    if one.refused and "refused" not in one.differences:
        for refused in one.refused:
            screen.say(Text(f"  record {refused.cause + 1} was refused by {refused.node}: {refused.code}", style="dim"))
    screen.say()


def _as_dict(outcomes: Sequence[Outcome], seconds: float, secrets: failure.Secrets) -> dict[str, Any]:
    failed = sum(not one.passed for one in outcomes)
    return {
        "ok": not failed,
        "passed": len(outcomes) - failed,
        "failed": failed,
        "seconds": round(seconds, 3),
        "cases": [
            {
                "name": one.case.name,
                "file": one.suite.file,
                "where": one.case.where,
                "ok": one.passed,
                "differences": one.differences,
                "refused": [
                    {"record": refused.cause + 1, "step": refused.node, "code": refused.code} for refused in one.refused
                ],
                "error": None if one.error is None else secrets.redact(str(one.error)).strip().partition("\n")[0],
            }
            for one in outcomes
        ],
    }


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
