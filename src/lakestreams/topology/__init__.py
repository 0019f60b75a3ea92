"""What the user declares: an immutable graph of sources, steps and outputs. It is checked whole before anything starts."""
