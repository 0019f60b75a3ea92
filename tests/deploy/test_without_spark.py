"""A machine that only deploys has no Spark: help, `init` and `check --target` do without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.deploy.fake_workspace import Workspace, serving

from lakestreams.deploy.workspace import reason

ROOT = Path(__file__).parents[2]
ABSENT = ("pyspark", "py4j", "delta", "confluent_kafka")
# In a process of its own, in which whoever imports one of them fails as where it is not installed.
CODE = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
from lakestreams.cli.start import main
main()
"""
# The same without the packages of the command line.
JOB = CODE.replace(str(ABSENT), str(("typer", "rich", "click"))).replace(
    "from lakestreams.cli.start import main\nmain()", ""
)


def lakestreams(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DATABRICKS_")}
    environment |= {"PYTHONPATH": str(ROOT / "src"), "LAKESTREAMS_LOG_DIR": str(folder / "logs"), **more}
    line = [sys.executable, "-c", CODE, *arguments]
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.slow
def test_help_init_and_the_check_of_a_target_need_no_spark(tmp_path: Path, shell_wheel: Path) -> None:
    done = lakestreams(tmp_path, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    done = lakestreams(tmp_path, "init", "mine", "--wheel", str(shell_wheel))
    assert (done.returncode, done.stderr) == (0, "")
    done = lakestreams(tmp_path, "check", "--target", "prod", "--bundle", "mine", "--no-workspace")
    assert (done.returncode, done.stderr) == (0, "")
    assert "ok  target prod: jobs correlation, enrichment, fk_join, maintenance, verify" in done.stdout
    workspace = Workspace(tmp_path / "workspace")
    with serving(workspace) as host:
        signed_in = {"DATABRICKS_HOST": host, "DATABRICKS_TOKEN": "token-of-the-fake"}
        done = lakestreams(tmp_path, "check", "--target", "prod", "--bundle", "mine", "--json", **signed_in)
    told = json.loads(done.stdout)["target"]
    lacking = {one["what"] for one in told["workspace"] if one["state"] == "lacking"}
    cure = "confluent-kafka is not installed: pip install confluent-kafka"
    assert f"topics of page_views at kafka:9092: {cure}" in told["unchecked"]
    assert {"catalog prod", "service principal 00000000-0000-0000-0000-000000000000"} <= lacking


def test_what_needs_spark_says_so(tmp_path: Path) -> None:
    done = lakestreams(tmp_path, "check", str(ROOT / "conf" / "enrichment.yml"), "--no-broker")
    assert (done.returncode, "LS606 LOCAL_PARTS_MISSING" in done.stderr) == (1, True)


def without_the_command_line(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "LAKESTREAMS_LOG_DIR": str(folder / "logs")}
    line = [sys.executable, "-c", JOB + code]
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_jobs_need_neither_typer_nor_rich(tmp_path: Path) -> None:
    """Every entry point is loaded and reads its arguments; the two that are commands load what they run."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    jobs = sorted(place for name, place in scripts.items() if name != "lakestreams")
    code = f"""
import importlib
for place in {jobs}:
    module, _, name = place.partition(":")
    try:
        getattr(importlib.import_module(module), name)(["--help"])
    except SystemExit as ended:
        assert not ended.code, place
from lakestreams.cli import ending, maintain, verify
from lakestreams.cli.shown import Screen, Text, table
screen = Screen()
with screen.working("comparing"):
    screen.show(table("what", "found", title="p", rows=[("silver.a", Text("equal", style="green")), ("silver.b", None)]))
screen.say(Text.assemble(("note", "yellow"), "  one"))
from lakestreams.errors import InvalidOption
def refused():
    raise InvalidOption("no such thing", hint="another")
assert ending.exit_code(screen, refused) == 1
"""
    done = without_the_command_line(tmp_path, code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("comparing\np\nwhat      found\nsilver.a  equal\nsilver.b  -\nnote  one\n")
    assert "LS112" in done.stderr


def test_the_command_line_says_what_it_needs(tmp_path: Path) -> None:
    done = without_the_command_line(tmp_path, "from lakestreams.cli.start import main\nmain()")
    assert (done.returncode, done.stderr) == (
        1,
        "the command line needs the package typer: pip install 'lakestreams[cli]'\n",
    )


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            """default auth: azure-cli: HTTPSConnectionPool(host='adb-1.net', port=443): Max retries exceeded (Caused by NameResolutionError("HTTPSConnection(host='adb-1.net', port=443): Failed to resolve 'adb-1.net'")). Config: a=b""",
            "Failed to resolve 'adb-1.net'",
        ),
        ("Timed out after 0:00:03", "Timed out after 0:00:03"),
        ("default auth: cannot configure default credentials. Config: host=http://a\nmore", "default auth: cannot configure default credentials"),
        ("", "ValueError"),
    ],
)  # fmt: skip
def test_a_workspace_that_is_not_reached_is_told_without_the_sdks_classes(said: str, told: str) -> None:
    assert reason(ValueError(said)) == told
