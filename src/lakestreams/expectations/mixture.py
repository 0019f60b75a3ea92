"""Which partitioners wrote a topic's keys, and with what shares: a mixture, estimated in plain Python.

What is known of a *place*, a key in a partition, is under which partitioners it is the key's home. Whoever writes with one
of these puts the key there for certain; an unknown writer, who uses none of them, with a chance of 1/n. So a place that is
home under the partitioners H has the likelihood

    sum of the shares of those in H  +  share of the unknown writer / n

and the shares are those under which all places together are likeliest (expectation maximisation; the shares are the only
unknowns, so there is one optimum). That a key is at home under several partitioners by chance, 1/n of them for each two,
is in this formula already: such a place is counted in parts for each of them.

A partitioner is believed only if it makes the whole data a million times more likely than they are without it. Hence how
few keys decide: at home all of them, 20 with two partitions, 5 with 16.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

EVIDENCE: Final = math.log(1e6)
_ROUNDS, _STILL, _EQUAL = 2_000, 1e-8, 1e-6


@dataclass(frozen=True)
class Mixture:
    """Who wrote.

    Attributes:
        shares: partitioner to its share of the places; those that there is evidence for, in the order given.
        unknown: the share of whoever writes with none of them.
        likelihood: the logarithm of the likelihood of all places.
    """

    shares: Mapping[str, float]
    unknown: float
    likelihood: float


def explain(places: Mapping[frozenset[str], int], partitions: int, partitioners: Sequence[str]) -> Mixture:
    """The fewest partitioners that explain the places.

    Args:
        places: how many places are home under exactly these partitioners.
        partitions: how many partitions the topic has.
        partitioners: who may have written; of those that explain equally much the first ones are taken.
    """
    best = _fitted(places, partitions, ())
    for size in range(1, len(partitioners) + 1):
        for names in combinations(partitioners, size):
            found = _fitted(places, partitions, names)
            if found.likelihood - EVIDENCE * size > best.likelihood - EVIDENCE * len(best.shares) + _EQUAL:
                best = found
    return best


def enough_keys(partitions: int) -> float:
    """How many keys it takes to tell an even mix of two partitioners from an unknown one; infinite for one partition."""
    if partitions < 2:
        return math.inf
    # of an even mix, a place is home under both with the chance 1/n, else its likelihood is a half
    gain = math.log(partitions) - (1 - 1 / partitions) * math.log(2)
    return 2 * EVIDENCE / gain


def _fitted(places: Mapping[frozenset[str], int], partitions: int, names: Sequence[str]) -> Mixture:
    counts: Counter[frozenset[str]] = Counter()
    for homes, count in places.items():
        counts[homes & set(names)] += count
    total = counts.total()
    unknown = 1 / (len(names) + 1)
    shares = dict.fromkeys(names, unknown)
    for _ in range(_ROUNDS if total else 0):
        parts, rest = dict.fromkeys(names, 0.0), 0.0
        for homes, count in counts.items():
            whole = _likelihood(shares, unknown, homes, partitions)
            for name in homes:
                parts[name] += count * shares[name] / whole
            rest += count * unknown / partitions / whole
        moved = max([abs(rest / total - unknown), *(abs(parts[name] / total - shares[name]) for name in names)])
        shares, unknown = {name: part / total for name, part in parts.items()}, rest / total
        if moved < _STILL:
            break
    logarithm = sum(
        count * math.log(_likelihood(shares, unknown, homes, partitions)) for homes, count in counts.items()
    )
    return Mixture(shares, unknown, logarithm)


def _likelihood(shares: Mapping[str, float], unknown: float, homes: frozenset[str], partitions: int) -> float:
    return unknown / partitions + sum(shares[name] for name in homes)
