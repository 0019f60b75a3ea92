"""Suppression: a table's updates wait in a buffer, and only the last one of a while comes out."""
