"""Named places where a test can make the engine fail, so that every crash a machine can have is tried in a test.

Armed by the environment: `LAKESTREAMS_FAILPOINT=name[:nth[:action]]`, several separated by commas. The nth passage
(default the first) does the action: `raise` (default), `kill` (SIGKILL of this process), `killgroup` (of its whole
group), `stop` (SIGSTOP of this process). Unarmed they cost a dictionary look-up.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
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
# What `maintain` passes, beside the runs.
MAINTENANCE: Final = ("base.before", "base.after", "trim.before", "trim.after", "trimmed.before")

passed: Counter[str] = Counter()
_counting = threading.Lock()  # topics are appended side by side


class FailpointReached(RuntimeError):
    """An armed failpoint; never raised unless the environment asks for it."""


def failpoint(name: str, detail: str = "") -> None:
    """Fails here if the environment says so.

    Args:
        name: one of NAMES, TAKING_OVER or MAINTENANCE.
        detail: the topic or output, so that one of several can be armed as `name/detail`.
    """
    armed = os.environ.get(VARIABLE)
    if not armed:
        return
    full = f"{name}/{detail}" if detail else name
    for spec in armed.split(","):
        wanted, _, rest = spec.strip().partition(":")
        if wanted not in (name, full):
            continue
        nth, _, action = rest.partition(":")
        with _counting:
            passed[spec] += 1
            due = passed[spec] == int(nth or 1)
        if due:
            _act(action or "raise", full)


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
