"""What each target is deployed with, as files: the bodies of jobs, the calls that make dashboards.

`python -m tests.deploy.golden` writes them anew.
"""

from __future__ import annotations

import json
from pathlib import Path

from lakestreams.deploy.bodies import dashboard_calls, job_bodies
from lakestreams.deploy.read import User, load, targets

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).with_name("golden")
ADA = User("ada@example.com")


def made(target: str) -> str:
    return json.dumps(job_bodies(load(ROOT, target, user=ADA)), indent=1, sort_keys=True) + "\n"


def dashboards(target: str) -> str:
    """With the texts of the dashboards left out: they are files as they are."""
    calls = dashboard_calls(load(ROOT, target, user=ADA))
    for one in calls.values():
        del one["body"]["serialized_dashboard"]
    return json.dumps(calls, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in targets(ROOT):
        (FOLDER / f"{name}.json").write_text(made(name), encoding="utf-8")
        (FOLDER / f"{name}.dashboards.json").write_text(dashboards(name), encoding="utf-8")
