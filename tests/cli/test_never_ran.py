"""What looks at the tables of a pipeline that has never run says so, in a lake of others as in an empty one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.engine.harness import claimed
from typer.testing import CliRunner

from lakestreams.cli import entry_points
from lakestreams.cli.app import app
from lakestreams.engine.ledger import fingerprint
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.runtime.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = str(Path(__file__).parents[2] / "conf" / "enrichment.yml")
COMMANDS = {
    "verify": "LS508 NOTHING_TO_VERIFY",
    "why --key alice": "LS509 NO_SUCH_RECORD",
    "why --at PageViews-0@0": "LS509 NO_SUCH_RECORD",
    "maintain": "LS511 NOTHING_TO_MAINTAIN",
    "quarantine list": "LS411 NOT_IN_QUARANTINE",
}
JOBS = {"verify": entry_points.verify, "maintain": entry_points.maintain}


@pytest.fixture(params=["empty", pytest.param("of others", marks=pytest.mark.slow)])
def root(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A lake that the pipeline has never run in."""
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))
    if request.param == "of others":
        ledger = Ledger(Lake(str(tmp_path)), "another")
        ledger.create(spark)
        claimed(spark, ledger, "run", configuration=fingerprint.Configuration("", "", ""))
    return str(tmp_path)


def assert_said(text: str, code: str, root: str) -> None:
    words = " ".join(text.split())
    hint = "Fix: run the pipeline first, or name its lake with --root or --catalog"
    assert words.startswith(f"{code} pipeline page_views has never run in {root} {hint}"), text


def test_commands_and_jobs_say_that_it_has_never_run(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command, code in COMMANDS.items():
        name, _, rest = command.partition(" --")
        words = [*name.split(), FILE, "--root", root, *(f"--{rest}".split() if rest else ())]
        told = CliRunner().invoke(app, words)
        assert told.exit_code == 1
        assert_said(told.stderr, code, root)
    for name, job in JOBS.items():
        with pytest.raises(SystemExit) as ended:
            job([f"--pipeline={FILE}", f"--root={root}"])
        assert ended.value.code == 1
        assert_said(capsys.readouterr().err, COMMANDS[name], root)
