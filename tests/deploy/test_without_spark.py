"""A machine that only deploys has no Spark: help, `init` and `check --target` do without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.deploy.fake_workspace import Workspace, serving

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
from lakestreams.cli.app import main
main()
"""


def lakestreams(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DATABRICKS_")}
    environment |= {"PYTHONPATH": str(ROOT / "src"), "LAKESTREAMS_LOG_DIR": str(folder / "logs"), **more}
    line = [sys.executable, "-c", CODE, *arguments]
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120)


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
