"""JSON Schema: its columns, and JSON behind a registry's prefix. Without Spark."""
