"""The event log and the quarantine, read from Delta, bounded; and the command that makes the page of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.report import events
from typer.testing import CliRunner

from lakestreams.cli.app import app
from lakestreams.report.build import build

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

_EVENTS = (
    "pipeline string, cycle bigint, id string, sequence bigint, event_type string, level string, maturity_level string, "
    "timestamp timestamp, message string, origin string, details string"
)
_REFUSED = (
    "pipeline string, code string, message string, node string, topic string, partition int, offset bigint, "
    "attempt int, key binary, value binary, cycle bigint"
)


def refused(pipeline, code, node, offset, cycle, value=b"{"):
    return (pipeline, code, f"why {offset}", node, "orders", offset % 2, offset, 0, b"k", value, cycle)


def test_a_lake_s_newest_cycles_become_a_page(spark: SparkSession, tmp_path: Path) -> None:
    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.run.event_log import read_events, read_quarantine

    lake = Lake(str(tmp_path / "lake"))
    assert (read_events(spark, lake, "p", 5), read_quarantine(spark, lake, "p")) == ([], [])

    def invoke(*arguments):
        out = ["--root", str(tmp_path / "lake"), "--out", str(tmp_path / "report.html"), *arguments]
        result = CliRunner().invoke(app, ["report", "conf/correlation.yml", *out])
        assert result.exit_code == 0, result.output + result.stderr
        return result.stdout, (tmp_path / "report.html").read_text(encoding="utf-8")

    said, text = invoke()
    assert "no cycle in the log yet" in said
    assert "No cycle of this pipeline is in the event log." in text

    log = [*events.log(12), *events.log(3, pipeline="another")]
    names = [column.split()[0] for column in _EVENTS.split(", ")]
    rows = spark.createDataFrame([tuple(row[name] for name in names) for row in log], _EVENTS)
    rows.write.format("delta").save(lake.control("events").path)
    found = [refused(events.PIPELINE, "LATE", "matched", offset, 1 + offset % 12) for offset in range(40)]
    found += [refused(events.PIPELINE, "MALFORMED_VALUE", "orders", 99, 12, b"x" * 5_000)]
    found += [refused("another", "LATE", "matched", 7, 12)]
    found += [refused(events.PIPELINE, "LATE", "matched", 1_000, 13)]  # of a cycle that is not in the log yet
    spark.createDataFrame(found, _REFUSED).write.format("delta").save(lake.control("quarantine").path)

    newest = read_events(spark, lake, events.PIPELINE, 5)
    assert {row["cycle"] for row in newest} == {8, 9, 10, 11, 12}
    assert build(events.PIPELINE, newest) == build(events.PIPELINE, [row for row in log if row["cycle"] >= 8])

    late, malformed = read_quarantine(spark, lake, events.PIPELINE, from_cycle=8, to_cycle=12, examples=3)
    own = [(1 + offset % 12, offset) for offset in range(40) if 1 + offset % 12 >= 8]
    assert (late["node"], late["code"], late["records"], late["first_cycle"]) == ("matched", "LATE", len(own), 8)
    shown = [(one["cycle"], one["offset"]) for one in late["examples"]]
    assert shown == sorted(own, key=lambda one: (-one[0], one[1] % 2, -one[1]))[:3]
    assert set(late["examples"][0]) == {"topic", "partition", "offset", "attempt", "cycle", "message"}
    (_, whole) = read_quarantine(spark, lake, events.PIPELINE, values=True)
    assert whole["examples"][0]["value"] == b"x" * 1_000
    assert malformed["records"] == 1

    said, text = invoke("--cycles", "5", "--json")
    told = json.loads(said)
    assert (told["ok"], told["cycles"]) == (True, [8, 9, 10, 11, 12])
    assert told["records"] == build(events.PIPELINE, newest).records
    assert "Cycles 8 to 12" in text
    assert "why 99" in text
    assert "why 1000" not in text, "totals and quarantine are of the same cycles"
    assert "xxx" not in text
    assert "xxx" in invoke("--cycles", "5", "--show-values")[1]
