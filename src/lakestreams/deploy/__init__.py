"""Databricks bundles: read and resolved, checked without a workspace, rendered from a template, compared with a workspace."""
