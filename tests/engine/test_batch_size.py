"""How many records a batch takes, by what records weigh: pure, without Spark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestreams.engine.ingest.batch_size import UNLIKELY, BatchSize, Resized, in_doubt, mean_of

MEANS = st.floats(0, 1 << 30)
PACES = st.builds(BatchSize.of, st.integers(1, 10_000_000), st.integers(1, 1 << 34), st.none() | MEANS)


@given(PACES)
def test_a_batch_has_a_record_and_no_more_than_the_user_says(batch_size: BatchSize) -> None:
    assert 1 <= batch_size.offsets <= batch_size.most


@given(st.integers(1, 10_000_000), st.integers(1, 1 << 34), MEANS)
def test_a_batch_has_no_more_bytes_than_the_bound_unless_one_record_has(most: int, bound: int, mean: float) -> None:
    offsets = BatchSize.of(most, bound, mean).offsets
    assert offsets == 1 or (offsets + 12) * mean <= bound, "what a task holds besides: twelve times the one it works on"
    assert offsets == most or (offsets + 13) * max(mean, 1) > bound, "more would have fitted"


@given(PACES, MEANS)
def test_behind_a_full_batch_the_next_ones_are_near_the_bound(batch_size: BatchSize, mean: float) -> None:
    after = batch_size.after(batch_size.offsets, mean)
    assert 1 <= after <= batch_size.most
    assert (
        after <= 2 or after * mean <= 2 * batch_size.most_bytes
    )  # two are not more than twice the one that there must be
    assert after <= 8 * batch_size.offsets, "a few light ones do not make the next batch a large one"


@given(PACES, st.lists(MEANS, max_size=20))
def test_records_that_stay_as_they_are_end_no_query_again_and_again(batch_size: BatchSize, means: list[float]) -> None:
    for mean in means:
        steps = 0
        while (after := batch_size.after(batch_size.offsets, mean)) != batch_size.offsets:
            batch_size, steps = BatchSize(batch_size.most, batch_size.most_bytes, after), steps + 1
            assert steps <= 9, "from one to ten million in steps of eight"


@given(PACES, MEANS, st.data())
def test_a_batch_that_was_not_full_ends_no_query(batch_size: BatchSize, mean: float, data: st.DataObject) -> None:
    few = data.draw(st.integers(0, (batch_size.offsets - 1) // 2))
    assert batch_size.after(few, mean) == batch_size.offsets


def test_records_are_looked_at_where_they_may_be_too_many_bytes() -> None:
    bound = 512 << 20
    assert not in_doubt(bound, {}, {}, {})
    assert not in_doubt(bound, {"views": 500}, {}, {"views": 1 << 20})
    assert in_doubt(bound, {"views": 501}, {}, {"views": 1 << 20})
    assert in_doubt(bound, {"views": 1}, {}, {}), "nobody tells how large they can be"
    assert not in_doubt(bound, {"views": 60_000}, {"views": 1_000}, {"views": 1 << 30}), "an ordinary round"
    assert in_doubt(bound, {"views": bound // UNLIKELY}, {"views": 2}, {})


@pytest.mark.parametrize(
    ("means", "mean"),
    [({}, None), ({"views": 10}, 10), ({"views": 10, "users": 1_000}, 505), ({"views": 10, "gone": 7}, 10)],
)
def test_of_several_topics_the_mean_is_by_what_is_to_be_read(means: dict[str, int], mean: float | None) -> None:
    assert mean_of({"views": 100, "users": 100}, means) == mean


def test_the_end_of_a_query_is_known_by_its_text() -> None:
    wrapped = f"[FOREACH_BATCH_USER_FUNCTION_ERROR] {Resized(12)}\n\tat org.apache"
    found = Resized.from_text(wrapped)
    assert found is not None
    assert found.offsets == 12
    assert Resized.from_text("LS503 FENCED") is None
