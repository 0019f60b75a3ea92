"""Joins by foreign key: of two tables, and of a stream with a table."""
