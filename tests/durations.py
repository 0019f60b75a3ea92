"""How long each test file takes, so that the longest are begun first and both workers end together.

`tests/durations.json` says seconds of a file, from a run of `make test` with `--store-durations`; files of less than two
seconds are left out. Only their order matters, so any machine's will do.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

STORED: Final = Path(__file__).with_suffix(".json")
LEAST_S: Final = 2


def longest_first(items: list[pytest.Item], root: Path) -> None:
    """Orders tests by how long their files take; those of one file stay together, in their order."""
    stored: dict[str, int] = json.loads(STORED.read_text(encoding="utf-8"))
    items.sort(key=lambda item: -stored.get(item.path.relative_to(root).as_posix(), 0))


class Durations:
    """Adds up what tests take, and stores it when the run ends; files that did not run keep what is stored."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration  # type: ignore[assignment]

    def pytest_sessionfinish(self) -> None:
        stored: dict[str, int] = json.loads(STORED.read_text(encoding="utf-8"))
        stored |= {file: round(seconds) for file, seconds in self._seconds.items()}
        told = {file: stored[file] for file in sorted(stored) if stored[file] >= LEAST_S and Path(file).exists()}
        STORED.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
