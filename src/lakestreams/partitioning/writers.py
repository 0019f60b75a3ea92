"""Who wrote a topic's keys, by the shares of them that lie at home: plain Python, no iteration.

A *place* is a key in a partition. Whoever writes with a partitioner puts each key on its home under it; whoever does not
hits that home with a chance of 1/n. So a share of places at home that chance does not explain is a writer:

- The partitioner with the largest share is believed if chance gives such a share less than once in a million times.
- The others are judged by the places off its home, and so on: what was put there by none of those already believed.
- How much each has written is reported by the places that are home under exactly one of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

EVIDENCE: Final = math.log(1e6)


@dataclass(frozen=True)
class Writers:
    """Who wrote.

    Attributes:
        shares: partitioner to its share of the places; those that are believed, in the order given.
        unknown: the share of whoever writes with none of them.
    """

    shares: Mapping[str, float]
    unknown: float


def find(places: Mapping[frozenset[str], int], partitions: int, partitioners: Sequence[str]) -> Writers:
    """The partitioners that are believed, and what each has written.

    Args:
        places: how many places are home under exactly these partitioners.
        partitions: how many partitions the topic has, at least two.
        partitioners: who may have written; of those with equal shares at home the first one is believed.
    """
    believed: set[str] = set()
    rest = dict(places)
    while left := [name for name in partitioners if name not in believed]:
        home = {name: sum(count for homes, count in rest.items() if name in homes) for name in left}
        largest = max(left, key=home.__getitem__)
        if evidence(home[largest], sum(rest.values()), partitions) < EVIDENCE:
            break
        believed.add(largest)
        rest = {homes: count for homes, count in rest.items() if largest not in homes}
    return _shares(places, partitions, [name for name in partitioners if name in believed])


def evidence(home: int, places: int, partitions: int) -> float:
    """The negative logarithm of Chernoff's bound on the chance that so many places, or more, are home by accident."""
    return places * _per_place(home / max(1, places), 1 / partitions)


def enough_keys(partitions: int) -> float:
    """From how many keys on a partitioner is believed that wrote half of them; infinite for one partition."""
    if partitions < 2:
        return math.inf
    return EVIDENCE / _per_place((1 + 1 / partitions) / 2, 1 / partitions)


def _per_place(share: float, chance: float) -> float:
    """The relative entropy of a share against chance, which is what each place adds to the bound; 0 if it is no more."""
    if share <= chance:
        return 0.0
    away = (1 - share) * math.log((1 - share) / (1 - chance)) if share < 1 else 0.0
    return share * math.log(share / chance) + away


def _shares(places: Mapping[frozenset[str], int], partitions: int, believed: Sequence[str]) -> Writers:
    """Of each writer, and of unknown ones, the places expected off the homes of all others, as parts of their sum.

    A place that is home under none was put there by an unknown writer, who hits each home with a chance of 1/n: for n - 1
    places off a home there is one on it.
    """
    only = dict.fromkeys(believed, 0)
    nowhere = 0
    for homes, count in places.items():
        known = homes & set(believed)
        nowhere += 0 if known else count
        for name in known if len(known) == 1 else ():
            only[name] += count
    stray = nowhere / (partitions - 1)
    parts = {name: max(0.0, only[name] - stray) for name in believed}
    whole = sum(parts.values()) + nowhere + stray or 1.0
    return Writers({name: part / whole for name, part in parts.items()}, (nowhere + stray) / whole)
