"""Checks expectations of the data: rules of one row, invariants of many rows, and how both are counted and reported."""
