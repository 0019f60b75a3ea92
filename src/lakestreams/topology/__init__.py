"""What the user declares: an immutable graph of sources, steps and outputs, checked whole before anything starts."""
