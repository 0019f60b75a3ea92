"""Kafka for the other rooms: allowed options, what a cluster reports, which errors are transient."""
