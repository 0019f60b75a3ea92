"""`lakestreams show`: a table of the lake, its newest rows first; or which tables there are."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from lakestreams.cli.screen import Screen, table
from lakestreams.errors import DeltaTableMissing, InvalidExpression, InvalidOption, LakestreamsError, TopologyInvalid
from lakestreams.expressions.parse import compile_expression
from lakestreams.run import failure
from lakestreams.run.options import LakeOptions
from lakestreams.run.runner import open_lake, open_session
from lakestreams.sql import quoted
from lakestreams.times import alone, both
from lakestreams.topology.fields import Fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.engine.runtime.table import Table
    from lakestreams.expressions.parse import Expression

_EVENT_TIME: Final = "event_time_ms"
_OWN: Final = "_lineage"
_MOST: Final = 2**31 - 2  # rows that Spark can be asked for
_UNORDERED: Final = re.compile("map<|variant")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?")


@dataclass(frozen=True)
class Wanted:
    """Which rows of a table.

    Attributes:
        limit: how many at most.
        condition: SQL that is true of them; None: all.
        as_of: a version or a time of the table; None: now.
    """

    limit: int = 20
    condition: str | None = None
    as_of: str | None = None


def run(screen: Screen, options: LakeOptions, name: str | None, wanted: Wanted) -> int:
    """Shows a table, or lists the tables; returns the exit code.

    Raises:
        DeltaTableMissing: if there is no such table.
        ExpressionRefused, UnknownColumn, InvalidOption: for what cannot be asked of it.
    """
    lake = open_lake(options)
    condition = None if wanted.condition is None else compile_expression(wanted.condition, "--where")
    version = {} if wanted.as_of is None else _version(wanted.as_of)
    if name is not None and lake.catalog is None:  # known before a session is started
        known = list(_folders(lake))
        name = _whole(lake, name, known)
        _require(lake, name, known)
    if name is None and lake.catalog is None:
        return _list(screen, lake, list(_folders(lake)))
    with screen.working("starting Spark"):
        spark = open_session(ends=screen.ends, quick=True, lake=lake, progress=screen.say)
    if name is None:
        return _list(screen, lake, _of_catalog(spark, lake))
    table = _table(lake, name)
    if not table.exists(spark):
        known = _of_catalog(spark, lake)
        table = _table(lake, _whole(lake, name, known))
        if not table.exists(spark):
            raise _missing(lake, name, known)
    with screen.working(f"reading {table.name}"):
        rows, more = _rows(spark, table, wanted, condition, version)
    _show(screen, table.name, rows, more=more)
    screen.result({"table": table.name, "rows": rows, "more": more})
    return failure.OK


# --- tables ----------------------------------------------------------------------------------------------------------


def _folders(lake: Lake) -> Iterator[str]:
    """Every table of a lake of folders, named by its folders."""
    root = Path(lake.root)
    for log in sorted(root.glob("**/_delta_log")):
        name = ".".join(log.parent.relative_to(root).parts)
        if name and any(log.glob("[0-9]*.json")):
            yield name


def _of_catalog(spark: SparkSession, lake: Lake) -> list[str]:
    names = []
    for schema in (lake.bronze_schema, lake.silver_schema, lake.control_schema):
        place = quoted(str(lake.catalog), schema)
        if spark.catalog.databaseExists(place):
            names += [f"{schema}.{one['tableName']}" for one in spark.sql(f"SHOW TABLES IN {place}").collect()]
    return sorted(names)


def _whole(lake: Lake, name: str, known: list[str]) -> str:
    """A name with its schema if it has none, no output is called so, and one table of another schema is."""
    others = [one for one in known if one.rpartition(".")[2] == name]
    return others[0] if len(others) == 1 and f"{lake.silver_schema}.{name}" not in known else name


def _table(lake: Lake, name: str) -> Table:
    """A table by its name; one that names no schema is an output."""
    schema, _, own = name.rpartition(".")
    return lake.control(own) if schema == lake.control_schema else lake.output(name)


def _require(lake: Lake, name: str, known: list[str]) -> None:
    path = _table(lake, name).path
    if path is None or not any((Path(path) / "_delta_log").glob("[0-9]*.json")):
        raise _missing(lake, name, known)


def _missing(lake: Lake, name: str, known: list[str]) -> DeltaTableMissing:
    called = {one.rpartition(".")[2]: one for one in known} | {one: one for one in known}
    near = difflib.get_close_matches(name, called, n=1)
    hint = f"did you mean {called[near[0]]}? " if near else ""
    hint += f"there are: {', '.join(known)}" if known else "run a pipeline first, or name another lake: --root FOLDER"
    return DeltaTableMissing(f"there is no table {name} in {lake.catalog or lake.root}", hint=hint)


def _list(screen: Screen, lake: Lake, known: list[str]) -> int:
    screen.say("\n".join(known) or f"no table in {lake.catalog or lake.root} yet")
    screen.result({"root": lake.root, "catalog": lake.catalog, "tables": known})
    return failure.OK


# --- rows ------------------------------------------------------------------------------------------------------------


def _version(text: str) -> dict[str, str]:
    """A version or a time as an option of Delta's reader.

    Raises:
        InvalidOption: if the text is neither.
    """
    if text.isascii() and text.isdigit() and int(text) < 2**63:
        return {"versionAsOf": text}
    if _MOMENT.fullmatch(text):
        return {"timestampAsOf": text}
    raise InvalidOption(f"--as-of {text!r} is no version and no time", hint="such as 12, or 2026-01-31T12:00:00Z")


def _rows(
    spark: SparkSession, table: Table, wanted: Wanted, condition: Expression | None, version: dict[str, str]
) -> tuple[list[dict[str, Any]], bool]:
    """The rows, as people and programs read them, and whether there are more."""
    from lakestreams.verify.readable import readable_value  # noqa: PLC0415 - not for --help

    try:
        reader = spark.read.options(**version)
        frame = reader.format("delta").load(table.path) if table.path else reader.table(table.reference)
        if condition is not None:
            frame = frame.where(_fulfilled(frame, table.name, condition))
        rows = frame.orderBy(*_order(frame)).limit(min(wanted.limit, _MOST) + 1).collect()
    except LakestreamsError:
        raise
    except Exception as error:
        if version and re.search("version|timestamp", str(error), re.IGNORECASE):
            raise InvalidOption(_first_line(error), hint="DESCRIBE HISTORY of the table has its versions") from error
        if condition is not None:
            raise InvalidExpression(_first_line(error), where="--where") from error
        raise
    return [readable_value(row, frame.schema) for row in rows[: wanted.limit]], len(rows) > wanted.limit


def _fulfilled(frame: DataFrame, name: str, condition: Expression) -> Any:
    faults: list[LakestreamsError] = []
    types = {one.name: one.dataType.simpleString() for one in frame.schema.fields}
    column = condition.column({name: Fields(name, {one: quoted(one) for one in types}, faults, "--where", types)})
    if faults:
        raise faults[0] if len(faults) == 1 else TopologyInvalid(faults)
    return column


def _order(frame: DataFrame) -> list[Any]:
    """The newest first, then by the other columns, so that the same table shows the same rows."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - needs pyspark

    names = [one.name for one in frame.schema.fields if not _UNORDERED.search(one.dataType.simpleString())]
    newest = [F.col(_EVENT_TIME).desc_nulls_last()] if _EVENT_TIME in names else []
    return newest + [F.col(quoted(name)) for name in names if name != _EVENT_TIME]


def _first_line(error: Exception) -> str:
    return re.sub(r"^\[[A-Z0-9_.]+\] | SQLSTATE: \w+;?.*$", "", str(error).strip().splitlines()[0])


# --- showing ---------------------------------------------------------------------------------------------------------


def _show(screen: Screen, name: str, rows: list[dict[str, Any]], *, more: bool) -> None:
    if not rows:
        screen.say(f"{name}: no row")
        return
    columns = [one for one in rows[0] if one != _OWN]
    numbers = [one for one in columns if all(isinstance(row[one], int | float) for row in rows) and not _is_time(one)]
    whole, short = (
        table(
            *columns,
            title=name,
            rows=[[_cell(one, row[one], moment) for one in columns] for row in rows],
            right=numbers,
        )
        for moment in (both, alone)
    )
    narrow = not whole.fits(screen.console)
    screen.show(short if narrow else whole)
    notes = [f"the first {len(rows)} rows; --limit shows more"] if more else []
    notes += [f"{_OWN} is left out; --json has it"] if len(columns) < len(rows[0]) else []
    if narrow and any(map(_is_time, columns)):
        notes.append("times are without milliseconds: the screen is narrow; --json has them")
    for note in notes:
        screen.say(Text(note, style="dim"))


def _is_time(column: str) -> bool:
    return column.endswith("_ms")


def _cell(column: str, value: Any, moment: Callable[[int], str]) -> object:
    if value is None:
        return None
    if _is_time(column) and isinstance(value, int) and value > 10**11:
        return moment(value)
    return str(value)
