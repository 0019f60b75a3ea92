"""One cycle: expectations, joins, and results into silver, quarantine, Kafka and the event log."""
