"""Steps over arrays, run by Spark's Python workers: the one way in which a kernel gets rows and gives results.

A step gets all rows that share a place at once, as Arrow columns by name, and gives record batches one after the other. It
is a function of a module with plain arguments, so that workers elsewhere can have it by its name.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.errors import LakestreamsError, catalogue
from lakestreams.operators.balance import by_task
from lakestreams.operators.records import CONTRIBUTORS, KEY, ORDER, PLACE, number_of
from lakestreams.operators.weights import arrived, weighed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

ROWS_OF_A_WORKER = 250_000  # with values of so many bytes a worker then holds 400 MB at most
BYTES_OF_A_ROW = 200

_BATCHES_AT_ONCE = 16
_CODED = re.compile(r"\b(LS\d{3}) [A-Z_]+\n  (.+)\n  Fix: ")  # an error as it prints itself

Columns: TypeAlias = dict[str, Any]
Step: TypeAlias = Callable[[Columns], Iterator[Any]]


@dataclass(frozen=True, kw_only=True)
class Shares:
    """How the rows of a kernel lie, and how many workers they need.

    Attributes:
        realm: how many tasks there are, 0 to realm - 1; of many histories that share a job, each has so many: 0 to realm - 1,
            realm to 2 realm - 1, and so on.
        shares: how many Python workers the rows need.
        together: whether rows of equal keys always lie in one task.
    """

    realm: int = 1
    shares: int = 1
    together: bool = False

    @property
    def by_key(self) -> bool:
        """Whether rows go to workers by their keys."""
        return self.shares > 1 and not self.together

    def spread(self) -> tuple[Column | None, int]:
        """By what `in_workers` exchanges rows, and its count: by key, by task, or few rows not at all."""
        if self.by_key:
            return number_of(F.col(KEY), F.struct(ORDER, PLACE)), self.shares
        return by_task(self.realm) if self.shares > 1 else (None, 1)


def in_workers(
    rows: DataFrame,
    step: Step,
    schema: StructType,
    by: Column | None = None,
    count: int = 1,
    small: Collection[str] = (),
) -> DataFrame:
    """What a step makes of rows.

    Args:
        rows: columns `k`, `o` and `contributors`, and any others.
        by: rows that are equal in it come to one call; None: all rows do.
        count: how many calls there may be.
        small: columns that are never many bytes, besides orders and contributors.
    """
    _ = rows.select(F.col(KEY) == F.col(KEY)).schema  # Spark refuses keys such as maps, which workers would number
    together = rows.coalesce(1) if by is None else rows.repartition(count, by)
    return weighed(together, small=(ORDER, CONTRIBUTORS, *small)).mapInArrow(partial(_whole, step), schema)


def coded(error: Exception) -> Exception:
    """The error that a step has raised: of what a worker raises Spark passes on the text alone."""
    found = None if isinstance(error, LakestreamsError) else _CODED.search(str(error))
    if found is None:
        return error
    return next(one for one in catalogue() if one.code == found[1])(found[2])


@contextmanager
def coded_errors() -> Iterator[None]:
    """Raises errors of steps as themselves."""
    try:
        yield
    except Exception as error:
        meant = coded(error)
        if meant is error:
            raise
        raise meant from error


def _whole(step: Step, batches: Iterator[Any]) -> Iterator[Any]:
    columns = _together(batch for batch in arrived(batches) if batch.num_rows)
    if columns:
        results = step(columns)
        del columns  # a step may let go of some
        yield from results


def _together(batches: Iterator[Any]) -> Columns:
    """The columns of all batches, each in one piece, and no more than one of them twice in memory.

    A batch as it comes is one piece of memory, which is free when no column of it is needed any more. So some are copied at a
    time, by column.
    """
    parts: dict[str, list[Any]] = {}
    while some := list(itertools.islice(batches, _BATCHES_AT_ONCE)):
        for place, name in enumerate(some[0].schema.names):
            parts.setdefault(name, []).append(pa.concat_arrays([batch.column(place) for batch in some]))
        some.clear()
    columns = {}
    for name in list(parts):
        columns[name] = pa.concat_arrays(parts.pop(name))
        pa.default_memory_pool().release_unused()  # else Arrow keeps what the parts took, and NumPy cannot use it
    return columns
