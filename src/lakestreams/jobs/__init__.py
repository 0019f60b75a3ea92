"""The wheel's entry points: thin. Options in, the engine's driver run, errors told, an exit code out."""
