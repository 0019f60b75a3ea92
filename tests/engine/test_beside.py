"""Rows that are appended while a round goes on: in their order, all of them done at its end, and none fails unheard."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from lakestreams.engine.ingest import pending_append
from lakestreams.errors import Fenced


def test_a_row_does_not_keep_the_round_waiting_and_is_there_at_its_end() -> None:
    may, there = threading.Event(), []

    def slow() -> None:
        assert may.wait(10)
        there.append(1)

    with pending_append.rows("run"):
        pending_append.append("run", slow, waits=False)
        assert there == []
        may.set()
    assert there == [1]


def test_the_next_batch_waits_for_the_row_before_it() -> None:
    there: list[int] = []

    def slow() -> None:
        time.sleep(0.1)
        there.append(1)

    with pending_append.rows("run"):
        pending_append.append("run", slow, waits=False)
        pending_append.settled("run")
        assert there == [1]
        pending_append.append("run", slow, waits=False)
        pending_append.append("run", lambda: there.append(2), waits=False)
    assert there == [1, 1, 2]


def test_a_row_that_is_waited_for_is_there() -> None:
    there: list[int] = []
    with pending_append.rows("run"):
        pending_append.append("run", lambda: there.append(1), waits=True)
        assert there == [1]


def test_without_a_round_in_this_process_it_is_appended_at_once() -> None:
    there: list[int] = []
    with pending_append.rows("run"):
        pending_append.append("another run", lambda: there.append(1), waits=False)
        assert there == [1]
    pending_append.append("run", lambda: there.append(2), waits=False)
    pending_append.settled("run")
    assert there == [1, 2]


def _fails() -> None:
    time.sleep(0.1)
    msg = "no row"
    raise ValueError(msg)


def _is_fenced() -> None:
    msg = "a newer driver"
    raise Fenced(msg)


def test_a_row_that_fails_fails_the_round() -> None:
    with (
        pytest.raises(KeyError, match="because of no row"),
        pending_append.rows("run", lambda error: KeyError(f"because of {error}")),
    ):
        pending_append.append("run", _fails, waits=False)


def test_behind_a_row_that_fails_however_late_none_is_appended() -> None:
    there: list[int] = []

    def two_rows() -> None:
        with pending_append.rows("run"):
            pending_append.append("run", _fails, waits=False)
            pending_append.append("run", lambda: there.append(1), waits=False)

    with pytest.raises(ValueError, match="no row"):
        two_rows()
    assert there == []


def test_behind_a_round_whose_row_has_failed_nothing_is_written() -> None:
    """A query that outlives its round must not go on to the next batch."""
    with pytest.raises(ValueError, match="no row"):
        _ends_with_a_row_that_fails()
    with pytest.raises(ValueError, match="no row"):
        pending_append.settled("fallen")
    with pytest.raises(ValueError, match="no row"):
        pending_append.append("fallen", lambda: None, waits=False)


def _ends_with_a_row_that_fails() -> None:
    with pending_append.rows("fallen"):
        pending_append.append("fallen", _fails, waits=False)


def _ends_in_a_round_with(row: Callable[[], None]) -> None:
    with pending_append.rows("run"):
        pending_append.append("run", row, waits=False)
        raise KeyError


def test_what_ends_the_round_itself_is_what_is_told_with_a_note_of_the_row() -> None:
    with pytest.raises(KeyError) as told:
        _ends_in_a_round_with(_fails)
    assert ["no row" in note for note in told.value.__notes__] == [True]


def test_a_driver_that_is_fenced_says_so_whatever_else_has_failed() -> None:
    with pytest.raises(Fenced):
        _ends_in_a_round_with(_is_fenced)
