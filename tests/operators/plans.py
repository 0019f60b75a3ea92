"""What a plan costs: the operators that move or order rows, counted."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEAR = ("Exchange", "BroadcastExchange", "Sort", "Window", "SortMergeJoin", "ShuffledHashJoin", "BroadcastHashJoin",
        "CartesianProduct", "BroadcastNestedLoopJoin")  # fmt: skip
# The plan as it is made, before any table's size is known.
SETTINGS = {"spark.sql.adaptive.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "-1"}
_WHOLE = {"spark.sql.maxPlanStringLength": str(10**7)}  # else a long plan is cut off, and what it costs with it


@contextlib.contextmanager
def settings(spark: SparkSession, wanted: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def plan_of(frame: DataFrame, *, python: bool = False) -> str:
    text = io.StringIO()
    with settings(frame.sparkSession, _WHOLE), contextlib.redirect_stdout(text):
        frame.explain()
    shown = text.getvalue()
    assert "more characters" not in shown
    assert not re.search(r"Cartesian|NestedLoop" if python else r"Python|Pandas|Arrow|Cartesian|NestedLoop", shown), (
        shown
    )
    return shown


def cost(frame: DataFrame, *, python: bool = False) -> dict[str, int]:
    """How often each operator that costs something stands in the plan; `python`: steps of Python workers may, too."""
    names = re.findall(r"^[\s:+\-*()0-9]*([A-Z][A-Za-z]+)", plan_of(frame, python=python), flags=re.MULTILINE)
    return {name: names.count(name) for name in DEAR if name in names}


def stored(frame: DataFrame, path: Path) -> DataFrame:
    """The frame as the engine has it: read from files."""
    frame.write.parquet(str(path))
    return frame.sparkSession.read.parquet(str(path))
