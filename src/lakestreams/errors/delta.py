"""Errors of Delta tables as sources, LS8xx."""

from __future__ import annotations

from lakestreams.errors.base import LakestreamsError


class DeltaTableMissing(LakestreamsError):
    """A table that the pipeline reads does not exist, is not a Delta table, or may not be read."""

    code = "LS801"
    name = "DELTA_TABLE_MISSING"
    hint = "correct the name after delta: (catalog.schema.table, schema.table or a path), or create the table"


class ChangeFeedOff(LakestreamsError):
    """The pipeline reads a Delta table's change data feed, and the feed is off.

    The feed holds every change from the commit that turns it on. The first run starts with the table's content, so the feed
    need not be on from the table's first version.
    """

    code = "LS802"
    name = "CHANGE_FEED_OFF"
    hint = "ALTER TABLE ... SET TBLPROPERTIES (delta.enableChangeDataFeed = true), or read it with changes: snapshot"


class RowsChanged(LakestreamsError):
    """The pipeline reads a Delta table as a stream, and a commit of it updates or deletes rows.

    A stream only grows: a record that was read cannot be taken back.
    """

    code = "LS803"
    name = "ROWS_CHANGED"
    hint = "read it as a table (kind: table), or read its inserts only (ignore_changes: true)"
