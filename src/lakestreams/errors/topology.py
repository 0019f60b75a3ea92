"""The topology's errors, LS1xx: what is declared, and what does not fit together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from lakestreams.errors.base import LakestreamsError
from lakestreams.errors.phrases import OptionValue, Phrase


class TopologyInvalid(LakestreamsError):
    """The topology has faults. All of them are listed at once, each with its own code.

    Nothing was started. The next `check` or `run` checks the whole topology again.
    """

    code = "LS100"
    name = "TOPOLOGY_INVALID"
    hint = "correct each of the faults above"

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
    """A node has no name. Every node needs one for errors, tables, metrics and drawings."""

    code = "LS101"
    name = "UNNAMED_NODE"
    hint = "pass name=... with a non-empty text"


class DuplicateName(LakestreamsError):
    """Two nodes or two outputs have the same name, or two sources read the same topic."""

    code = "LS102"
    name = "DUPLICATE_NAME"
    hint = "give each node, topic and output a name of its own"


class KeyTypeMismatch(LakestreamsError):
    """The two sides of a join have keys of different types, so their keys can never be equal.

    The bigint 1 and the text "1" are different bytes in Kafka and different values here.
    """

    code = "LS103"
    name = "KEY_TYPE_MISMATCH"
    hint = "declare the same key format on both sides, or cast one key with select_key(...)"


class CoPartitioningRequired(LakestreamsError):
    """The two sides of a join by key have different partition counts.

    lakestreams joins by key across partitions, so equal keys would still meet. But the partition decides the task, and
    with it clock and order. A Kafka Streams app would refuse these topics, so Kafka's rule is the default.
    `co_partitioning="warn"` or `"off"` on the join accepts unequal counts. A global table (`kind: global_table`,
    `builder.global_table`) has no partitions to compare. The stream's join with it then needs `left_on`.
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
    """The schema of a key or value format cannot be read, or its column names clash."""

    code = "LS106"
    name = "INVALID_FORMAT"
    hint = 'declare it like Json("ms int, page string")'
    hint_in_files = "write columns as name type, joined by commas: {json: 'ms int, page string'}"


class InvalidDuration(LakestreamsError):
    """A duration is neither a number with a unit (ms, seconds, minutes, hours, days) nor a timedelta.

    The unit `M` is refused, because it may mean months or minutes. A retention must be at least an hour, or zero.
    """

    code = "LS107"
    name = "INVALID_DURATION"
    hint = 'write it like "10 minutes" or timedelta(minutes=10)'
    hint_in_files = "write it as a number with a unit: 10 minutes, 1.5 s, 250 ms"


class InvalidName(LakestreamsError):
    """The name of a pipeline, schema, table or column has characters that tables and folders do not allow."""

    code = "LS108"
    name = "INVALID_NAME"
    hint = (
        "use letters, digits and _ only, up to 128, and start with no digit; a table name has up to three such parts, with "
        "dots between"
    )


class NoOutput(LakestreamsError):
    """The topology writes nothing: none of its streams and tables ends in to_delta(...) or to_kafka(...)."""

    code = "LS109"
    name = "NO_OUTPUT"
    hint = 'end a stream with .to_delta("silver.name")'


class InvalidExpression(LakestreamsError):
    """A function or expression does not fit its input: its types or its result are wrong."""

    code = "LS110"
    name = "INVALID_EXPRESSION"
    hint = "change the expression, or cast its columns to types that fit"


class MixedBuilders(LakestreamsError):
    """The topology joins streams of two builders. All streams of a topology need the same builder."""

    code = "LS111"
    name = "MIXED_BUILDERS"
    hint = "declare both sides on one StreamsBuilder"


class InvalidOption(LakestreamsError):
    """An option of a source, join or output is not one of its choices, or contradicts another option."""

    code = "LS112"
    name = "INVALID_OPTION"
    hint = "use one of the listed choices"

    @classmethod
    def none_of(cls, option: str, value: object, choices: Sequence[str], where: str | None) -> Self:
        """The value given for an option is none of its choices."""
        return cls(Phrase(OptionValue(option, value), f" is none of {', '.join(choices)}"), where=where, takes=choices)

    @classmethod
    def negative(cls, option: str, ms: int, where: str | None) -> Self:
        """A duration given for an option is below zero."""
        return cls(f"{option} {ms} ms is negative", hint="zero or more", where=where, option=option, given=ms)


class WrongKind(LakestreamsError):
    """A step or join gets a stream where it takes a table, or the other way round. Or no such join exists.

    Streams join streams (inner, left, outer), tables and global tables (inner, left). Tables join tables by key
    (inner, left, outer) or by foreign key (inner, left). A global table can only be the right side of a stream's join.
    """

    code = "LS113"
    name = "WRONG_KIND"
    hint = "declare the topic as what the step takes: stream(...), table(...) or global_table(...)"
    hint_in_files = "declare the topic as what the step takes: stream, table or global_table"


class OwnTopic(LakestreamsError):
    """A pipeline writes to a topic or table that it reads. Every run would then read the results of the run before."""

    code = "LS114"
    name = "OWN_TOPIC"
    hint = "write to another topic, which another pipeline can read"


class FormatUnfit(LakestreamsError):
    """An output to Kafka declares a format that does not fit the result.

    docs/formats.md says which formats can be written; the others are for reading only. A value's format may name columns of
    the result's value, and `event_time_ms`, the result's time. A key's format must name all columns of the key, so that two
    keys never become one. The types must be those of the result: nothing is cast silently.
    """

    code = "LS115"
    name = "FORMAT_UNFIT"
    hint = "declare the columns as the result has them; or leave the format out, which writes all columns as JSON"


def unfold(error: LakestreamsError) -> Sequence[LakestreamsError]:
    """The single faults of an error: those of a TopologyInvalid, else itself."""
    return error.faults if isinstance(error, TopologyInvalid) else (error,)


class UnknownMethod(LakestreamsError, AttributeError):
    """A stream, table or builder has no method of this name.

    Methods have the names of Kafka Streams' DSL in Python's spelling: `leftJoin` is `left_join`. The fix says what to
    write instead, also of a method of Spark's DataFrames. docs/from-kafka-streams.md and docs/from-lakeflow.md list them.
    """

    code = "LS116"
    name = "UNKNOWN_METHOD"  # type: ignore[misc]  # an AttributeError has a name of its own
    hint = "use one of the methods in docs/python-api.md"

    def __init__(
        self, message: str, hint: str | None = None, where: str | None = None, *, method: str = "", of: object = None
    ) -> None:
        super().__init__(message, hint, where)
        # Python fills in these two itself where they are missing, and would overwrite the error's own name.
        AttributeError.__init__(self, message, name=method, obj=of)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles by its texts."""
        return (type(self), (self.message, self.hint, self.where))
