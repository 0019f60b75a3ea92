"""Rows of the ledger that are appended while the run goes on: the one that closes a batch, and a cycle's plan.

A cycle is computed of what a batch has and of what its plan says, not of what the ledger knows. So both rows are appended
meanwhile, and are there before anything of the cycle is out. After a crash in between, a batch may be in bronze without a row:
the next driver closes it (`machines.recover`). The plan may be there, and is executed again; or the next driver makes another.
There is one such batch and one such plan at most. Nothing of the next batch is in bronze before the row is there, and the next
plan waits for the cycle. What a round has begun here is done when it ends, and fails it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from lakestreams.errors import Fenced

_AT_ONCE = 2


class _Rows:
    """The rows that a round appends, in threads of their own."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._begun: list[tuple[Future[None], bool]] = []

    def begin(self, append: Callable[[], None], *, of_query: bool) -> None:
        for one, _ in tuple(self._begun):
            if one.done():
                one.result()  # behind one that has failed none is begun
        self._begun.append((self._pool.submit(append), of_query))

    def wait(self) -> None:
        for one, _ in tuple(self._begun):
            one.result()

    def failure(self) -> tuple[BaseException | None, bool]:
        """What the first that failed has raised, and whether the query that reads Kafka was to have that row."""
        failed = ((one.exception(), of_query) for one, of_query in tuple(self._begun))
        return next((one for one in failed if one[0] is not None), (None, False))


class PendingAppend:
    """The rows of one run. Outside of a round, and in another process than the round, each is appended at once."""

    def __init__(self) -> None:
        self._rows: _Rows | None = None  # of a round of which one has failed they stay, so that nothing comes behind it

    @contextlib.contextmanager
    def round(self, failure: Callable[[Exception], Exception] = lambda error: error) -> Iterator[None]:
        """While this is open, `append` need not wait; at its end all of it is done.

        Args:
            failure: what to raise for what an append of the ingest query has raised.

        Raises:
            Fenced: an append was fenced, whatever else has ended the block.
            Exception: an append has failed, unless something else ends the block: then that has a note of it.
        """
        pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="lakestreams-ledger")
        rows = self._rows = _Rows(pool)
        try:
            yield
            rows.wait()
        except Exception as error:
            failed, of_query = rows.failure()
            if failed is error:
                told = failure(error) if of_query else error
                if told is error:
                    raise
                raise told from error
            if isinstance(failed, Fenced):
                raise failed from error
            if failed is not None:
                error.add_note(f"and a row of the ledger was not appended: {failed}")
            raise
        finally:
            pool.shutdown()
            if rows.failure()[0] is None:
                self._rows = None

    def settled(self) -> None:
        """Waits until what was begun is there.

        Raises:
            Exception: it has failed.
        """
        there = self._rows
        if there is not None:
            there.wait()

    def append(self, row: Callable[[], None], *, waits: bool, of_query: bool = False) -> None:
        """Appends a row: during the run's round, or `waits` until it is there, and what was begun before it.

        Args:
            of_query: whether it is the ingest query's, which has failed if it fails.

        Raises:
            Exception: one before it has failed; or this one, if it is waited for.
        """
        there = self._rows
        if there is None:
            row()
            return
        there.begin(row, of_query=of_query)
        if waits:
            there.wait()


__all__ = ["PendingAppend"]
