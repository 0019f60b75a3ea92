"""Avro: schemas, how what one wrote is read by another, and values as columns of Arrow. Without Spark."""
