"""A table's commits: which of them are ours, which leave rows as they are, and what others have changed.

Our appends carry a mark, Delta's `userMetadata`. Our merges and deletes are recognised by their conditions, which the
history keeps. `OPTIMIZE`, `VACUUM`, properties, statistics and added columns change no row. Anything else was not written
by this engine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakestreams.engine.runtime.table import MARK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.runtime.table import Table

_HARMLESS: Final = frozenset(
    {
        "OPTIMIZE", "AUTO COMPACTION", "REORG", "REORG TABLE UPGRADE UNIFORM", "VACUUM START", "VACUUM END",
        "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "CLUSTER BY", "ADD COLUMNS", "CHANGE COLUMN", "CHANGE COLUMNS",
        "UPDATE COLUMN METADATA", "UPDATE SCHEMA", "UPGRADE PROTOCOL", "ADD FEATURE", "DROP FEATURE",
        "ADD CONSTRAINT", "DROP CONSTRAINT", "COMPUTE STATS", "ANALYZE TABLE", "ROW TRACKING BACKFILL",
        "ROW TRACKING UNBACKFILL", "DOMAIN METADATA CLEANUP", "SET COLUMN DEFAULTS",
    }
)  # fmt: skip
_CREATED, _RESTORED, _SET = "CREATE TABLE", "RESTORE", "SET TBLPROPERTIES"
# How a table is overwritten whole: a folder is written to, and a catalog's table is replaced, or made, by the same statement.
_OVERWRITES: Final = frozenset(
    {"WRITE", "CREATE TABLE AS SELECT", "CREATE OR REPLACE TABLE AS SELECT", "REPLACE TABLE AS SELECT"}
)
_MERGED: Final = re.compile(r"\b_gone\b")  # the column by which `Table.merge` knows deletions
_UP_TO: Final = re.compile(r"\.cycle <= (\d+)L?\)")
_NEWEST: Final = 20
_SINCE: Final = 1_000  # commits that others may make between two looks


@dataclass(frozen=True)
class Commit:
    """One commit, as the table's history tells it.

    Attributes:
        version: of the table after it.
        operation: Delta's name of what was done.
        parameters: Delta's, as texts.
        mark: what the writer wrote next to it.
    """

    version: int
    operation: str
    parameters: Mapping[str, str | None] = field(default_factory=dict)
    mark: str | None = None

    @property
    def harmless(self) -> bool:
        """Whether every row is as it was."""
        return self.operation in _HARMLESS or (self.operation == _CREATED and self.version == 0)

    @property
    def ours(self) -> bool:
        """Whether the engine made it."""
        if self.operation == "WRITE":
            return (self.mark or "").startswith(MARK)
        if self.operation == "MERGE":
            matched = self.parameters.get("matchedPredicates") or ""
            return bool(_MERGED.search(matched)) or self._trims
        return self.operation == "DELETE" and self._trims

    @property
    def _trims(self) -> bool:
        """Whether it deletes by the coordinates that only bronze's trimming goes by."""
        predicate = self.parameters.get("predicate") or ""
        return "attempt" in predicate and ("offset" in predicate or "seq" in predicate)

    @property
    def appended(self) -> tuple[str, int] | None:
        """By which application and under which number of it rows of ours were appended; None: this is no append."""
        application, _, number = (self.mark or "").removeprefix(MARK).rpartition(" ")
        is_append = self.operation == "WRITE" and self.ours and number.isdecimal()
        return (application, int(number)) if is_append else None

    @property
    def merged_up_to(self) -> int | None:
        """Of a merge that is ours, the cycle (`Table.merge`); None: it does not tell."""
        found = _UP_TO.search(self.parameters.get("matchedPredicates") or "") if self.operation == "MERGE" else None
        return int(found[1]) if found is not None and self.ours else None

    @property
    def restored_to(self) -> int | None:
        """Which version a RESTORE has taken; None where it was asked for by time."""
        version = self.parameters.get("version")
        return int(version) if version else None


@dataclass(frozen=True)
class Change:
    """What others have done to a table.

    Attributes:
        commit: the first commit of theirs.
        good: the newest version that has all of our rows and nothing else; None if there is none any more.
    """

    commit: Commit
    good: int | None


def changed_by_others(commits: Sequence[Commit], since: int) -> Change | None:
    """What others have changed since a version, unless it was taken back by a RESTORE.

    A RESTORE takes a change back if it leads to a version that was good and lacks none of our rows.

    Args:
        commits: ascending; those up to `since` are passed over.
        since: the version that is known to be good.
    """
    good, ours = {since: True}, {since: since}  # version to whether it is good, and to our newest commit in it
    at, first = since, None
    for one in commits:
        if one.version <= since:
            continue
        good[one.version], ours[one.version] = good[at], ours[at]
        newest = max(ours.values())
        if one.operation == _RESTORED:
            to = _known(good, one.restored_to)
            good[one.version] = to is not None and good[to] and ours[to] == newest
            ours[one.version] = since if to is None else ours[to]
        elif not one.harmless and one.ours:
            ours[one.version] = one.version
        elif not one.harmless:
            good[one.version] = False
        if good[one.version]:
            first = None
        elif first is None:
            first = one
        at = one.version
    if first is None:
        return None
    newest = max(ours.values())
    left = [version for version, whole in good.items() if whole and ours[version] == newest]
    return Change(first, max(left, default=None))


def _known(good: Mapping[int, bool], version: int | None) -> int | None:
    """The version, or of those that were looked at the last one before it."""
    return max((one for one in good if version is not None and one <= version), default=None)


def not_undone(commits: Sequence[Commit]) -> list[Commit]:
    """Commits, ascending, without those that a RESTORE has taken back; where it does not tell its version, it may be any."""
    left: list[Commit] = []
    for one in commits:
        if one.operation == _RESTORED:
            left = [each for each in left if one.restored_to is not None and each.version <= one.restored_to]
        left.append(one)
    return left


def newest_property(commits: Sequence[Commit], name: str) -> str | None:
    """The value that a table's property was set to last; None if it was not set."""
    reported = (one.parameters.get("properties") for one in commits if one.operation == _SET)
    values = [json.loads(text).get(name) for text in reported if text]
    return next((str(value) for value in reversed(values) if value is not None), None)


def appended_by(commits: Sequence[Commit], pipeline: str) -> list[tuple[str, int]]:
    """The application, without the pipeline's name, and the number of each of a pipeline's own appends."""
    appends = [one.appended for one in commits]
    own = f"{pipeline}/"
    return [(one[0].removeprefix(own), one[1]) for one in appends if one is not None and one[0].startswith(own)]


def read(spark: SparkSession, table: Table, limit: int | None = None) -> list[Commit]:
    """The newest commits of a table, ascending; by default all that its history has.

    Of a folder its log is read as files: a query per table and start takes a second of a laptop's cores.
    """
    if table.path is not None:
        return [_of_file(file) for file in _files(table.path)[-(limit or 0) :]]
    newest = "" if limit is None else f" LIMIT {limit}"
    rows = spark.sql(f"DESCRIBE HISTORY {table.reference}{newest}")
    commits = rows.select("version", "operation", "operationParameters", "userMetadata").collect()
    return sorted((_commit(row) for row in commits), key=lambda one: one.version)


def since(spark: SparkSession, table: Table, newest: Sequence[Commit], version: int) -> list[Commit]:
    """All commits behind a version, those of `newest` among them; asks once more only if these do not reach back."""
    if newest[0].version <= version + 1:
        return [one for one in newest if one.version > version]
    return [one for one in read(spark, table, newest[-1].version - version + _SINCE) if one.version > version]


def holds(spark: SparkSession, table: Table, mark: str, *, or_older: bool = False) -> bool:
    """Whether a table, which is overwritten whole, has what was written under a mark and nothing else.

    Args:
        or_older: what to say where the history does not go back to any commit that changed rows: Delta keeps 30 days of it.
    """
    commits: list[Commit] = []
    for limit in (_NEWEST, None):
        commits = read(spark, table, limit)
        changing = [one for one in commits if not one.harmless]
        if changing:
            return changing[-1].operation in _OVERWRITES and changing[-1].mark == mark
    return or_older and bool(commits) and commits[0].version > 0


@dataclass(frozen=True)
class Identity:
    """What a table is.

    Attributes:
        table_id: Delta's id of it.
        properties: Delta's table properties.
        files: how many files its newest version has.
    """

    table_id: str
    properties: Mapping[str, str]
    files: int


def began_as(table: Table) -> str | None:
    """The id of the table that a folder's log begins with; None: nothing tells, as it does not go back to its beginning.

    What came in its place since then stands in its history.
    """
    files = _files(table.path)[:1] if table.path is not None else []
    if not files or int(files[0].stem) > 0:
        return None
    return next((str(one["metaData"]["id"]) for one in _actions(files[0]) if "metaData" in one), None)


def identity(spark: SparkSession, table: Table) -> Identity:
    """What a table is: of a folder by its log, if that goes back to its creation, else as Delta says."""
    files = _files(table.path) if table.path is not None else []
    if files and int(files[0].stem) == 0:
        return _by_log(files)
    (detail,) = spark.sql(f"DESCRIBE DETAIL {table.reference}").select("id", "properties", "numFiles").collect()
    return Identity(detail["id"], dict(detail["properties"] or {}), int(detail["numFiles"] or 0))


def _by_log(files: Sequence[Path]) -> Identity:
    metadata: dict[str, Any] = {}
    live: set[str] = set()
    for file in files:
        actions = list(_actions(file))
        metadata = next((one["metaData"] for one in actions if "metaData" in one), metadata)
        # a deletion vector removes a file and adds it again in one commit
        live -= {one["remove"]["path"] for one in actions if "remove" in one}
        live |= {one["add"]["path"] for one in actions if "add" in one}
    return Identity(metadata.get("id", ""), dict(metadata.get("configuration") or {}), len(live))


def _files(path: str) -> list[Path]:
    """A table's commits that its log still has, ascending."""
    return sorted(file for file in (Path(path) / "_delta_log").glob("[0-9]*.json") if file.stem.isdecimal())


def _actions(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def _of_file(file: Path) -> Commit:
    """One commit; a file without its information was written by somebody who does not say what was done."""
    info: dict[str, Any] = next((one["commitInfo"] for one in _actions(file) if "commitInfo" in one), {})
    parameters = {
        name: value if value is None or isinstance(value, str) else json.dumps(value)
        for name, value in (info.get("operationParameters") or {}).items()
    }
    return Commit(int(file.stem), info.get("operation", ""), parameters, info.get("userMetadata"))


def _commit(row: Any) -> Commit:
    return Commit(row["version"], row["operation"], dict(row["operationParameters"] or {}), row["userMetadata"])
