"""The store of a table with a history: what it takes in, keeps, and tells its readers."""
