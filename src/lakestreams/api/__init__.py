"""What users type: `StreamsBuilder`, and the handles of streams and tables. Each call adds a node to a topology."""
