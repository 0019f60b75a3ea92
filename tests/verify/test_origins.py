"""What is said of the records that made a key of an output."""

from __future__ import annotations

import pytest

from lakestreams.verify.origins import Origin

NEWEST = tuple(("clicks", 0, offset, 0) for offset in (9, 8))
MADE, ONE_OF = "made the key 'asia' of totals", "records that made the key 'asia' of totals"


@pytest.mark.parametrize(
    ("origin", "told"),
    [
        (Origin("totals", NEWEST[:1], 1), MADE),
        (Origin("totals", NEWEST[:1], 1, latest=True), f"{MADE}, as the last one of its cycle"),
        (Origin("totals", NEWEST, 2), f"is one of 2 {ONE_OF}"),
        (Origin("totals", NEWEST, 2, latest=True), f"is one of 2 {ONE_OF}, each the last one of its cycle"),
        (Origin("totals", NEWEST, 3), f"is one of 3 {ONE_OF}; 1 older one is left out"),
        (Origin("totals", NEWEST, 5_000), f"is one of 5,000 {ONE_OF}; 4,998 older ones are left out"),
        (Origin("totals", NEWEST, None), f"is one of more than 10,000 {ONE_OF}; the older ones are left out"),
    ],
)
def test_how_many_there_are_and_how_many_are_left_out(origin: Origin, told: str) -> None:
    assert origin.sentence("asia") == told
