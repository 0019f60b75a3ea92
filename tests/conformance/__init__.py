"""Conformance: what Kafka Streams was seen to do, as cases that every executor of lakestreams must reproduce.

python -m tests.conformance [FILE...] [--executor reference|batch|cuts] [--rules kafka|strict] [--only ID] [--seed N]
"""
