"""Statements of one session that run at once: while one is planned or committed, another has the cores."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from pyspark.sql.utils import is_remote
from pyspark.util import inheritable_thread_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
_MOST: Final = 4
"""At once: each has a plan and a commit of its own to wait for, but all share the cores."""


def in_parallel(spark: SparkSession, statements: Sequence[Callable[[], T]]) -> list[T]:
    """What these give, in their order. None is left running, whatever becomes of the others.

    Args:
        spark: the session that all of them work with.
        statements: each independent of the others; what the calling thread is (its query, its tags) they are too, so
            that they end with it.

    Raises:
        Exception: the first, in their order, that one of them has raised.
    """
    if len(statements) < 2:
        return [one() for one in statements]
    with ThreadPoolExecutor(_MOST, thread_name_prefix="lakestreams-side-by-side") as pool:
        running = [pool.submit(_belonging(spark, one)) for one in statements]
    return [one.result() for one in running]


class Begin(Protocol):
    """Begins a statement in parallel; what it gives or raises is in its future."""

    def __call__(self, statement: Callable[[], T]) -> Future[T]:
        """Goes on at once."""


@contextlib.contextmanager
def concurrently(spark: SparkSession) -> Iterator[Begin]:
    """Statements that run while the block does. Its end waits for them, whatever becomes of it.

    Args:
        spark: the session that all of them work with; what the calling thread is they are too, as with `in_parallel`.
    """
    with ThreadPoolExecutor(_MOST, thread_name_prefix="lakestreams-concurrently") as pool:

        def begin(statement: Callable[[], Any]) -> Future[Any]:
            return pool.submit(_belonging(spark, statement))

        yield begin


def _belonging(spark: SparkSession, statement: Callable[[], T]) -> Callable[[], T]:
    """The statement, of the calling thread's query; Spark Connect's sessions know theirs in any thread."""
    if not is_remote():
        with contextlib.suppress(Exception):  # some compute hides the context; then it is a plain thread's
            inheriting: Callable[[Callable[[], T]], Callable[[], T]] = inheritable_thread_target(spark)
            return inheriting(statement)
    return statement


__all__ = ["Begin", "concurrently", "in_parallel"]
