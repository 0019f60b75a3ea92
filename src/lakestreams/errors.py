"""Every error a user can meet: one base class, a stable code, a message in the user's words, a hint that can be acted on.

The classes are the catalogue: `docs/errors/` has a page for each code, made from the docstrings below, and a test
keeps the two together. Codes never change their meaning; a new kind of fault gets a new code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from lakestreams.visible import visible, visible_lines


class LakestreamsError(Exception):
    """Base of all errors that lakestreams raises on purpose.

    Args:
        message: what is wrong, naming the user's thing.
        hint: what to do about it; defaults to the class's hint.
        where: where the user wrote it (file:line, step or node), if known.
    """

    code: ClassVar[str] = "LS000"
    name: ClassVar[str] = "LAKESTREAMS"
    hint: str = "Please report this with the log file."

    def __init__(self, message: str, hint: str | None = None, where: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        if hint is not None:
            self.hint = hint

    def __str__(self) -> str:
        """The error as it is printed: code and place, message, fix, page."""
        place = f"   {self.where}" if self.where else ""
        body = "\n".join(f"  {line}" for line in visible_lines(self.message).splitlines())
        page = f"docs/errors/{self.code}.md"
        return f"{self.code} {self.name}{visible(place)}\n{body}\n  Fix: {visible_lines(self.hint)}        {page}"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles by its parts: errors cross process borders inside foreachBatch."""
        return (type(self), (self.message, self.hint, self.where))

    def as_dict(self) -> dict[str, str | None]:
        """The error for `--json`: code, name, message, hint, where."""
        return {
            "code": self.code,
            "name": self.name,
            "message": self.message,
            "hint": self.hint,
            "where": self.where,
        }


# --- LS1xx: the topology -------------------------------------------------------------------------------------------


class TopologyInvalid(LakestreamsError):
    """The topology has faults; all of them are listed at once, each with its own code.

    Nothing was started. Mend each listed fault; the checks run again at the next `check` or `run`.
    """

    code = "LS100"
    name = "TOPOLOGY_INVALID"
    hint = "mend each of the faults above"

    def __init__(self, faults: Sequence[LakestreamsError], pipeline: str = "") -> None:
        self.faults = tuple(faults)
        self.pipeline = pipeline
        super().__init__(
            "\n".join(str(fault) for fault in self.faults), where=f"pipeline {pipeline!r}" if pipeline else None
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles by its faults."""
        return (type(self), (self.faults, self.pipeline))

    def __str__(self) -> str:
        """One fault prints as itself; several print below a headline."""
        if len(self.faults) == 1:
            return str(self.faults[0])
        head = f"{self.code} {self.name}   {self.where or ''}".rstrip()
        return f"{head}: {len(self.faults)} faults\n" + "\n".join(str(fault) for fault in self.faults)


class UnnamedNode(LakestreamsError):
    """A node has no name. Names appear in errors, tables, metrics and drawings, so every node carries one."""

    code = "LS101"
    name = "UNNAMED_NODE"
    hint = "pass name=... with a non-empty text"


class DuplicateName(LakestreamsError):
    """Two nodes, two sources of one topic, or two outputs carry the same name."""

    code = "LS102"
    name = "DUPLICATE_NAME"
    hint = "give each node, topic and output a name of its own"


class KeyTypeMismatch(LakestreamsError):
    """The two sides of a join have keys of different types, so no two keys could ever be equal.

    A bigint 1 and a text "1" are different bytes in Kafka and different values here.
    """

    code = "LS103"
    name = "KEY_TYPE_MISMATCH"
    hint = "declare the same key format on both sides, or select_key(...) with a cast on one of them"


class CoPartitioningRequired(LakestreamsError):
    """The two sides of a join by key have different partition counts.

    Joins here are by key whatever the partition, so the result would be right; but the partition decides the task,
    that is clock and order, and a Kafka Streams consumer of the same topics would refuse them. Hence Kafka's rule is
    the default. `co_partitioning="warn"` or `"off"` on the join accepts unequal counts.
    A table that is read as a global one (`kind: global_table`, `builder.global_table`) has no partitions to compare;
    the stream's join with it then says `left_on`.
    """

    code = "LS104"
    name = "CO_PARTITIONING_REQUIRED"
    hint = "equal counts | repartition one side | kind: global_table"

    def __init__(
        self, message: str, hint: str | None = None, where: str | None = None, *, left: str = "", right: str = ""
    ) -> None:
        super().__init__(message, hint, where)
        self.left = left
        self.right = right


class UnknownColumn(LakestreamsError):
    """A function or expression uses a column that its input does not have."""

    code = "LS105"
    name = "UNKNOWN_COLUMN"
    hint = "use one of the input's columns"


class InvalidFormat(LakestreamsError):
    """A key or value format is declared with a schema that cannot be read, or with names that clash."""

    code = "LS106"
    name = "INVALID_FORMAT"
    hint = 'declare it like Json("ms int, page string")'


class InvalidDuration(LakestreamsError):
    """A duration is not a number with a unit (ms, seconds, minutes, hours, days) or a timedelta."""

    code = "LS107"
    name = "INVALID_DURATION"
    hint = 'write it like "10 minutes" or timedelta(minutes=10)'


class InvalidName(LakestreamsError):
    """A pipeline, schema, table or column name has characters that tables and folders cannot carry."""

    code = "LS108"
    name = "INVALID_NAME"
    hint = "letters, digits and _ only, not starting with a digit; tables have up to three parts joined by dots"


class NoOutput(LakestreamsError):
    """The topology writes nothing: no stream or table of it ends in to_delta(...) or to_kafka(...)."""

    code = "LS109"
    name = "NO_OUTPUT"
    hint = 'end a stream with .to_delta("silver.name")'


class InvalidExpression(LakestreamsError):
    """A function or expression cannot be evaluated over its input (wrong types, wrong result)."""

    code = "LS110"
    name = "INVALID_EXPRESSION"
    hint = "the message of Spark's analyser above says what does not fit"


class MixedBuilders(LakestreamsError):
    """Streams of two builders are joined; a topology has one builder."""

    code = "LS111"
    name = "MIXED_BUILDERS"
    hint = "declare both sides on one StreamsBuilder"


class InvalidOption(LakestreamsError):
    """An option of a source, join or output has a value outside its choices, or one that contradicts another."""

    code = "LS112"
    name = "INVALID_OPTION"
    hint = "use one of the listed choices"


class WrongKind(LakestreamsError):
    """A step or join is given a stream where it takes a table, or the other way round; or no such join exists.

    Streams join streams (inner, left, outer), tables and global tables (inner, left). Tables join tables by key
    (inner, left, outer) or by foreign key (inner, left). A global table is only ever the right side of a stream.
    """

    code = "LS113"
    name = "WRONG_KIND"
    hint = "declare the topic as what the step takes: stream(...), table(...) or global_table(...)"


class OwnTopic(LakestreamsError):
    """A pipeline writes to a topic that it reads: every run would read the results of the one before."""

    code = "LS114"
    name = "OWN_TOPIC"
    hint = "write to another topic; another pipeline can read it"


class FormatUnfit(LakestreamsError):
    """A format cannot write what an output to Kafka is given.

    `Text`, `Json` and the formats of one number, UUID or scalar can be written, the others are for reading only. What a
    value's format names are columns of the result's value, or `event_time_ms`, the result's time; a key's format names
    all columns of the key, since two keys must not become one. The types are the result's own: nothing is cast in
    silence.
    """

    code = "LS115"
    name = "FORMAT_UNFIT"
    hint = "declare the columns as the result has them, or leave the format out: then all of them are written as JSON"


# --- LS2xx: configuration ------------------------------------------------------------------------------------------


class ConfigUnreadable(LakestreamsError):
    """A configuration file is missing, too large, or not YAML."""

    code = "LS201"
    name = "CONFIG_UNREADABLE"
    hint = "check the path and the YAML at the given line"


class UnknownKey(LakestreamsError):
    """A configuration file has a key that does not exist; the nearest known one is named."""

    code = "LS202"
    name = "UNKNOWN_KEY"
    hint = "use the nearest known key, or remove it"


class ConfigInvalid(LakestreamsError):
    """A configuration value has the wrong type or is outside its choices."""

    code = "LS203"
    name = "CONFIG_INVALID"
    hint = "see the JSON Schema: lakestreams schema"


class ExpressionRefused(LakestreamsError):
    """A SQL expression in the configuration is not on the allow-list.

    Expressions are code: functions that run programs, read files or tables, or give another answer each time are
    refused, as is anything that is not a plain expression over the columns of its step.
    """

    code = "LS204"
    name = "EXPRESSION_REFUSED"
    hint = "use plain expressions over columns with functions of the allow-list (docs/expressions.md)"


class KafkaOptionRefused(LakestreamsError):
    """A Kafka client option is not on the allow-list: some of them load code or read files.

    Also: an option that signs in beside a service credential, which does that itself; a service credential outside of
    Databricks, where nothing knows it.
    """

    code = "LS205"
    name = "KAFKA_OPTION_REFUSED"
    hint = "use an option of the allow-list (docs/kafka-options.md)"


class SecretUnresolved(LakestreamsError):
    """A value refers to an environment variable or a secret that is not there."""

    code = "LS206"
    name = "SECRET_UNRESOLVED"
    hint = "set the variable, or give it a default: ${NAME:-default}"


class UnknownReference(LakestreamsError):
    """A step or output refers to a source or step that is not declared."""

    code = "LS207"
    name = "UNKNOWN_REFERENCE"
    hint = "refer to a topic of conf/sources.yml or to an earlier step"


# --- LS3xx: Kafka --------------------------------------------------------------------------------------------------


class BrokerUnreachable(LakestreamsError):
    """No broker answers at the configured address within the time limit.

    A listener of another protocol does not answer either: one for TLS, or where clients sign in, while `security.protocol`
    says PLAINTEXT, or the other way round.
    """

    code = "LS301"
    name = "BROKER_UNREACHABLE"
    hint = "check bootstrap_servers, the network, and that security.protocol is the listener's; locally: lakestreams local up"


class TopicMissing(LakestreamsError):
    """A topic of the pipeline does not exist on the broker."""

    code = "LS302"
    name = "TOPIC_MISSING"
    hint = "create the topic, lakestreams creates none; or correct its name in conf/sources.yml or among the outputs"


class TopicRecreated(LakestreamsError):
    """A topic was deleted and created again: its offsets mean other records than the ones ingested.

    Going on would silently skip as many new records as old ones were read.
    """

    code = "LS303"
    name = "TOPIC_RECREATED"
    hint = "start a new pipeline name for the new topic, or restore the old topic"


class OffsetsExpired(LakestreamsError):
    """Records between the last ingested offset and the topic's first retained offset are gone."""

    code = "LS304"
    name = "OFFSETS_EXPIRED"
    hint = "run --accept-data-loss goes on from the first retained record and writes down what was lost"


class TopicWriteFailed(LakestreamsError):
    """The results of a cycle could not all be written to a Kafka topic.

    The cycle is not finished. The next run writes all of its records again, with equal ids, so that those which did
    arrive are there twice.
    """

    code = "LS305"
    name = "TOPIC_WRITE_FAILED"
    hint = "mend the cause, then run again: the cycle is repeated; the whole trace is in the log file"


class SignInFailed(LakestreamsError):
    """Kafka does not let the pipeline in, or its options make no client that could ask.

    The broker refuses user, password, token or mechanism, has another protocol at that address, or shows a certificate
    that is not trusted; or a login module, a keystore or a truststore cannot be loaded. The message has what Kafka's client
    says, the fix the options to look at.
    """

    code = "LS306"
    name = "SIGN_IN_FAILED"
    hint = (
        "look at security.protocol and at the options sasl.* and ssl.*: docs/kafka-options.md shows how clients sign in"
    )


class RightsMissing(LakestreamsError):
    """Kafka knows who signs in, and does not allow what the pipeline is to do: its access control lists say so.

    A pipeline describes and reads the topics that it reads, and describes and writes those that it writes. It joins no
    consumer group. A topic that may not be described at all can look as if it did not exist (LS302).
    """

    code = "LS307"
    name = "RIGHTS_MISSING"
    hint = (
        "have the user that signs in allowed Describe and Read on the topics that are read, Describe and Write on those that "
        "are written: kafka-acls --add --allow-principal User:NAME --operation Read --topic TOPIC"
    )


# --- LS4xx: the data -----------------------------------------------------------------------------------------------


class TooManyBadRecords(LakestreamsError):
    """More than max_bad_share of a source's records could not be read; nothing of the cycle was published.

    A producer that broke would otherwise drain silently into quarantine.
    """

    code = "LS401"
    name = "TOO_MANY_BAD_RECORDS"
    hint = "mend the producer or the format; run --max-bad-share 1.0 lets the same plan pass"


class ExpectationFailed(LakestreamsError):
    """Records violate an expectation whose action is `fail`; nothing of the cycle was published."""

    code = "LS402"
    name = "EXPECTATION_FAILED"
    hint = "mend the data, or set the expectation's action to warn or drop"


class UnwritablePartition(LakestreamsError):
    """A row has a value in a partition column that the table would give back as another one.

    Delta takes the empty text of such a column for null, and Hive's word for null, too; on a disk a value names a folder,
    which is limited in length. A merged table would then hold two rows of one key. Nothing of the cycle was published.
    """

    code = "LS403"
    name = "UNWRITABLE_PARTITION"
    hint = "give such rows another value in a map_values or select_key, leave them out by a filter, or use cluster_by instead"


class NotInQuarantine(LakestreamsError):
    """What is to be shown, replayed or discarded is not in quarantine, or was decided on before.

    By default only records are taken that are open: not requested, replayed, superseded or discarded. `--again` takes them
    once more, but for those whose replay is requested and not yet ingested.
    """

    code = "LS411"
    name = "NOT_IN_QUARANTINE"
    hint = "lakestreams quarantine list shows what is there, with its state; --again takes once more what was decided"


class RepairUnfit(LakestreamsError):
    """A file of repairs has lines that cannot be used; nothing was requested.

    A line is a JSON object with topic, partition and offset, and what is to be put in the place of what the record had:
    `key` or `value` as text or null, `key_base64` or `value_base64`, `timestamp_ms`.
    """

    code = "LS412"
    name = "REPAIR_UNFIT"
    hint = "lakestreams quarantine show --lines writes records in the form that --repair reads"


# --- LS5xx: tables and the engine ----------------------------------------------------------------------------------


class TableSchemaMismatch(LakestreamsError):
    """A table is there already with other columns than the pipeline writes.

    Columns that the table of an output only lacks are no error: they are added to it.
    """

    code = "LS501"
    name = "TABLE_SCHEMA_MISMATCH"
    hint = "write to another table name, or move the old table away"


class LocationNotWritable(LakestreamsError):
    """The place for tables, checkpoints or logs cannot be written to."""

    code = "LS502"
    name = "LOCATION_NOT_WRITABLE"
    hint = "choose a writable place with --root, or mend its permissions"


class Fenced(LakestreamsError):
    """A newer driver has taken this pipeline over; this one wrote nothing more and stops."""

    code = "LS503"
    name = "FENCED"
    hint = "nothing to mend: let the newer driver run, and run one driver a pipeline"


class PlanUnderOtherConfig(LakestreamsError):
    """A cycle was begun and partly published, or may have been, under a configuration that gives other results."""

    code = "LS504"
    name = "PLAN_UNDER_OTHER_CONFIG"
    hint = "run once more with the former configuration, then change it"


class IngestFailed(LakestreamsError):
    """The ingest query stopped with an error that is none of the known ones."""

    code = "LS505"
    name = "INGEST_FAILED"
    hint = "the cause is in the log file; nothing is lost, the next run goes on from the last ingested offset"


class LedgerInconsistent(LakestreamsError):
    """The ledger contradicts itself or the bronze tables: somebody changed them by hand, or a table was restored."""

    code = "LS506"
    name = "LEDGER_INCONSISTENT"
    hint = "restore ledger and bronze to one point in time"


class TableNameCollision(LakestreamsError):
    """Two topics or outputs resolve to one table name."""

    code = "LS507"
    name = "TABLE_NAME_COLLISION"
    hint = 'rename an output, or name a source\'s table: bronze="orders_2"'


class NothingToVerify(LakestreamsError):
    """No cycle is finished, none of those that were asked for, or none of these can be evaluated any more."""

    code = "LS508"
    name = "NOTHING_TO_VERIFY"
    hint = "run the pipeline first; lakestreams status shows its cycles"


class NoSuchRecord(LakestreamsError):
    """Bronze holds no record of this key or at this place, and no output a row of the key.

    Keys are compared as the bytes' text and by their columns. A record that was not ingested yet is not in bronze.
    """

    code = "LS509"
    name = "NO_SUCH_RECORD"
    hint = "check topic, partition and offset; lakestreams status shows how far each topic was ingested"


class BronzeTrimmed(LakestreamsError):
    """What is wanted needs records that bronze does not hold any more: it is trimmed up to a later cycle.

    `verify` and `why` reach back to the cycle after it. What joins and aggregates remember is kept as of that cycle, for
    the topology and configuration that it was made with; for other ones it cannot be made anew.
    """

    code = "LS510"
    name = "BRONZE_TRIMMED"
    hint = "ask for a later cycle"


class NothingToMaintain(LakestreamsError):
    """The pipeline has never run in this lake, so it has no tables there."""

    code = "LS511"
    name = "NOTHING_TO_MAINTAIN"
    hint = "run the pipeline first, or name its lake with --root or --catalog"


# --- LS6xx: local parts --------------------------------------------------------------------------------------------


class JavaMissing(LakestreamsError):
    """No Java was found; Spark and the local broker need a JDK 17 or newer."""

    code = "LS601"
    name = "JAVA_MISSING"
    hint = "install a JDK 17 or newer and set JAVA_HOME or PATH"


class JavaTooOld(LakestreamsError):
    """The Java that was found is older than 17."""

    code = "LS602"
    name = "JAVA_TOO_OLD"
    hint = "install a JDK 17 or newer and set JAVA_HOME to it"


class JarsUnresolved(LakestreamsError):
    """The connector or broker jars could not be resolved."""

    code = "LS603"
    name = "JARS_UNRESOLVED"
    hint = "the first resolve needs the network; check the proxy settings and try again"


class BrokerNotReady(LakestreamsError):
    """The local broker did not come up."""

    code = "LS604"
    name = "BROKER_NOT_READY"
    hint = "the tail of its log is above"


class PortTaken(LakestreamsError):
    """A port that was asked for is in use by another program."""

    code = "LS605"
    name = "PORT_TAKEN"
    hint = "choose another port, or none to get a free one"


class LocalPartsMissing(LakestreamsError):
    """A local command was used where pyspark, delta-spark or confluent-kafka are not installed."""

    code = "LS606"
    name = "LOCAL_PARTS_MISSING"
    hint = "pip install 'lakestreams[local]'"


# --- LS7xx: Databricks ---------------------------------------------------------------------------------------------


class BundleInvalid(LakestreamsError):
    """A bundle says something that a deployment would refuse, or that it takes and a run then fails at.

    Among them are mistakes that `databricks bundle validate` lets through: an unknown environment or task, an entry
    point that the wheel does not have, a cron expression that is none, a task that stands twice.
    """

    code = "LS701"
    name = "BUNDLE_INVALID"
    hint = "mend databricks.yml or the file in resources/; docs/deploy.md has a bundle that works"


class WorkspaceLacks(LakestreamsError):
    """The workspace lacks something that the target's jobs need; the fix is the command that brings it."""

    code = "LS702"
    name = "WORKSPACE_LACKS"
    hint = "docs/deploy.md lists what has to be there before the first deployment"


class WorkspaceUnreachable(LakestreamsError):
    """The workspace does not answer, or does not let us in."""

    code = "LS703"
    name = "WORKSPACE_UNREACHABLE"
    hint = "databricks auth login --host <workspace>, or set DATABRICKS_HOST and DATABRICKS_TOKEN"


class ProjectExists(LakestreamsError):
    """The folder of a new bundle has files already; nothing was written."""

    code = "LS704"
    name = "PROJECT_EXISTS"
    hint = "choose another folder, or move the files away"


# --- LS8xx: Delta tables as sources -----------------------------------------------------------------------------------


class DeltaTableMissing(LakestreamsError):
    """A Delta table that the pipeline reads is not there, is no Delta table, or may not be read."""

    code = "LS801"
    name = "DELTA_TABLE_MISSING"
    hint = "correct the name after delta: (catalog.schema.table, schema.table or a path), or create the table"


class ChangeFeedOff(LakestreamsError):
    """A Delta table is to be read by its change data feed, and keeps none.

    From the commit on that turns it on, the feed tells every change. The first run begins with the table's content, so it
    need not have been on from the beginning.
    """

    code = "LS802"
    name = "CHANGE_FEED_OFF"
    hint = "ALTER TABLE ... SET TBLPROPERTIES (delta.enableChangeDataFeed = true), or changes: snapshot"


class RowsChanged(LakestreamsError):
    """A commit of a Delta table that is read as a stream updates or deletes rows.

    A stream's records are points in time: what was read of them cannot be taken back.
    """

    code = "LS803"
    name = "ROWS_CHANGED"
    hint = "read it as a table (kind: table); or ignore_changes: true takes its inserts alone"


def catalogue() -> Iterator[type[LakestreamsError]]:
    """Every error class, ordered by code."""
    found: dict[str, type[LakestreamsError]] = {}
    waiting: list[type[LakestreamsError]] = list(LakestreamsError.__subclasses__())
    while waiting:
        cls = waiting.pop()
        waiting.extend(cls.__subclasses__())
        found[cls.code] = cls
    yield from (found[code] for code in sorted(found))


def unfold(error: LakestreamsError) -> Sequence[LakestreamsError]:
    """The single faults of an error: those of a TopologyInvalid, else itself."""
    return error.faults if isinstance(error, TopologyInvalid) else (error,)
