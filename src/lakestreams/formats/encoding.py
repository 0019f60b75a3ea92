"""Rows as bytes by a function of Python's: how formats are written that Spark SQL does not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lakestreams.errors import InvalidFormat
from lakestreams.spark import F

if TYPE_CHECKING:
    from pyspark.sql import Column


def by_workers(name: str, encoder_of: Callable[[], Callable[[Any], bytes]]) -> Callable[[Column], Column]:
    """A function of Spark's from a struct of the columns to bytes, null for a null.

    Args:
        name: of the format, for the message.
        encoder_of: makes what writes rows, in a worker; a function of a module, with plain arguments.

    Raises:
        InvalidFormat: on a runtime before Spark 4.1.
    """
    if not hasattr(F, "arrow_udf"):
        msg = f"{name} is written with Spark 4.1 or later"
        raise InvalidFormat(msg, hint="write json, or run on a later runtime")

    def encoded(values):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - Spark would read hints
        import pyarrow as pa  # noqa: PLC0415 - in a worker

        write = encoder_of()
        rows = values.to_pylist(maps_as_pydicts="strict")
        return pa.array([None if one is None else write(one) for one in rows], pa.binary())

    return F.arrow_udf(encoded, "binary", F.ArrowUDFType.SCALAR)  # type: ignore[attr-defined, no-any-return]


__all__ = ["by_workers"]
