"""Windowed join of two streams: inner, left, outer."""
