"""The protocol: what drivers, maintenance and replay requests do next, given what they have read. Plain Python without Spark."""
