"""Protobuf: schemas from .proto text, records as columns, columns as records. Without Spark."""
