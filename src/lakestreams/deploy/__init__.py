"""Databricks bundles: read, checked without a workspace, rendered from a template, compared with a workspace."""
