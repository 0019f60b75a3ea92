"""Aggregations: one row per group, from the records of a stream or the changes of a table."""
