"""Rows as bytes by a function of Python's, for formats that Spark SQL does not know; and what ends a run that cannot write."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lakestreams.errors import InvalidFormat, UnwritableResult
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

        def written(one: Any) -> bytes | None:
            try:
                return None if one is None else write(one)
            except Exception as error:  # noqa: BLE001 - each type of a schema has its own
                raise UnwritableResult(f"{name}: {' '.join(str(error).split())}") from None

        return pa.array([written(one) for one in values.to_pylist(maps_as_pydicts="strict")], pa.binary())

    return F.arrow_udf(encoded, "binary", F.ArrowUDFType.SCALAR)  # type: ignore[attr-defined, no-any-return]


def unwritable(*said: Column | str) -> Column:
    """What raises UnwritableResult where it is evaluated, in the form by which it is known behind Spark (`operators.workers`).

    Args:
        said: what cannot be written, in parts.
    """
    texts = (F.lit(one) if isinstance(one, str) else F.regexp_replace(one, r"\s+|\p{Cntrl}", " ") for one in said)
    before, behind = str(UnwritableResult("|")).split("|")
    return F.raise_error(F.concat(F.lit(before), *texts, F.lit(behind)))


__all__ = ["by_workers", "unwritable"]
