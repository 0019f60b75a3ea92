"""Join of a stream with a table whose rows may come later: `wait` and `amend`."""
