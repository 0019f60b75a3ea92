"""Kafka as the product sees it: options that are allowed, what a cluster tells, which errors are transient."""
