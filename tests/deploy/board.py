"""The dashboard's file, and its queries in the SQL of the Spark that tests have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sqlglot import exp

from lakestreams.deploy import dashboards
from lakestreams.deploy.dashboards import Dataset

FILE = Path(__file__).parents[2] / "dashboards" / "quality.lvdash.json"
BOARD: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
DATASETS = {one.name: one for one in dashboards.datasets(BOARD)}


def in_spark(dataset: Dataset, begin: str, end: str) -> str:
    """The query in Spark's SQL, over a period."""
    tree = dataset.tree()
    for one in list(tree.find_all(exp.Placeholder)):
        edge = one.parent
        assert isinstance(edge, exp.Dot)
        moment = {"min": begin, "max": end}[edge.expression.name]
        edge.replace(exp.cast(exp.Literal.string(moment), "timestamp"))
    text = tree.sql("spark")
    assert "details:" not in text
    assert "origin:" not in text
    return text
