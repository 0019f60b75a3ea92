"""Suppression: a table's updates wait in a buffer, and only the last update of a key comes out."""
