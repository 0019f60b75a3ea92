"""Join of a stream with the latest row of a table, by its key or by one that is made from the record: inner, left."""
