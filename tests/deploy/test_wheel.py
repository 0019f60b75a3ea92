"""The wheel that a deployment builds: without the runtime's own packages, with types and entry points."""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from configparser import ConfigParser
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest
from tests.deploy.installing import installed

from lakestreams.run.arguments import parsers

ROOT = Path(__file__).parents[2]


def text_of(wheel: Path, ending: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(ending)]
        return archive.read(name).decode()


def metadata(wheel: Path) -> Message:
    return message_from_string(text_of(wheel, ".dist-info/METADATA"))


def test_the_runtime_keeps_its_own_spark(wheel: Path) -> None:
    required = [one for one in metadata(wheel).get_all("Requires-Dist", []) if "extra ==" not in one]
    names = {re.split(r"[^A-Za-z0-9_.-]", one)[0].lower() for one in required}
    assert names
    assert not names & {"typer", "rich"}, "only the command line needs them"
    assert not names & {"pyspark", "delta-spark", "databricks-connect", "pandas", "pyarrow", "confluent-kafka"}
    assert not [one for one in required if "==" in one], "floors, not pins"


def test_it_brings_types_entry_points_and_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    ready = {file.name for file in (ROOT / "conf").glob("*.yml")} - {"deployment.yml"}
    assert {"lakestreams/py.typed", *(f"lakestreams/conf/{name}" for name in ready)} <= set(names)
    notebooks = {f"lakestreams/notebooks/{file.name}" for file in (ROOT / "notebooks").glob("*.py")}
    assert {*notebooks, "lakestreams/tests/cases/fk_join.yml"} <= set(names)
    assert {"lakestreams/deploy/template/databricks.yml", "lakestreams/deploy/template/gitignore"} <= set(names)
    assert [name for name in names if name.endswith("licenses/LICENSE")]
    scripts = ConfigParser()
    scripts.read_string(text_of(wheel, "entry_points.txt"))
    made = dict(scripts["console_scripts"])
    assert made == {
        **{job: f"lakestreams.jobs.{job}:main" for job in ("enrichment", "correlation", "fk_join")},
        "lakestreams-pipeline": "lakestreams.jobs.pipeline:main",
        **{f"lakestreams-{one}": f"lakestreams.cli.entry_points:{one}" for one in ("verify", "maintain")},
        "lakestreams": "lakestreams.cli.start:main",
    }
    assert dict(scripts["pytest11"]) == {"lakestreams": "lakestreams.testing.plugin"}


def test_it_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        top = {name.partition("/")[0] for name in archive.namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"lakestreams"}


def test_it_tells_what_it_is(wheel: Path) -> None:
    found = metadata(wheel)
    assert (found["Name"], found["License-Expression"]) == ("lakestreams", "Apache-2.0")
    assert "# lakestreams" in found.get_payload()


@pytest.mark.soak  # installs what the wheel requires from the package index
def test_what_it_requires_is_enough_beside_spark(wheel: Path, tmp_path: Path) -> None:
    """In an environment that has the wheel and what it names, and of this one what a runtime has: no more.

    Every entry point reads its arguments, and the commands before a deployment run. Nothing starts Spark.
    """
    tools = installed([Path(f"{wheel}[cli]")], tmp_path / "clean").parent
    ours = ("LAKESTREAMS_", "PYTHON", "DATABRICKS_", "BUNDLE_VAR_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment |= {"LAKESTREAMS_LOG_DIR": str(tmp_path / "logs")}

    def said(*command: str) -> str:
        line = [tools / command[0], *command[1:]]
        done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    for entry in parsers():
        assert "--checkpoint-root" in said(entry, "--help")
    said("lakestreams", "init", "my-streams", "--wheel", str(wheel))
    told = said("lakestreams", "check", "--target", "prod", "--bundle", "my-streams", "--no-workspace")
    assert "ok  target prod: jobs correlation, enrichment, fk_join, maintenance, verify" in told
