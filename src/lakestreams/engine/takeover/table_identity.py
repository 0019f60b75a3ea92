"""What each table of a pipeline is, compared with what the ledger says of it, before a driver writes anything.

The row by which a driver takes a pipeline over says of each table its Delta id and the version that was seen. The next
start compares both, and reads the commits since: a table that others have deleted, replaced, restored or written to is
refused. Each bronze table and output carries the name of its owner, and no other pipeline writes to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from lakestreams.engine.ledger import fence
from lakestreams.engine.ledger.plans import History, KnownTable
from lakestreams.engine.protocol import decisions, unchanged
from lakestreams.engine.publish import event_log, orphans, quarantine
from lakestreams.engine.replay import requests as replays
from lakestreams.engine.runtime import commits
from lakestreams.engine.runtime.commits import Commit
from lakestreams.engine.runtime.lake import OWNER, owned_by
from lakestreams.engine.runtime.parallel import in_parallel
from lakestreams.engine.runtime.table import Table
from lakestreams.errors import LakestreamsError, LedgerLost, TableChanged, TableDeleted, TableOwned
from lakestreams.topology.expectations import ForeignKeyExists

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.ledger.ledger import Ledger
    from lakestreams.topology.topology import Topology

Role = Literal["ledger", "epochs", "control", "bronze", "output"]
_NEWEST: Final = 50  # commits that the first look reads
# Tables whose appends are numbered by cycles, as those of outputs are.
_BY_CYCLE: Final = ("control quarantine", "control events")
_SEALED: Final = "lakestreams.sealed."


@dataclass(frozen=True)
class Look:
    """One table as it is.

    Attributes:
        key: by which the ledger knows it, wherever the lake lies.
        role: what the engine has it for.
        table: where it is.
        owner: of a bronze table or an output, what its owner is called; "": it is shared.
        table_id: Delta's id of it; "": it is not there.
        properties: Delta's table properties.
        files: how many files its newest version has; 0 where that was not asked, since the ledger knows the table.
        written_by: the newest epoch of the pipeline that the table shows.
        cycle: the newest cycle of the pipeline that the table shows.
        commits: its newest ones, ascending.
    """

    key: str
    role: Role
    table: Table
    owner: str = ""
    table_id: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    files: int = 0
    written_by: int = 0
    cycle: int = 0
    commits: Sequence[Commit] = ()

    @property
    def exists(self) -> bool:
        """Whether the table is there."""
        return bool(self.table_id)

    @property
    def version(self) -> int:
        """The newest version."""
        return self.commits[-1].version if self.commits else 0


@dataclass(frozen=True)
class TablesBefore:
    """All tables of a pipeline, as they were before it was taken over."""

    pipeline: str
    looks: Sequence[Look]

    @property
    def has_ledger(self) -> bool:
        """Whether there is a ledger."""
        return any(one.role == "ledger" and one.exists for one in self.looks)

    def require_own(self) -> None:
        """Refuses tables that belong to another pipeline, or to another topic or output.

        Raises:
            TableOwned: naming both.
        """
        for one in self.looks:
            owner = one.properties.get(OWNER)
            if one.owner and owner is not None and owner != one.owner:
                message = f"table {one.table.name} belongs to {owner}; {one.owner} would be written to it, too"
                raise TableOwned(message, where=one.table.path or one.table.reference)

    def beyond(self, history: History) -> list[Look]:
        """The tables that show a later epoch or cycle, or have records where the ledger knows of no run."""
        return [
            one
            for one in self.looks
            if unchanged.ledger_lost(
                history,
                written_by=one.written_by,
                cycle=one.cycle,
                has_records=one.role == "bronze" and bool(one.files),
            )
        ]

    def require_ledger(self, history: History) -> None:
        """Refuses to start again, or from an older state, where tables hold what a later epoch has written.

        Args:
            history: what the ledger knows.

        Raises:
            LedgerLost: naming a table that shows it.
        """
        epoch, plan = history.epoch, history.plan
        for one in self.beyond(history):
            if one.written_by > epoch:
                knows = f"knows only {epoch}" if epoch else "knows no epoch of it"
                what = f"epoch {one.written_by} of {self.pipeline} has written to {one.table.name}"
            elif epoch:
                knows = f"knows only {plan.cycle}" if plan is not None else "knows none"
                what = f"cycle {one.cycle} of {self.pipeline} has written to {one.table.name}"
            else:
                knows = "does not know the pipeline"
                what = f"{one.table.name} has records of {self.pipeline}"
            message = f"{what}, but the ledger {knows}"
            raise LedgerLost(message)

    def faults(self, spark: SparkSession, history: History) -> list[Fault]:
        """What others have done to the tables since the ledger wrote them down."""
        return [
            Fault(one, error)
            for one in self.looks
            if one.role != "epochs"
            for error in [_fault(spark, one, history)]
            if error is not None
        ]

    def epochs_changed(self, spark: SparkSession, history: History) -> bool:
        """Whether the table of epochs may say something else than the ledger, which decides."""
        return any(one.role == "epochs" and _fault(spark, one, history) is not None for one in self.looks)

    def as_known(self, spark: SparkSession, history: History) -> dict[str, KnownTable]:
        """What the ledger is to know of the tables; those that were created since the look are looked at now.

        Raises:
            TableOwned: if another pipeline has created one of them first.
        """
        new = [one for one in self.looks if not one.exists and one.table.exists(spark)]
        created = replace(self, looks=in_parallel(spark, [partial(_looked, spark, one, self.pipeline) for one in new]))
        created.require_own()
        existing = [one for one in self.looks if one.exists] + [
            replace(one, commits=one.commits[:1]) for one in created.looks
        ]
        return {**history.tables, **{one.key: KnownTable(one.table_id, one.version) for one in existing}}

    def own(self, spark: SparkSession) -> None:
        """Writes the owner into tables that were made before there was such a property."""
        lacking = [one for one in self.looks if one.owner and one.exists and OWNER not in one.properties]
        in_parallel(spark, [partial(one.table.set_properties, spark, {OWNER: one.owner}) for one in lacking])


@dataclass(frozen=True)
class Fault:
    """What is wrong with one table.

    Attributes:
        look: the table.
        error: what is wrong.
    """

    look: Look
    error: LakestreamsError

    @property
    def acceptable(self) -> bool:
        """Whether the operator may say that it is meant: without bronze nothing could be computed."""
        return self.look.exists or self.look.role in ("control", "output")


@dataclass(frozen=True)
class Known:
    """What the ledger says, of tables that are what it says of them.

    Attributes:
        tables: as they are.
        history: what the ledger says; behind every epoch that fences know.
        accepted: what others have done and the operator has accepted, in words.
    """

    tables: TablesBefore
    history: History
    accepted: list[str]


def known(spark: SparkSession, ledger: Ledger, topology: Topology, *, accept: bool) -> Known:
    """Looks at a pipeline's tables before anything is created or written, and refuses what others have changed.

    Args:
        accept: whether the operator says that changes are meant.

    Raises:
        TableOwned, LedgerLost, TableDeleted, TableChanged
    """
    history = History()
    if ledger.table.exists(spark):
        ledger.create(spark)  # adds the columns that an older version's lacks
        history = ledger.history(spark)
    tables = look(spark, ledger, topology, history.tables)
    tables.require_own()
    if tables.has_ledger and tables.beyond(history):
        # another driver may have gone on between the two: what it has written by then is in the ledger before
        history = ledger.history(spark)
        tables.require_ledger(history)
        tables = look(spark, ledger, topology, history.tables)
    else:
        tables.require_ledger(history)
    if not history.epoch or tables.epochs_changed(spark, history):
        history = _beyond_epochs(spark, ledger, history, has_ledger=tables.has_ledger)
    faults = tables.faults(spark, history)
    accepted = refuse(faults, accept=accept)
    if faults:  # what the claim says of them is what they are now
        changed = {one.look.key for one in faults}
        looks = [replace(one, table_id=_id_of(spark, one)) if one.key in changed else one for one in tables.looks]
        tables = replace(tables, looks=looks)
    return Known(tables, history, accepted)


def _id_of(spark: SparkSession, one: Look) -> str:
    return commits.identity(spark, one.table).table_id if one.exists else ""


def _beyond_epochs(spark: SparkSession, ledger: Ledger, history: History, *, has_ledger: bool) -> History:
    """The history, which goes on behind every epoch that fences know.

    Raises:
        LedgerLost: if the ledger knows nothing of a pipeline of which they know.
    """
    newest = fence.newest(spark, ledger.lake, ledger.pipeline, ledger.role)
    if newest and not history.epoch and has_ledger:  # another driver may have begun meanwhile
        history = ledger.history(spark)
    if newest and not history.epoch:
        message = f"{ledger.pipeline} has begun epoch {newest}, but the ledger does not know the pipeline"
        raise LedgerLost(message)
    return replace(history, epoch=max(newest, history.epoch))


def look(
    spark: SparkSession, ledger: Ledger, topology: Topology, known: Mapping[str, KnownTable] | None = None
) -> TablesBefore:
    """Looks at every table of a pipeline, in parallel; writes nothing.

    Args:
        known: what the ledger says of the tables, by their keys.
    """
    known = known or {}
    lake, name = ledger.lake, topology.name
    listed = any(isinstance(what, ForeignKeyExists) for _, what in topology.expectations.invariants)
    control = [quarantine.table(ledger), event_log.table(ledger), replays.table(ledger)]
    looks = [
        Look("ledger", "ledger", ledger.table),
        Look("epochs", "epochs", fence.table(lake)),
        *(Look(f"control {one.name}", "control", one) for one in control),
        *([Look("control orphans", "control", orphans.table(ledger))] if listed else []),
        *(
            Look(f"topic {one.topic}", "bronze", lake.bronze(name, one.topic), owned_by(name, f"topic {one.topic}"))
            for one in topology.sources
        ),
        *(
            Look(f"output {one.name}", "output", lake.output(one.name), owned_by(name, f"output {one.name.lower()}"))
            for one in topology.sinks
        ),
    ]
    asked = [partial(_looked, spark, one, name, known.get(one.key)) for one in looks]
    return TablesBefore(name, in_parallel(spark, asked))


def refuse(faults: Sequence[Fault], *, accept: bool) -> list[str]:
    """Raises what others have done, unless the operator says that it is meant: then it is reported.

    Raises:
        TableDeleted, TableChanged: with every table that the first one's kind befell.
    """
    refused = [one for one in faults if not (accept and one.acceptable)]
    if refused:
        first = refused[0].error
        alike = [one.error for one in refused if type(one.error) is type(first)]
        message = "\n".join(str(one.message) for one in alike)
        raise type(first)(message, hint=first.hint, where=first.where)
    return [f"accepted as it is: {one.error.message}" for one in faults]


def _looked(spark: SparkSession, one: Look, pipeline: str, known: KnownTable | None = None) -> Look:
    """The table as it is: of a folder that the ledger knows by its log alone, if that tells enough."""
    if not one.table.exists(spark):
        return one
    newest = commits.read(spark, one.table, _NEWEST)
    seal = f"{_SEALED}{pipeline}"
    if known is not None and _is_still(one.table, known, newest, pipeline):
        properties = {OWNER: one.owner} if one.owner else {}
        it = commits.Identity(known.table_id, properties, 0)
        sealed = commits.newest_property(commits.not_undone(newest), seal)
    else:
        it = commits.identity(spark, one.table)
        sealed = it.properties.get(seal)
    epoch, cycle = _shown(one, newest, pipeline)
    return replace(
        one, table_id=it.table_id, properties=it.properties, files=it.files, commits=newest,
        written_by=max(int(sealed or 0), epoch), cycle=cycle,
    )  # fmt: skip


def _is_still(table: Table, known: KnownTable, newest: Sequence[Commit], pipeline: str) -> bool:
    """Whether a folder's log alone tells that it is the table that the ledger knows.

    Where it does not go back to its beginning, an append of the pipeline behind what the ledger knows tells it: the log of a table
    that somebody has created again meanwhile does.
    """
    since = [one for one in newest if one.version > known.version]
    if table.path is None or any(not one.harmless and not one.ours for one in since):
        return False
    first = commits.began_as(table)
    return first == known.table_id if first is not None else bool(commits.appended_by(since, pipeline))


def _shown(one: Look, newest: Sequence[Commit], pipeline: str) -> tuple[int, int]:
    """The newest epoch and the newest cycle of the pipeline that a table's commits show; 0: none."""
    there = commits.not_undone(newest)
    appended = commits.appended_by(there, pipeline)
    epochs = [decisions.epoch_in(number) for _, number in appended] if one.role == "bronze" else []
    if one.role != "output" and one.key not in _BY_CYCLE:
        return max(epochs, default=0), 0
    merged = [each.merged_up_to or 0 for each in there] if one.role == "output" else []
    return 0, max([number for _, number in appended] + merged, default=0)


def _fault(spark: SparkSession, one: Look, history: History) -> LakestreamsError | None:
    known = history.tables.get(one.key)
    where: dict[str, Any] = {"where": one.table.path or one.table.reference}
    if not one.exists:
        read = {f"topic {part.topic}" for part in (history.ingest.ranges if history.ingest else ()) if part.to_offset}
        if known is None and one.key not in read:
            return None
        return TableDeleted(f"table {one.table.name} existed when the pipeline last ran, and is missing now", **where)
    if known is None:
        return None
    fault = unchanged.table_fault(known, one.table_id, one.version)
    if fault == "replaced":
        message = (
            f"table {one.table.name} was replaced: it is not the one that the pipeline wrote to (id {one.table_id}, "
        )
        return TableChanged(f"{message}then {known.table_id})", hint=_put_back(one), **where)
    if fault == "put back":
        message = f"table {one.table.name} has version {one.version}; the pipeline has seen version {known.version}"
        return TableChanged(message, hint=_put_back(one), **where)
    change = commits.changed_by_others(commits.since(spark, one.table, one.commits, known.version), known.version)
    if change is None:
        return None
    done = change.commit
    message = f"table {one.table.name} was changed by others: {done.operation} in version {done.version}"
    hint = _put_back(one)
    if change.good is not None:
        hint = (
            f"RESTORE TABLE {one.table.reference} TO VERSION AS OF {change.good} undoes it; "
            "or, to accept the change, run once with --accept-change"
        )
    return TableChanged(message, hint=hint, **where)


def _put_back(one: Look) -> str:
    name = one.table.name
    return f"restore the earlier {name}; or, to accept the change, run once with --accept-change"
