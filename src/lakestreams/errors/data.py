"""Errors of the data, LS4xx: records that end a run, quarantine, and repairs."""

from __future__ import annotations

from lakestreams.errors.base import LakestreamsError


class TooManyBadRecords(LakestreamsError):
    """More than `max_bad_share` of a source's records could not be read. Nothing of the cycle was published.

    Without this limit, all records of a broken producer would go to quarantine unnoticed. The next run judges the same
    records again, by the share and the pipeline of that run.
    """

    code = "LS401"
    name = "TOO_MANY_BAD_RECORDS"
    hint = "correct the producer or the source's format; to publish the cycle anyway: run --max-bad-share 1.0"


class ExpectationFailed(LakestreamsError):
    """Records violate an expectation with the action `fail`. Nothing of the cycle was published.

    The next run judges the same records again, by the expectations of that run.
    """

    code = "LS402"
    name = "EXPECTATION_FAILED"
    hint = "set the expectation's action to warn or drop, or change what it expects; the next run judges these records again"


class UnwritablePartition(LakestreamsError):
    """A row has a value in a partition column that Delta would read back as another value.

    In a partition column Delta reads the empty text as null, and Hive's word for null as well. On a disk the value is the
    name of a folder, which is limited in length. A merged table would then hold two rows for one key. Nothing of the cycle
    was published.
    """

    code = "LS403"
    name = "UNWRITABLE_PARTITION"
    hint = "change the value in a map_values or select_key, drop such rows with a filter, or use cluster_by instead"


class BufferFull(LakestreamsError):
    """More keys wait in one task of a `suppress` than `max_records` allows, and `when_full` is `shutdown`.

    Nothing of the cycle was published. The next run reads the same records again, under the options of that run.
    """

    code = "LS404"
    name = "BUFFER_FULL"
    hint = "raise max_records, or set when_full to emit, which lets the oldest updates out early"


class UnwritableResult(LakestreamsError):
    """A result of an output to Kafka has a value that the output's format cannot write.

    A format with a schema takes no null where the schema has none, no number outside of its type, and no unknown symbol of
    an enum. `Uuid` takes UUIDs only. Results are written as bytes before anything of the cycle is published, except on compute that keeps no
    frames (serverless). The next run judges the same results again, by the pipeline of that run.
    """

    code = "LS405"
    name = "UNWRITABLE_RESULT"
    hint = "change the value in a map_values, drop such rows with expect_or_drop of the output, or write another format"


class NotInQuarantine(LakestreamsError):
    """Quarantine holds no such record, or it was replayed or discarded before.

    By default commands select open records only: not requested, replayed, superseded or discarded. `--again` selects the
    others as well, except records whose replay is requested and not yet ingested.
    """

    code = "LS411"
    name = "NOT_IN_QUARANTINE"
    hint = "see the records and their states: lakestreams quarantine list; --again selects decided ones as well"


class RepairUnfit(LakestreamsError):
    """A file of repairs has lines that cannot be used. Nothing was requested.

    A line is a JSON object. It has topic, partition and offset, and what replaces the record's own: `key` or `value` as text
    or null, `key_base64` or `value_base64`, `timestamp_ms`.
    """

    code = "LS412"
    name = "REPAIR_UNFIT"
    hint = "write records in the form that --repair reads: lakestreams quarantine show --lines"
