"""What `check` counts of costs: commits and files of a round, windows that hold too many cycles of input."""
