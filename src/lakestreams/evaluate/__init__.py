"""Evaluates a topology over frames, to check it and to run it. Frames in, frames out; knows neither Kafka nor Delta."""
