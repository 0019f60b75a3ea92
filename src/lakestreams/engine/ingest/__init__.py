"""Reads Kafka and Delta sources into bronze, exactly once."""
