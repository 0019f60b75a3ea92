"""Starts the engine from pipeline files and options, for jobs, commands and the demo alike."""
