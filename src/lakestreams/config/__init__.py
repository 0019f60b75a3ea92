"""Configuration files: `conf/sources.yml` and a file per pipeline, compiled to the same nodes as Python topologies."""

from lakestreams.config.compile import Pipeline, Settings, load_pipeline
from lakestreams.expressions.parse import Expression, compile_expression
from lakestreams.kafka.options import KafkaOptions

__all__ = ["Expression", "KafkaOptions", "Pipeline", "Settings", "compile_expression", "load_pipeline"]
