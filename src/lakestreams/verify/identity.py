"""A record's identity, in Python and in columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.records import COORDINATES
from lakestreams.spark import holds_any

if TYPE_CHECKING:
    from pyspark.sql import Column


Identity = tuple[str, int, int, int]
"""Topic, partition, offset, attempt."""


def places(contributors: Column) -> Column:
    """The identities of a row's contributors: columns `source, partition, offset, attempt`."""
    return F.transform(contributors, lambda one: F.struct(*(one[name].alias(name) for name in COORDINATES)))


def any_of(records: Iterable[Identity], topic: Column, prefix: str = "") -> Column:
    """Whether a row, or a struct of it, has one of these identities."""
    return holds_any(
        (topic == of_topic)
        & (F.col(f"{prefix}partition") == partition)
        & (F.col(f"{prefix}offset") == offset)
        & (F.col(f"{prefix}attempt") == attempt)
        for of_topic, partition, offset, attempt in records
    )
