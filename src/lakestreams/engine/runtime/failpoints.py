"""Named places where a test can make the engine fail, so that every crash a machine can have is tried in a test.

Armed by the environment: `LAKESTREAMS_FAILPOINT=name[:nth[:action]]`, several separated by commas. The nth passage
of a run (default the first) does the action: `raise` (default), `kill` (SIGKILL of this process), `killgroup` (of its
whole group), `stop` (SIGSTOP of this process). A run or maintenance reads the environment once, when its ledger is made.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

VARIABLE: Final = "LAKESTREAMS_FAILPOINT"

# Every name in the engine; a topic or output follows the colon. Tests go through this list one by one.
NAMES: Final = (
    "epoch.before",
    "epoch.after",
    "bronze.before",
    "bronze.after",
    "ingest.before",
    "ingest.after",
    "plan.before",
    "plan.after",
    "publish.before",
    "publish.after",
    "quarantine.before",
    "quarantine.after",
    "kafka.before",
    "kafka.after",
    "finish.before",
    "finish.after",
    "snapshot.before",
    "snapshot.after",
    "state.before",
    "state.written",
    "state.after",
    "events.before",
    "events.after",
)

# Where a driver takes over from another one, and where it takes over a cycle of another configuration.
TAKING_OVER: Final = ("sealed.after", "taken.before", "taken.after")
# What `maintain` passes, besides the runs.
MAINTENANCE: Final = ("base.before", "base.after", "trim.before", "trim.after", "trimmed.before")


class FailpointReached(RuntimeError):
    """An armed failpoint; never raised unless the environment asks for it."""


def _armed() -> dict[str, Iterator[str]]:
    """What the environment arms."""
    armed = {}
    for spec in filter(None, os.environ.get(VARIABLE, "").split(",")):
        point, _, rest = spec.strip().partition(":")
        nth, _, action = rest.partition(":")
        armed[point] = iter([*[""] * (int(nth or 1) - 1), action or "raise"])
    return armed


@dataclass(frozen=True)
class Failpoints:
    """The failpoints of one run or maintenance.

    Attributes:
        left: point to what its next passages do; empty: nothing. Threads may pass in parallel: each takes its own.
    """

    left: Mapping[str, Iterator[str]] = field(default_factory=_armed)

    def __call__(self, name: str, detail: str = "") -> None:
        """Fails here if that is armed.

        Args:
            name: one of NAMES, TAKING_OVER or MAINTENANCE.
            detail: the topic or output, so that one of several can be armed as `name/detail`.
        """
        full = f"{name}/{detail}" if detail else name
        for point in self.left.keys() & {name, full}:
            if action := next(self.left[point], ""):
                _act(action, full)


def _act(action: str, name: str) -> None:
    if action == "raise":
        msg = f"failpoint {name}"
        raise FailpointReached(msg)
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "killgroup":
        os.killpg(os.getpgid(0), signal.SIGKILL)
    if action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
