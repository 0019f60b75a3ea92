"""What the Databricks CLI makes of a bundle, where one is on PATH: values that only it can know, and what it refuses."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

_WITHIN_S: Final = 120
_SIGN_IN: Final = re.compile(r"(?i)auth|credential|log ?in|dial tcp|no such host|\b40[13]\b|connection refused")


@dataclass(frozen=True)
class Validated:
    """The answer of `databricks bundle validate -o json`.

    Attributes:
        answers: reference (`var.pool`, `bundle.git.branch`) to value.
        refused: why the CLI refuses the bundle, or None.
        silent: why it did not look at the bundle, or None.
    """

    answers: Mapping[str, Any] = field(default_factory=dict)
    refused: str | None = None
    silent: str | None = None


def validated(root: Path, target: str, variables: Mapping[str, str]) -> Validated:
    """Lets the CLI resolve the bundle of a target; it needs a workspace for that, and changes nothing there."""
    program = shutil.which("databricks")
    if program is None:
        return Validated(silent="no `databricks` is on PATH")
    given = [token for name, value in variables.items() for token in ("--var", f"{name}={value}")]
    line = [program, "bundle", "validate", "-o", "json", "-t", target, *given]
    try:
        done = subprocess.run(line, cwd=root, capture_output=True, text=True, timeout=_WITHIN_S, check=False)
        config = json.loads(done.stdout or "{}")
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return Validated(silent=str(error).splitlines()[0])
    if done.returncode:
        told = re.findall(r"(?m)^Error: (.*)$", done.stderr) or [f"it ended with {done.returncode}"]
        return Validated(silent=told[0]) if _SIGN_IN.search(told[0]) else Validated(refused="; ".join(told))
    return Validated(dict(_answers(config)))


def _answers(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, variable in (config.get("variables") or {}).items():
        if isinstance(variable, Mapping) and "value" in variable:
            yield f"var.{name}", variable["value"]
    for part in ("bundle", "workspace"):
        yield from _leaves(part, config.get(part) or {})


def _leaves(name: str, part: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(part, Mapping):
        for key, value in part.items():
            yield from _leaves(f"{name}.{key}", value)
    else:
        yield name, part
