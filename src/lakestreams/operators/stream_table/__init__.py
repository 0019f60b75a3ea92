"""Join of a stream with the latest row of a table: inner, left."""
