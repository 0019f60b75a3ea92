"""The wheel that a deployment uploads, built once a run; and one that has no more than its metadata."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from lakestreams.deploy import topics
from lakestreams.deploy.read import load

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _broker_soon_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check of a bundle asks a broker that is not there: five seconds of waiting for nothing."""
    monkeypatch.setattr(topics, "_TIMEOUT_S", 0.2)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with the bundle's own command, but without fetching what builds it."""
    command = load(ROOT, "dev").config["artifacts"]["wheel"]["build"].rpartition(" || ")[2].split()
    assert command[0] == "python3"
    folder = tmp_path_factory.mktemp("wheel")
    tree, out = folder / "tree", folder / "dist"  # a copy: nothing is left in this one
    others = ("__pycache__", ".*", "dist", "build", "lake", "docs", "bench", "spark-warehouse")
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*others))
    build = [sys.executable, *command[1:], "--no-isolation", "--outdir", str(out), str(tree)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def shell_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with our metadata and nothing else: what a job is checked against when it is created."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name, version = project["name"], project["version"]
    wheel = tmp_path_factory.mktemp("shell") / f"{name}-{version}-py3-none-any.whl"
    scripts = "".join(f"{entry} = {place}\n" for entry, place in project["scripts"].items())
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}-{version}.dist-info/METADATA", f"Name: {name}\nVersion: {version}\n")
        archive.writestr(f"{name}-{version}.dist-info/entry_points.txt", f"[console_scripts]\n{scripts}")
    return wheel
