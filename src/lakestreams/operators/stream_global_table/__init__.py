"""Join of a stream with a global table, by a key that is made from the record."""
