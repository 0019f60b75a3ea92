"""Evaluates a topology over frames, to check it and to run it. It knows neither Kafka nor Delta."""
