"""The wheel's entry points that are jobs, and what reads the arguments of each."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Final

from lakestreams.jobs import command, correlation, enrichment, entry, fk_join, pipeline

PACKAGE: Final = "lakestreams"

READERS: Final = ("enrichment", "correlation", "fk_join", "pipeline")
"""The entry points that read from Kafka."""


def parsers() -> Mapping[str, ArgumentParser]:
    """Entry point to the parser of its arguments; a test compares the names with the wheel's."""
    readers = {
        "enrichment": enrichment.DEFAULT_PIPELINE,
        "correlation": correlation.DEFAULT_PIPELINE,
        "fk_join": fk_join.DEFAULT_PIPELINE,
        "pipeline": pipeline.DEFAULT_PIPELINE,
    }
    made = {name: entry.parser_of(name, default) for name, default in readers.items()}
    return made | {name: command.parser_of(name) for name in ("verify", "maintain")}
