"""Join of a stream with a versioned table: the version that is valid at the event time."""
