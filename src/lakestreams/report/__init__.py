"""One HTML page of what a pipeline has done: the event log and the quarantine, drawn."""
