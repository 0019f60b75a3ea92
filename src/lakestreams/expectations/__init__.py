"""What is expected of the data, judged: rules of one row, invariants of many, how both are counted and told."""
