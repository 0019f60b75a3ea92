"""Errors of tables and the engine, LS5xx."""

from __future__ import annotations

from lakestreams.errors.base import LakestreamsError


class TableSchemaMismatch(LakestreamsError):
    """A table exists already and has other columns than the pipeline writes.

    A column that an output's table lacks is not an error: the run adds it.
    """

    code = "LS501"
    name = "TABLE_SCHEMA_MISMATCH"
    hint = "write to another table name, or move the old table away"


class LocationNotWritable(LakestreamsError):
    """A place cannot be written: the folder for tables, checkpoints or logs, or a command's file. Or the disk is full."""

    code = "LS502"
    name = "LOCATION_NOT_WRITABLE"
    hint = "choose a writable folder with --root, or correct its permissions"


class Fenced(LakestreamsError):
    """A newer driver has taken this pipeline over. This driver wrote nothing after that, and stops."""

    code = "LS503"
    name = "FENCED"
    hint = "let the newer driver run, and start only one driver for each pipeline"


class PlanUnderOtherConfig(LakestreamsError):
    """An earlier configuration published part of a cycle, or may have. The present one gives other results.

    A cycle without published rows continues under the changed configuration. So a change can correct what an
    expectation, `max_bad_share` or an expression stopped before the first row, also in a pipeline that writes topics. Once
    writing to a topic has begun, nothing can tell cheaply which of the cycle's records the topic holds.
    """

    code = "LS504"
    name = "PLAN_UNDER_OTHER_CONFIG"
    hint = "run once more with the earlier configuration, which finishes the cycle; then change it"


class IngestFailed(LakestreamsError):
    """The ingest query stopped with an error that lakestreams does not know."""

    code = "LS505"
    name = "INGEST_FAILED"
    hint = "the log file has the cause; nothing is lost: the next run continues after the last ingested offset"


class LedgerInconsistent(LakestreamsError):
    """The ledger contradicts itself or the bronze tables. Somebody changed them by hand, or restored a table."""

    code = "LS506"
    name = "LEDGER_INCONSISTENT"
    hint = "restore the ledger and the bronze tables to the same point in time"


class TableNameCollision(LakestreamsError):
    """Two topics or outputs would be written to the same table."""

    code = "LS507"
    name = "TABLE_NAME_COLLISION"
    hint = 'rename an output, or name a source\'s table: bronze="orders_2"'


class NothingToVerify(LakestreamsError):
    """No cycle is finished, no requested cycle is finished, or the requested cycles can no longer be evaluated."""

    code = "LS508"
    name = "NOTHING_TO_VERIFY"
    hint = "run the pipeline first; lakestreams status shows its cycles"


class NoSuchRecord(LakestreamsError):
    """Bronze has no record with this key or at this offset, and no output has a row with the key.

    A key is compared as text and by its columns. A record that is not yet ingested is not in bronze.
    """

    code = "LS509"
    name = "NO_SUCH_RECORD"
    hint = "check topic, partition and offset; lakestreams status shows how far each topic was ingested"


class BronzeTrimmed(LakestreamsError):
    """The command needs records that bronze no longer holds: it is trimmed up to a later cycle.

    `verify` and `why` reach back to the first cycle after the trim. The state of joins and aggregates is kept as of that
    cycle, for the topology and configuration of that time. It cannot be computed for others.
    """

    code = "LS510"
    name = "BRONZE_TRIMMED"
    hint = "ask for a later cycle"


class NothingToMaintain(LakestreamsError):
    """The pipeline has never run in this lake, so it has no tables there."""

    code = "LS511"
    name = "NOTHING_TO_MAINTAIN"
    hint = "run the pipeline first, or name its lake with --root or --catalog"


class TopologyChanged(LakestreamsError):
    """The pipeline has changed and would give other results than its tables hold.

    Nothing was written. A run would mix both in one table: earlier rows by the old rules, later rows by the new ones. A
    change that affects no row is never refused: settings, layouts, rules that only count, another spelling of the file.
    """

    code = "LS512"
    name = "TOPOLOGY_CHANGED"
    hint = (
        "run with --accept-change to keep earlier rows and use the new rules from here on. Give the pipeline and its outputs "
        "new names to compute everything again. Or run the earlier configuration"
    )


class TableDeleted(LakestreamsError):
    """A table that the pipeline has written to no longer exists.

    A new table would be empty, and the published rows would be missing without notice. The loss of an output can be
    accepted: it then starts empty. The loss of bronze cannot, because all results are computed from it.
    """

    code = "LS513"
    name = "TABLE_DELETED"
    hint = (
        "restore it (UNDROP TABLE, or a backup). Or read Kafka again from the start: give the pipeline and its outputs new "
        "names. To accept the loss of an output, run once with --accept-change"
    )


class TableChanged(LakestreamsError):
    """Somebody else replaced, restored or wrote to a table of the pipeline.

    Deletes, updates, appends and RESTORE by others are refused. OPTIMIZE, VACUUM, properties and added columns are allowed,
    because they change no row. A RESTORE to the version that the message names undoes the change.
    """

    code = "LS514"
    name = "TABLE_CHANGED"
    hint = "restore the earlier table; or, to accept the change, run once with --accept-change"


class TableOwned(LakestreamsError):
    """A table belongs to another pipeline, or to another topic or output of this one.

    The table's property `lakestreams.owner` names the owner. Two topics share a bronze table if their names differ only in
    characters that a table name cannot hold. So do two pipelines if name and topic, joined, read the same.
    """

    code = "LS515"
    name = "TABLE_OWNED"
    hint = "rename the pipeline, the topic or the output; or use another lake (--root or --catalog)"


class LedgerLost(LakestreamsError):
    """Tables hold rows of the pipeline that its ledger does not know.

    The ledger was deleted, emptied or restored to an older state. A driver that started again would reuse transaction
    numbers that Delta knows. Delta would skip what it appends under them.
    """

    code = "LS516"
    name = "LEDGER_LOST"
    hint = (
        "restore the ledger (UNDROP TABLE, RESTORE TABLE or a backup). Or read Kafka again from the start: give the "
        "pipeline and its outputs new names"
    )


class TableUnreadable(LakestreamsError):
    """A file of a table, or of its Delta log, is missing or damaged, or its storage does not give it."""

    code = "LS517"
    name = "TABLE_UNREADABLE"
    hint = (
        "see that the file is there and may be read. Else restore it from a backup. RESTORE TABLE gives an earlier version of "
        "the table"
    )
