"""The job bodies that each target is deployed with, as files; `python -m tests.bundle.golden` writes them anew."""

from __future__ import annotations

import json
from pathlib import Path

from lakestreams.bundle.bodies import job_bodies
from lakestreams.bundle.read import User, load, targets

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).with_name("golden")
ADA = User("ada@example.com")


def made(target: str) -> str:
    return json.dumps(job_bodies(load(ROOT, target, user=ADA)), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in targets(ROOT):
        (FOLDER / f"{name}.json").write_text(made(name), encoding="utf-8")
