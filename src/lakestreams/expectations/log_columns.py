"""The event log's columns, which dashboards are checked against: by themselves, since that needs no Spark."""

from __future__ import annotations

from typing import Final

SCHEMA: Final = (
    "pipeline string, cycle bigint, id string, sequence bigint, event_type string, level string, maturity_level string, "
    "timestamp timestamp, message string, origin string, details string"
)
