"""Rows of the ledger that are appended while the run goes on: the one that closes a batch, and a cycle's plan.

A cycle is computed of what a batch has and of what its plan says, not of what the ledger knows. So both rows are appended
meanwhile, and are there before anything of the cycle is out. After a crash in between, a batch may be in bronze without a row:
the next driver closes it (`machines.recover`). The plan may be there, and is executed again; or the next driver makes another.
There is one such batch and one such plan at most. Nothing of the next batch is in bronze before the row is there, and the next
plan waits for the cycle. What a round has begun here is done when it ends, and fails it.

A batch's row waits for the plan of the cycle over it: one commit then has both, and costs half of two at once. Where the driver is
at work on another cycle, or the next batch or the round's end comes first, the row is appended alone.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, NamedTuple

from lakestreams.errors import Fenced

if TYPE_CHECKING:
    from lakestreams.engine.ledger.ledger import OwnRow

_AT_ONCE = 2


class _Append(NamedTuple):
    """An append that is to be begun.

    Attributes:
        record: appends rows in one commit.
        rows: those.
        of_query: whether it is the ingest query's.
    """

    record: Callable[..., None]
    rows: tuple[OwnRow, ...]
    of_query: bool


class _Rows:
    """The rows that a round appends, in threads of their own. The driver and its query both do, so one at a time begins them."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._begun: list[tuple[Future[None], bool]] = []
        self._held: _Append | None = None
        self.may_hold = True
        self._lock = threading.Lock()

    def begin(self, append: _Append | None = None, *, holds: bool = False) -> None:
        """Begins an append with what is held, or holds it for the next one; without one, what is held."""
        with self._lock:
            holds = holds and self.may_hold
            for one, _ in tuple(self._begun):
                if one.done():
                    one.result()  # behind one that has failed none is begun
            before, self._held = self._held, append if holds else None
            if append is None or holds:
                append = before
            elif before is not None:
                append = append._replace(rows=(*before.rows, *append.rows))
            if append is not None:
                self._begun.append((self._pool.submit(append.record, *append.rows), append.of_query))

    def wait(self) -> None:
        for one, _ in tuple(self._begun):
            one.result()

    def end(self) -> None:
        """Waits until all that was begun has ended, well or not."""
        wait([one for one, _ in self._begun])

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
            rows.begin()
            rows.wait()
        except Exception as error:
            with contextlib.suppress(Exception):  # the first that has failed is asked for
                rows.begin()
            rows.end()
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
            with contextlib.suppress(Exception):
                rows.begin()
            pool.shutdown()
            if rows.failure()[0] is None:
                self._rows = None

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """While this is open nothing is held: the driver is at work, and plans nothing soon."""
        there = self._rows
        if there is None:
            yield
            return
        there.may_hold = False
        there.begin()
        try:
            yield
        finally:
            there.may_hold = True

    def settled(self) -> None:
        """Waits until what was begun is there; what is held was not.

        Raises:
            Exception: it has failed.
        """
        there = self._rows
        if there is not None:
            there.wait()

    def begin(self) -> None:
        """Begins to append what is held: no plan follows at once."""
        there = self._rows
        if there is not None:
            there.begin()

    def append(
        self,
        record: Callable[..., None],
        *rows: OwnRow,
        waits: bool = False,
        holds: bool = False,
        of_query: bool = False,
    ) -> None:
        """Appends rows in one commit, with those that are held: during the run's round.

        Args:
            record: appends these, and those that are held.
            rows: of the ledger.
            waits: until they are there, and what was begun before them.
            holds: they go with the next append, or are begun when somebody waits.
            of_query: whether they are the ingest query's, which has failed if they fail.

        Raises:
            Exception: one before them has failed; or these, if they are waited for.
        """
        there = self._rows
        if there is None:
            record(*rows)
            return
        there.begin(_Append(record, rows, of_query), holds=holds and not waits)
        if waits:
            there.wait()


__all__ = ["PendingAppend"]
