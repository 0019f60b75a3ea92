"""Conformance: what Kafka Streams was seen to do, as cases that every executor of lakestreams must reproduce.

python -m tests.conformance [FILE...] [--executor reference|batch|cuts|stream] [--rules kafka|strict] [--only ID] [--seed N]
"""
