"""One HTML page that shows what a pipeline has done, from its event log and quarantine."""
