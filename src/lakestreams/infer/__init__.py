"""Proposes how a source is declared, from a sample of its topic's records. Without Spark."""
