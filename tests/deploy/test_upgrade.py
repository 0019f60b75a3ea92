"""From an older wheel to this one and back, on the same tables: each goes on where the other has stopped.

Each version is installed in a folder of its own and runs in processes of its own. The older one is left in the middle of a
cycle, with orders that wait for their payments and profiles that are in its snapshot alone; so the newer one finishes a plan
that it has not made, from what it has not stored. The way back is the same with the versions exchanged.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker, pytest.mark.soak, pytest.mark.timeout(4 * 900)]
ROOT = Path(__file__).parents[2]
COMMANDS = ROOT / "tests" / "engine" / "commands.py"
(OLD_WHEEL,) = (ROOT / "tests" / "data" / "wheels").glob("*.whl")

TOPICS = ("upgraded-views", "upgraded-users", "upgraded-clicks")
SOURCES = """\
kafka:
  bootstrap_servers: {servers}
topics:
  Views: {{kind: stream, topic: upgraded-views, key: {{text: user}}, value: {{json: "page string, seconds int"}}}}
  Users: {{kind: table, topic: upgraded-users, key: {{text: user}}, value: {{text: region}}}}
  Clicks: {{kind: stream, topic: upgraded-clicks, key: {{text: user}}, value: {{text: link}}}}
"""
PIPELINE = """\
pipeline: upgraded
settings: {snapshot_every: 1}
steps:
  enriched:
    left_join: {left: Views, right: Users}
    select: {page: Views.page, region: "coalesce(Users.region, 'nowhere')"}
    expect_or_drop: {not_nine: page != '/9'}
  clicked:
    left_join: {left: Views, right: Clicks, within: 5 minutes}
    select: {page: Views.page, link: Clicks.link}
outputs:
  silver.enriched: {from: enriched}
  silver.clicked: {from: clicked}
"""
OUTPUTS = ("enriched", "clicked")
MINUTE = 60_000
NOTHING: Mapping[str, str] = {}
HALF_WAY = {"LAKESTREAMS_FAILPOINT": "publish.after:1:raise"}  # one of two outputs is published
WITHIN_S = 900


@dataclass(frozen=True)
class Version:
    """An installed wheel; `run` starts a process of it."""

    site: Path

    def run(self, folder: Path, *runs: dict[str, Any], between: Callable[[], None] | None = None) -> list[str]:
        """What each run says; what code it was is made sure of.

        Args:
            folder: what is to be run and what is said, a new one.
            runs: for `commands.py`.
            between: done after the first run and before the second.
        """
        folder.mkdir()
        if between is not None:
            runs[1]["waits_for"] = "go"
        (folder / "runs.json").write_text(json.dumps(runs), encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if name != "LAKESTREAMS_FAILPOINT"}
        environment |= {"PYTHONPATH": str(self.site), "LAKESTREAMS_LOG_DIR": str(folder / "logs")}
        command = [sys.executable, str(COMMANDS), str(folder / "runs.json")]
        with (folder / "said").open("wb") as said:
            process = subprocess.Popen(command, cwd=folder, env=environment, stdout=said, stderr=said)
        try:
            while between is not None and process.poll() is None and not (folder / f"{runs[0]['name']}.code").exists():
                time.sleep(0.1)
            if between is not None:
                between()
                (folder / "go").touch()
            code = process.wait(WITHIN_S)
        finally:
            process.kill()
        assert code == 0, (folder / "said").read_text(encoding="utf-8")[-3_000:]
        version, place = (folder / "code").read_text(encoding="utf-8").split(" ", 1)
        assert Path(place).is_relative_to(self.site)
        assert version == self.version
        return [self._said(folder, one) for one in runs]

    @property
    def version(self) -> str:
        (metadata,) = self.site.glob("lakestreams-*.dist-info")
        return metadata.name.removeprefix("lakestreams-").removesuffix(".dist-info")

    @staticmethod
    def _said(folder: Path, run: dict[str, Any]) -> str:
        said = "".join((folder / f"{run['name']}.{ending}").read_text(encoding="utf-8") for ending in ("out", "err"))
        assert int((folder / f"{run['name']}.code").read_text()) == run["ends"], said
        return said


def installed(wheel: Path, site: Path) -> Version:
    install = ("install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--target", str(site))
    subprocess.run([sys.executable, "-m", "pip", *install, str(wheel)], check=True)
    return Version(site)


def produced(broker: Broker, part: int) -> None:
    """The records of one of three hours: profiles change, and some views of its end are clicked on in the next one's begin."""
    begin = 1_000 + part * 60 * MINUTE
    users = [(f"u{number}", f"r{part}", begin) for number in range(part, 8, 2 + part)]
    views = [
        (f"u{number % 9}", json.dumps({"page": f"/{number % 11}", "seconds": number}), begin + (1 + number) * MINUTE)
        for number in range(58)
    ]
    views[7] = (views[7][0], "{not JSON", views[7][2])
    clicks = [(user, f"link{part}-{at}", at + 2 * MINUTE) for user, _, at in views[::4]]
    for topic, records in zip(TOPICS, (views, users, clicks), strict=True):
        broker.produce(topic, records)


def rows(root: Path, output: str) -> list[str]:
    """The table's rows, but for the cycle that they came in; read without either version, and without Spark."""
    table = root / "silver" / output
    files: dict[str, None] = {}
    for log in sorted((table / "_delta_log").glob("*.json")):
        for action in map(json.loads, log.read_text(encoding="utf-8").splitlines()):
            if "add" in action:
                files[action["add"]["path"]] = None
            if "remove" in action:
                files.pop(action["remove"]["path"])
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in _plain(table, files))


def _plain(table: Path, files: dict[str, None]) -> Iterator[dict[str, Any]]:
    for file in files:
        for row in pq.read_table(table / file).to_pylist():
            lineage = row.pop("_lineage")
            yield row | {name: lineage[name] for name in ("trigger", "n", "kind", "contributors")}


def test_an_upgrade_and_its_way_back_go_on_with_the_same_tables(broker: Broker, wheel: Path, tmp_path: Path) -> None:
    old, new = installed(OLD_WHEEL, tmp_path / "old"), installed(wheel, tmp_path / "new")
    assert old.version != new.version
    file, live, alone = tmp_path / "enrichment.yml", tmp_path / "live", tmp_path / "alone"
    file.write_text(PIPELINE, encoding="utf-8")
    (tmp_path / "sources.yml").write_text(SOURCES.format(servers=broker.bootstrap_servers), encoding="utf-8")
    for topic in TOPICS:
        broker.create_topic(topic, 2)

    def job(name: str, root: Path, ends: int = 0, environment: Mapping[str, str] = NOTHING) -> dict[str, Any]:
        argv = ["job:enrichment", f"--pipeline={file}", f"--root={root}"]
        return {"name": name, "argv": argv, "ends": ends, "environment": dict(environment)}

    def verify(root: Path) -> dict[str, Any]:
        return {"name": "verify", "argv": ["verify", str(file), "--root", str(root), "--json"], "ends": 0}

    produced(broker, 0)
    runs = job("whole", live), job("half", live, 1, HALF_WAY)
    _, said = old.run(tmp_path / "1", *runs, between=partial(produced, broker, 1))
    assert "failpoint publish.after" in said
    said, half = new.run(tmp_path / "2", *runs, between=partial(produced, broker, 2))
    assert "epoch 3" in said
    assert "cycle 2 published" in said
    assert "failpoint publish.after" in half
    said, verified = old.run(tmp_path / "3", job("whole", live), verify(live))
    assert "epoch 5" in said
    assert "cycle 3 published" in said
    of_old = json.loads(verified)
    _, verified = new.run(tmp_path / "4", job("alone", alone), verify(live))
    of_new = json.loads(verified)
    assert of_old == of_new
    (found,) = of_new["pipelines"]
    assert (found["equal"], found["to_cycle"]) == (True, 3)
    assert all(one["compared"] for one in found["findings"])
    for output in OUTPUTS:
        assert rows(live, output) == rows(alone, output)
        assert len(rows(live, output)) > 100
