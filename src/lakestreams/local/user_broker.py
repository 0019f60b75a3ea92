"""The one broker of this user that outlives the command that starts it: `lakestreams local up` and `down`."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lakestreams.local import detached
from lakestreams.local.broker_process import HOST, launch, log_file
from lakestreams.local.cache import Progress, cache_dir, locked

_NAME: Final = "broker"


@dataclass(frozen=True)
class BrokerInfo:
    """The one detached broker of this user."""

    bootstrap_servers: str
    guard_pid: int
    broker_pid: int
    data_dir: str
    kept: bool
    log: str

    @property
    def guarded(self) -> str:
        """The folder that its guard was given."""
        return self.data_dir


def up(
    data_dir: Path | None = None, keep: bool = False, progress: Progress | None = None, port: int | None = None
) -> BrokerInfo:
    """Starts the user's detached broker, or finds it running.

    Args:
        data_dir: folder of its data; one that is given is always kept.
        keep: keep the data in the default folder for the next `up`, which finds them whether or not it keeps them again;
            otherwise they are removed at `down`.
        progress: receives a line for each slow step.
        port: the client port; default any free one.

    Raises:
        What `Broker.start` raises.
    """
    with locked(_NAME):
        found = info()
        if found is not None:
            return found
        kept = keep or data_dir is not None
        folder = data_dir.resolve() if data_dir else cache_dir() / _NAME
        mark = cache_dir() / f"{_NAME}.kept"
        if not kept and not mark.exists():
            shutil.rmtree(folder, ignore_errors=True)  # what a killed guard may have left
        running = launch(folder, port=port, detach=True, remove=not kept, progress=progress)
        started = BrokerInfo(
            bootstrap_servers=f"{HOST}:{running.port}",
            guard_pid=running.guard.pid,
            broker_pid=running.jvm_pid,
            data_dir=str(folder),
            kept=kept,
            log=str(log_file(folder)),
        )
        detached.note(_NAME, started, running.guard)
        if data_dir is None:
            mark.touch() if keep else mark.unlink(missing_ok=True)
        return started


def down() -> bool:
    """Ends the user's detached broker; returns when it is gone, False if there was none."""
    found = info()
    if found is not None:
        detached.end(_NAME, found)
    return found is not None


def info() -> BrokerInfo | None:
    """The user's detached broker if it runs."""
    return detached.noted(_NAME, BrokerInfo)
