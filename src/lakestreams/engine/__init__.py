"""Runs topologies continuously: Kafka into bronze, bronze through the kernels into silver, exactly once."""
