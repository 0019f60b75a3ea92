"""Rows that are appended while a round goes on: in their order, all of them done at its end, and none fails unheard."""

from __future__ import annotations

import contextlib
import pickle
import threading
import time
from collections.abc import Callable

import pytest

from lakestreams.engine.ingest.hand_over import HandOver
from lakestreams.engine.ledger.pending_append import PendingAppend
from lakestreams.engine.ledger.plans import Ingest
from lakestreams.errors import Fenced


@pytest.fixture
def rows() -> PendingAppend:
    return PendingAppend()


def test_a_row_does_not_keep_the_round_waiting_and_is_there_at_its_end(rows: PendingAppend) -> None:
    may, there = threading.Event(), []

    def slow() -> None:
        assert may.wait(10)
        there.append(1)

    with rows.round():
        rows.append(slow, waits=False)
        assert there == []
        may.set()
    assert there == [1]


def test_the_next_batch_waits_for_the_row_before_it(rows: PendingAppend) -> None:
    there: list[int] = []

    def slow() -> None:
        time.sleep(0.1)
        there.append(1)

    with rows.round():
        rows.append(slow, waits=False)
        rows.settled()
        assert there == [1]


def test_two_rows_are_appended_at_once(rows: PendingAppend) -> None:
    """One that closes a batch, and the plan of the cycle over it."""
    both = threading.Barrier(2, timeout=10)
    with rows.round():
        rows.append(both.wait, waits=False)
        rows.append(both.wait, waits=False)
        rows.settled()
    assert both.broken is False


def test_a_row_that_is_waited_for_is_there(rows: PendingAppend) -> None:
    there: list[int] = []
    with rows.round():
        rows.append(lambda: there.append(1), waits=True)
        assert there == [1]


def test_without_a_round_in_this_process_it_is_appended_at_once(rows: PendingAppend) -> None:
    there: list[int] = []
    with rows.round():
        PendingAppend().append(lambda: there.append(1), waits=False)
        assert there == [1]
    rows.append(lambda: there.append(2), waits=False)
    rows.settled()
    assert there == [1, 2]


def test_in_another_process_it_is_appended_at_once_and_the_ledger_is_read() -> None:
    """As in Spark Connect's worker, to which the function that gets a batch is pickled."""
    handed, there = HandOver(), []
    handed.closed(Ingest(1, 1, ()))
    with handed.pending.round():
        handed.pending.append(lambda: time.sleep(0.1), waits=False)
        elsewhere: HandOver = pickle.loads(pickle.dumps(handed))
        elsewhere.pending.append(lambda: there.append(1), waits=False)
        assert there == [1]
    assert (elsewhere.take(0), elsewhere.behind(0)) == (None, [])


def test_batches_are_handed_over_once_and_the_newest_stays_known() -> None:
    handed = HandOver()
    assert handed.take(0) is None, "the ledger knows"
    one, two = (Ingest(seq, seq, ()) for seq in (1, 2))
    handed.closed(one)
    handed.closed(two)
    assert handed.behind(0) == [one, two]
    assert handed.take(0) == [one, two]
    assert handed.take(2) == []
    assert handed.behind(0) == [two], "says where bronze stands"


def _fails() -> None:
    time.sleep(0.1)
    msg = "no row"
    raise ValueError(msg)


def _is_fenced() -> None:
    msg = "a newer driver"
    raise Fenced(msg)


def test_a_row_that_fails_fails_the_round(rows: PendingAppend) -> None:
    with (
        pytest.raises(KeyError, match="because of no row"),
        rows.round(lambda error: KeyError(f"because of {error}")),
    ):
        rows.append(_fails, waits=False, of_query=True)


def test_what_the_query_does_not_append_fails_as_it_is(rows: PendingAppend) -> None:
    with pytest.raises(ValueError, match="no row"), rows.round(lambda error: KeyError(f"because of {error}")):
        rows.append(_fails, waits=True)


def test_behind_a_row_that_has_failed_none_is_appended(rows: PendingAppend) -> None:
    there: list[int] = []

    def two_rows() -> None:
        with rows.round():
            rows.append(_fails, waits=False)
            with contextlib.suppress(ValueError):
                rows.settled()
            rows.append(lambda: there.append(1), waits=False)

    with pytest.raises(ValueError, match="no row"):
        two_rows()
    assert there == []


def test_behind_a_round_whose_row_has_failed_nothing_is_written(rows: PendingAppend) -> None:
    """A query that outlives its round must not go on to the next batch."""
    with pytest.raises(ValueError, match="no row"):
        _ends_with_a_row_that_fails(rows)
    with pytest.raises(ValueError, match="no row"):
        rows.settled()
    with pytest.raises(ValueError, match="no row"):
        rows.append(lambda: None, waits=False)


def _ends_with_a_row_that_fails(rows: PendingAppend) -> None:
    with rows.round():
        rows.append(_fails, waits=False)


def _ends_in_a_round_with(rows: PendingAppend, row: Callable[[], None]) -> None:
    with rows.round():
        rows.append(row, waits=False)
        raise KeyError


def test_what_ends_the_round_itself_is_what_is_told_with_a_note_of_the_row(rows: PendingAppend) -> None:
    with pytest.raises(KeyError) as told:
        _ends_in_a_round_with(rows, _fails)
    assert ["no row" in note for note in told.value.__notes__] == [True]


def test_a_driver_that_is_fenced_says_so_whatever_else_has_failed(rows: PendingAppend) -> None:
    with pytest.raises(Fenced):
        _ends_in_a_round_with(rows, _is_fenced)
