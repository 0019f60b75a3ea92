"""Decides what drivers, maintenance and replay requests do next, from what they have read. Plain Python without Spark."""
