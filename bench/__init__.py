"""Benchmarks: real broker, real tables, everything in one run so that ratios mean something."""
