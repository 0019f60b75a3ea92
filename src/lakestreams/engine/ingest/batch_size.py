"""How many records one batch takes from Kafka: as many as their bytes allow, by what records weigh (decision 0033).

Plain Python without Spark. A batch may be of any size, as plans are recorded: this is about memory and disks alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

UNLIKELY: Final = 8
"""So many times heavier than those of the batch before, records are looked at first: a backlog may hold others."""

_COPIES: Final = 12
"""So many times a process holds a record that it works on, more or less: at the borders of a plan's stages, in Parquet's
writer, read and unread; of a cycle, and of the next batch at the same time."""

_TOO_MANY, _TOO_SMALL = 2, 4
_GROWTH: Final = 8  # records get light more rarely than a few light ones come together
_UNKNOWN_MOST: Final = 64 << 20  # of a topic whose largest record nobody tells
_RESIZED: Final = re.compile(r"LAKESTREAMS_RESIZED (\d+)")


@dataclass(frozen=True)
class BatchSize:
    """How many offsets the batches of a query have.

    Attributes:
        most: more they never have (`max_offsets_per_trigger`).
        most_bytes: what a task is to hold of them, about (`max_bytes_per_batch`): all, and one twelve times.
        offsets: what they have now.
        means: topic to the bytes of a record, as far as that is known.
    """

    most: int
    most_bytes: int
    offsets: int
    means: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, most: int, most_bytes: int, mean_bytes: float | None) -> BatchSize:
        """For records of which this is known; None: nothing is."""
        return cls(most, most_bytes, most if mean_bytes is None else _fitting(most, most_bytes, mean_bytes))

    def after(self, offsets: int, mean_bytes: float) -> int:
        """How many offsets the next batches are to have, after one of so many offsets with such records.

        As many as before, unless that is more than twice too many, or less than a quarter of what fits; and unless the
        batch was no full one, as the last of a query.
        """
        better = _fitting(self.most, self.most_bytes, mean_bytes)
        near = self.offsets <= _TOO_MANY * better and better <= _TOO_SMALL * self.offsets
        return self.offsets if near or 2 * offsets < self.offsets else min(better, _GROWTH * self.offsets)


def _fitting(most: int, most_bytes: int, mean_bytes: float) -> int:
    return max(1, min(most, int(most_bytes // max(mean_bytes, 1)) - _COPIES))


def in_doubt(most_bytes: int, lags: Mapping[str, int], means: Mapping[str, int], largest: Mapping[str, int]) -> bool:
    """Whether records that are to be read may have more bytes than a batch is to have.

    Args:
        most_bytes: of a batch.
        lags: topic to how many offsets are to be read.
        means: topic to the bytes of a record, as far as that is known.
        largest: topic to the bytes of the largest that it takes, as far as that is known.
    """
    return most_bytes < sum(
        (lag + _COPIES) * (UNLIKELY * means[topic] if topic in means else largest.get(topic, _UNKNOWN_MOST))
        for topic, lag in lags.items()
    )


def mean_of(lags: Mapping[str, int], means: Mapping[str, int]) -> float | None:
    """The bytes of a record over several topics, which Spark reads in the proportion of what is to be read of them.

    None if nothing is known of any; of a topic of which nothing is known records are as those of the others.
    """
    known = {topic: lag for topic, lag in lags.items() if topic in means}
    total = sum(known.values())
    return sum(lag * means[topic] for topic, lag in known.items()) / total if total else None


class Resized(Exception):
    """A query ends behind a batch, which is closed, so that the next one can go on with batches of another size."""

    def __init__(self, offsets: int) -> None:
        super().__init__(f"LAKESTREAMS_RESIZED {offsets}")
        self.offsets = offsets

    @classmethod
    def from_text(cls, text: str) -> Resized | None:
        """As Spark hands it on, in the text of an error of its own; None if that is about something else."""
        found = _RESIZED.search(text)
        return None if found is None else cls(int(found[1]))


__all__ = ["UNLIKELY", "BatchSize", "Resized", "in_doubt", "mean_of"]
