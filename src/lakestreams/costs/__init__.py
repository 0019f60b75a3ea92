"""Counts costs for `check`: commits and files of a round, windows that hold too many cycles of input."""
