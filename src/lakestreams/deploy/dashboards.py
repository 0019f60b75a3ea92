"""A dashboard's file (`.lvdash.json`): its datasets, its widgets, and what can be wrong with them.

A workspace takes nearly any file and then shows an empty widget, so what refers to what is looked at here: widgets to
datasets and their columns, filters to queries and parameters, queries to the columns of the event log. The form is that
of dashboards as AI/BI exports them; there is no published schema of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify

from lakestreams.expectations.log_columns import SCHEMA

DIALECT: Final = "databricks"
COLUMNS: Final = 12
"""Of the grid that a page with `layoutVersion: GRID_V1` has."""
VERSIONS: Final = {
    "bar": 3,
    "counter": 2,
    "filter-date-range-picker": 2,
    "filter-multi-select": 2,
    "filter-single-select": 2,
    "line": 3,
    "table": 2,
}
"""Of the `spec` of a widget, by its type; one of another version is not drawn. Other types are not known here."""
KNOWN_TABLES: Final[dict[str, object]] = {
    "events": {name: kind for name, _, kind in (column.partition(" ") for column in SCHEMA.split(", "))}
}


@dataclass(frozen=True)
class Dataset:
    """A query of a dashboard.

    Attributes:
        name: what widgets call it.
        sql: its text, in Databricks' dialect.
        parameters: names that the text may use as `:name`.
    """

    name: str
    sql: str
    parameters: tuple[str, ...] = ()

    def tree(self) -> exp.Expr:
        """The query, parsed.

        Raises:
            SqlglotError: if it cannot be.
        """
        return sqlglot.parse_one(self.sql, dialect=DIALECT)


def datasets(board: Mapping[str, Any]) -> list[Dataset]:
    """The datasets of a dashboard, in their order."""
    return [
        Dataset(
            one["name"],
            "".join(one["queryLines"]) if "queryLines" in one else one.get("query", ""),
            tuple(parameter["keyword"] for parameter in one.get("parameters", [])),
        )
        for one in board.get("datasets", [])
    ]


def mistakes(text: str) -> list[str]:
    """What is wrong with a dashboard's file, in words; nothing if nothing is.

    Args:
        text: the file's.
    """
    try:
        board = json.loads(text)
        return list(_mistakes(board))
    except ValueError as error:
        return [f"it is no JSON: {error}"]
    except (KeyError, TypeError, AttributeError) as error:
        return [f"it is no dashboard: {error!r}"]


def _mistakes(board: Mapping[str, Any]) -> Iterator[str]:
    known = datasets(board)
    for name in _twice(one.name for one in known):
        yield f"the dataset {name} appears twice"
    columns: dict[str, list[str] | None] = {}
    for dataset in known:
        columns[dataset.name], wrong = _columns(dataset)
        yield from wrong
    names = []
    for page in board["pages"]:
        layout = page.get("layout", [])
        yield from _places(page)
        for one in layout:
            names.append(one["widget"]["name"])
            parameters = {dataset.name: dataset.parameters for dataset in known}
            for what in _Widget(one["widget"], columns, parameters).mistakes():
                yield f"widget {names[-1]}: {what}"
    for name in _twice(names):
        yield f"the widget {name} appears twice"


# --- datasets --------------------------------------------------------------------------------------------------------


def _columns(dataset: Dataset) -> tuple[list[str] | None, list[str]]:
    """The columns of a dataset, None where they are not known; and what is wrong with its query."""
    where = f"dataset {dataset.name}"
    try:
        tree = dataset.tree()
    except SqlglotError as error:
        return None, [f"{where}: it is no query: {str(error).splitlines()[0]}"]
    used = {one.name for one in tree.find_all(exp.Placeholder)}
    wrong = [f"{where}: the parameter {name} is not declared" for name in sorted(used - {*dataset.parameters})]
    wrong += [f"{where}: the parameter {name} is not used" for name in sorted({*dataset.parameters} - used)]
    inside = {one.alias for one in tree.find_all(exp.CTE)}
    tables = {one.sql(DIALECT) for one in tree.find_all(exp.Table)} - inside
    if tables <= KNOWN_TABLES.keys():
        try:
            qualify(tree.copy(), schema=KNOWN_TABLES, dialect=DIALECT)
        except SqlglotError as error:
            wrong.append(f"{where}: {str(error).splitlines()[0]}")
    names: list[str] = tree.named_selects if isinstance(tree, exp.Query) else []
    return None if "*" in names else names, wrong


# --- widgets ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Widget:
    widget: Mapping[str, Any]
    columns: Mapping[str, list[str] | None]
    parameters: Mapping[str, tuple[str, ...]]

    def mistakes(self) -> Iterator[str]:
        spec = self.widget.get("spec")
        if spec is None:  # a text
            return
        kind, version = spec.get("widgetType"), spec.get("version")
        if VERSIONS.get(kind, version) != version:
            yield f"a {kind} of version {version}, which Databricks does not draw: use {VERSIONS[kind]}"
        offered: dict[str, set[str]] = {}  # by query: what encodings may name
        for one in self.widget.get("queries", []):
            query = one["query"]
            yield from self._query(query)
            offered[one["name"]] = {part["name"] for key in ("fields", "parameters") for part in query.get(key, [])}
        for encoding in _encodings(spec.get("encodings", {})):
            name = encoding.get("fieldName", encoding.get("parameterName"))
            query_name = encoding.get("queryName")
            if query_name is not None and query_name not in offered:
                yield f"there is no query {query_name}"
            elif name not in (offered[query_name] if query_name else set().union(*offered.values())):
                yield f"it shows {name}, which none of its queries gives"

    def _query(self, query: Mapping[str, Any]) -> Iterator[str]:
        name = query["datasetName"]
        if name not in self.columns:
            yield f"there is no dataset {name}"
            return
        for parameter in query.get("parameters", []):
            if parameter["keyword"] not in self.parameters[name]:
                yield f"the dataset {name} has no parameter {parameter['keyword']}"
        there = self.columns[name]
        for field in query.get("fields", []):
            try:
                used = {
                    one.name for one in sqlglot.parse_one(field["expression"], dialect=DIALECT).find_all(exp.Column)
                }
            except SqlglotError:
                yield f"{field['expression']} is no expression"
                continue
            for column in sorted(used - {*there} if there is not None else ()):
                yield f"the dataset {name} has no column {column}"


def _encodings(part: Any) -> Iterator[Mapping[str, Any]]:
    """Everything in the encodings that names a field or a parameter."""
    if isinstance(part, Mapping):
        if "fieldName" in part or "parameterName" in part:
            yield part
        part = list(part.values())
    if isinstance(part, list):
        for one in part:
            yield from _encodings(one)


def _places(page: Mapping[str, Any]) -> Iterator[str]:
    places = [(one["widget"]["name"], one["position"]) for one in page.get("layout", [])]
    wide = COLUMNS if page.get("layoutVersion") == "GRID_V1" else COLUMNS // 2
    for name, at in places:
        if at["x"] < 0 or at["y"] < 0 or min(at["width"], at["height"]) < 1 or at["x"] + at["width"] > wide:
            yield f"widget {name}: it is outside the {wide} columns of the page {page['name']}"
    for (one, a), (other, b) in combinations(places, 2):
        if _overlap(a, b, "x", "width") and _overlap(a, b, "y", "height"):
            yield f"widgets {one} and {other} overlap"


def _overlap(a: Mapping[str, int], b: Mapping[str, int], start: str, length: str) -> bool:
    return a[start] < b[start] + b[length] and b[start] < a[start] + a[length]


def _twice(names: Any) -> list[str]:
    found = list(names)
    return sorted({name for name in found if found.count(name) > 1})
