"""Join of two tables by key: inner, left, outer."""
