"""Rows that are appended while a round goes on: in their order, all of them done at its end, and none fails unheard."""

from __future__ import annotations

import contextlib
import pickle
import threading
import time
from collections.abc import Callable
from typing import Literal

import pytest

from lakestreams.engine.ingest.hand_over import HandOver
from lakestreams.engine.ledger.ledger import OwnRow
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
        rows.append(slow)
        assert there == []
        may.set()
    assert there == [1]


def test_the_next_batch_waits_for_the_row_before_it(rows: PendingAppend) -> None:
    there: list[int] = []

    def slow() -> None:
        time.sleep(0.1)
        there.append(1)

    with rows.round():
        rows.append(slow)
        rows.settled()
        assert there == [1]


def _recording() -> tuple[list[list[str]], Callable[..., None]]:
    """The kinds of the rows of each append, and what appends."""
    there: list[list[str]] = []

    def record(*given: OwnRow) -> None:
        there.append([one.kind for one in given])

    return there, record


def _row(kind: Literal["ingest", "plan"]) -> OwnRow:
    return OwnRow(kind, 1, "", {})


def test_what_is_held_goes_with_the_next_row(rows: PendingAppend) -> None:
    """One that closes a batch, and the plan of the cycle over it."""
    there, record = _recording()
    with rows.round():
        rows.append(record, _row("ingest"), holds=True)
        time.sleep(0.1)
        assert there == []
        rows.append(record, _row("plan"))
    assert there == [["ingest", "plan"]]


def test_what_is_held_is_appended_alone_where_nothing_follows(rows: PendingAppend) -> None:
    there, record = _recording()
    with rows.round():
        rows.append(record, _row("ingest"), holds=True)
        rows.settled()
        assert there == []
        rows.begin()
        rows.settled()
        rows.append(record, _row("plan"), waits=True)
        assert there == [["ingest"], ["plan"]]
        rows.append(record, _row("ingest"), holds=True)
        rows.append(record, _row("ingest"), holds=True, waits=True)
        assert there[2:] == [["ingest", "ingest"]]
        rows.append(record, _row("ingest"), holds=True)
    assert there[3:] == [["ingest"]], "at the end of the round everything is there"


def test_what_is_held_fails_as_the_row_does_that_it_goes_with(rows: PendingAppend) -> None:
    with pytest.raises(ValueError, match="no row"), rows.round(lambda error: KeyError(f"because of {error}")):
        _held_and_planned(rows)


def test_nothing_is_held_while_the_driver_is_at_work(rows: PendingAppend) -> None:
    there, record = _recording()
    with rows.round():
        rows.append(record, _row("ingest"), holds=True)
        with rows.at_once():
            rows.settled()
            assert there == [["ingest"]]
            rows.append(record, _row("ingest"), holds=True)
            rows.settled()
            assert there == [["ingest"]] * 2
        rows.append(record, _row("ingest"), holds=True)
        rows.settled()
        assert there == [["ingest"]] * 2
    with rows.at_once():
        rows.append(record, _row("ingest"), holds=True)
    assert there == [["ingest"]] * 4


def test_what_is_held_is_there_whatever_else_ends_the_round(rows: PendingAppend) -> None:
    there, record = _recording()
    with pytest.raises(KeyError):
        _held_in_a_round_that_fails(rows, record)
    assert there == [["ingest"]]
    with pytest.raises(Fenced):
        _held_in_a_round_that_fails(rows, _is_fenced)


def _held_in_a_round_that_fails(rows: PendingAppend, record: Callable[..., None]) -> None:
    with rows.round():
        rows.append(record, _row("ingest"), holds=True)
        raise KeyError


def _held_and_planned(rows: PendingAppend) -> None:
    rows.append(_fails, _row("ingest"), holds=True, of_query=True)
    rows.append(_fails, _row("plan"))


def test_two_rows_are_appended_at_once(rows: PendingAppend) -> None:
    both = threading.Barrier(2, timeout=10)
    with rows.round():
        rows.append(both.wait)
        rows.append(both.wait)
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
        PendingAppend().append(lambda: there.append(1))
        assert there == [1]
    rows.append(lambda: there.append(2))
    rows.settled()
    assert there == [1, 2]


def test_in_another_process_it_is_appended_at_once_and_the_ledger_is_read() -> None:
    """As in Spark Connect's worker, to which the function that gets a batch is pickled."""
    handed, there = HandOver(), []
    handed.closed(Ingest(1, 1, ()))
    with handed.pending.round():
        handed.pending.append(lambda: time.sleep(0.1))
        elsewhere: HandOver = pickle.loads(pickle.dumps(handed))
        elsewhere.pending.append(lambda: there.append(1))
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


def _fails(*_: OwnRow) -> None:
    time.sleep(0.1)
    msg = "no row"
    raise ValueError(msg)


def _is_fenced(*_: OwnRow) -> None:
    msg = "a newer driver"
    raise Fenced(msg)


def test_a_row_that_fails_fails_the_round(rows: PendingAppend) -> None:
    with (
        pytest.raises(KeyError, match="because of no row"),
        rows.round(lambda error: KeyError(f"because of {error}")),
    ):
        rows.append(_fails, of_query=True)


def test_what_the_query_does_not_append_fails_as_it_is(rows: PendingAppend) -> None:
    with pytest.raises(ValueError, match="no row"), rows.round(lambda error: KeyError(f"because of {error}")):
        rows.append(_fails, waits=True)


def test_behind_a_row_that_has_failed_none_is_appended(rows: PendingAppend) -> None:
    there: list[int] = []

    def two_rows() -> None:
        with rows.round():
            rows.append(_fails)
            with contextlib.suppress(ValueError):
                rows.settled()
            rows.append(lambda: there.append(1))

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
        rows.append(lambda: None)


def _ends_with_a_row_that_fails(rows: PendingAppend) -> None:
    with rows.round():
        rows.append(_fails)


def _ends_in_a_round_with(rows: PendingAppend, row: Callable[[], None]) -> None:
    with rows.round():
        rows.append(row)
        raise KeyError


def test_what_ends_the_round_itself_is_what_is_told_with_a_note_of_the_row(rows: PendingAppend) -> None:
    with pytest.raises(KeyError) as told:
        _ends_in_a_round_with(rows, _fails)
    assert ["no row" in note for note in told.value.__notes__] == [True]


def test_a_driver_that_is_fenced_says_so_whatever_else_has_failed(rows: PendingAppend) -> None:
    with pytest.raises(Fenced):
        _ends_in_a_round_with(rows, _is_fenced)
