"""What `check` tells of costs: commits of a round, seconds of a cycle, windows that hold too many cycles of input."""
