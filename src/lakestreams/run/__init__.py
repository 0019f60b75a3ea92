"""From pipeline files and options to runs: the one way in which jobs, commands and the demo start the engine."""
