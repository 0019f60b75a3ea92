"""The row of the ledger that closes a batch, appended while the cycle runs over it instead of before it.

A plan needs to know what a batch has, not that the ledger knows: a crash in between leaves the batch in bronze without a row,
and the next driver closes it (`machines.recover`), whether it is planned already or not. There is one such batch at most: the
next one waits for the row before anything of it is in bronze. What a round has begun here is done when it ends, and fails it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from lakestreams.errors import Fenced


class _Row:
    """The row that a round appends, in a thread of its own."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._last: Future[None] | None = None

    def begin(self, append: Callable[[], None]) -> None:
        self.wait()
        self._last = self._pool.submit(append)

    def wait(self) -> None:
        if self._last is not None:
            self._last.result()

    def failure(self) -> BaseException | None:
        return None if self._last is None else self._last.exception()


class PendingAppend:
    """The rows of one run. Outside of a round, and in another process than the round, each is appended at once."""

    def __init__(self) -> None:
        self._row: _Row | None = None  # of a round whose row has failed it stays, so that nothing comes behind it

    @contextlib.contextmanager
    def round(self, failure: Callable[[Exception], Exception] = lambda error: error) -> Iterator[None]:
        """While this is open, `append` need not wait; at its end all of it is done.

        Args:
            failure: what to raise for what an append has raised.

        Raises:
            Fenced: an append was fenced, whatever else has ended the block.
            Exception: an append has failed, unless something else ends the block: then that has a note of it.
        """
        pool = ThreadPoolExecutor(1, thread_name_prefix="lakestreams-ledger")
        one = self._row = _Row(pool)
        try:
            yield
        except Exception as error:
            failed = one.failure()
            if isinstance(failed, Fenced):
                raise failed from error
            if failed is not None and failed is not error:
                error.add_note(f"and the row that closes the batch before was not appended: {failed}")
            raise
        finally:
            pool.shutdown()
            if one.failure() is None:
                self._row = None
        try:
            one.wait()
        except Exception as error:
            told = failure(error)
            if told is error:
                raise
            raise told from error

    def settled(self) -> None:
        """Waits until what was begun is there.

        Raises:
            Exception: it has failed.
        """
        there = self._row
        if there is not None:
            there.wait()

    def append(self, row: Callable[[], None], *, waits: bool) -> None:
        """Appends a row, behind the one before it: during the run's round, or `waits` until it is there.

        Raises:
            Exception: this one, if it is waited for, or the one before has failed.
        """
        there = self._row
        if there is None:
            row()
            return
        there.begin(row)
        if waits:
            there.wait()


__all__ = ["PendingAppend"]
