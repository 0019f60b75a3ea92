"""Tests of topologies without a broker and without tables."""

from lakestreams.testing.driver import Result, TopologyTestDriver

__all__ = ["Result", "TopologyTestDriver"]
