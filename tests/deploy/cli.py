"""The Databricks CLI, where this machine has one: which it is, and how it is run apart from whoever is signed in here."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from lakestreams.deploy.read import FILE, read_yaml

ROOT = Path(__file__).parents[2]
HERE, REAL = "tests/deploy/", "tests/deploy/test_cli.py::"
VERSION, VALIDATE = "databricks_cli", "databricks_validate"  # properties of tests


@functools.cache
def found() -> tuple[str, str]:
    """Version of the CLI on PATH that the bundle accepts, or nothing; and why there is nothing."""
    program = shutil.which("databricks")
    if program is None:
        return "", "no `databricks` is on PATH"
    asked = [program, "--version"]
    try:
        done = subprocess.run(
            asked, env=apart(Path(os.devnull)), capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"`databricks` on PATH does not tell its version: {error}"
    told = re.search(r"\bv(\d+\.\d+\.\d+\S*)", done.stdout)
    if told is None:  # the older one of PyPI says "Version 0.18.0", and knows no bundles
        return "", f"`databricks` on PATH is not the Databricks CLI: {(done.stdout or done.stderr).strip()[:60]!r}"
    wanted = str(read_yaml(ROOT / FILE)["bundle"]["databricks_cli_version"])
    if _numbers(told[1]) < _numbers(wanted):
        return "", f"the Databricks CLI on PATH is {told[1]}, and the bundle wants {wanted}"
    return told[1], ""


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


def apart(home: Path) -> dict[str, str]:
    """This process's environment without anybody's workspace in it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DATABRICKS_", "BUNDLE_", "TF_"))}
    return kept | {"HOME": str(home), "DATABRICKS_CONFIG_FILE": str(home / "none.cfg")}


@dataclass(frozen=True)
class Cli:
    """The CLI in the folder of a bundle; `home` is an empty folder of its own, `host` where the fake answers."""

    root: Path
    home: Path
    host: str

    def bundle(self, *arguments: str) -> tuple[int, str]:
        """Exit code, and all that it printed."""
        python = self.home / "bin" / "python3"  # the bundle builds its wheel with it
        python.parent.mkdir(parents=True, exist_ok=True)
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
        python.chmod(0o755)
        signed_in = {"DATABRICKS_HOST": self.host, "DATABRICKS_TOKEN": "token-of-the-fake"}
        path = {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(
            ["databricks", "bundle", *arguments],
            cwd=self.root,
            env=apart(self.home) | signed_in | path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout


def objections(printed: str, newcomer: str = "") -> list[str]:
    """First lines of the errors and warnings of `validate --strict` that are about the bundle.

    Two warnings are not. A development build of the CLI says that it compares no versions. And the CLI names rights at the
    workspace folder that the bundle does not give. Before the first deployment those are the rights of the newcomer, for
    whom `validate` itself has just made the folder; the deployment takes them away.
    """
    told = re.split(r"^(?=(?:Warning|Error|Recommendation|Name): )", printed, flags=re.MULTILINE)
    found = [one.partition(": ") for one in told if one.startswith(("Warning: ", "Error: "))]
    return [text.partition("\n")[0] for _, _, text in found if not _is_no_objection(text, newcomer)]


def _is_no_objection(text: str, newcomer: str) -> bool:
    if "development build" in text or "Warnings are not allowed in strict mode" in text:
        return True
    held = re.findall(r"^- level: (.*)$", text, re.MULTILINE)
    return text.startswith("workspace folder has permissions") and held == [f"CAN_MANAGE, user_name: {newcomer}"]


class _Report(Protocol):
    nodeid: str
    user_properties: list[tuple[str, Any]]


def how_it_was_shown(passed: Iterable[_Report], failed: Iterable[_Report]) -> str | None:
    """The line at the end of a run that says what stood for the Databricks CLI; None if no test of bundles ran."""
    good, bad = ([one for one in some if one.nodeid.startswith(HERE)] for some in (passed, failed))
    if not good and not bad:
        return None
    real = [one for one in (*good, *bad) if one.nodeid.startswith(REAL)]
    told = dict(told for one in real for told in one.user_properties)
    if VERSION not in told:
        version, why = found()
        why = why or f"the tests that use the Databricks CLI {version} were not among those that ran"
        return f"bundle: shown with our own loader and the fake workspace alone; {why}"
    line = f"bundle: shown with the Databricks CLI {told[VERSION]} against the fake workspace, and with our own loader"
    validated = [value for one in real for name, value in one.user_properties if name == VALIDATE]
    if validated:
        line += f"; its validate lets {validated.count('missed')} of {len(validated)} planted mistakes through"
    lost = sum(one.nodeid.startswith(REAL) for one in bad)
    return f"{line}; {lost} of its tests FAILED" if lost else line
