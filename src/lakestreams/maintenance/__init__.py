"""Maintenance beside the runs: bronze trimmed, small files joined, files of old versions removed."""
