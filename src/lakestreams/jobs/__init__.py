"""The wheel's entry points. Each reads its options, runs the engine's driver, prints errors and returns an exit code."""
