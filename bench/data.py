"""What benchmarks load into topics: records as `Broker.produce` takes them, the same in every run.

Each is `(key, json, timestamp_ms)`, in order of time; what must be in a certain partition has that as a fourth field.
"""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Iterator
from typing import Any

START_MS = 1_700_000_000_000
MINUTE = 60_000
WINDOW_MS = 5 * MINUTE
SPREAD_MS = 7 * WINDOW_MS
"""Event time from the first order to the last, however many: a window holds a seventh of them."""
PARTITIONS = 4
CUSTOMERS = 10_000
MOVED_EVERY = 20
"""One customer in so many changes when half of the orders are there."""


# --- enrichment: a stream of page views and a table of profiles -------------------------------------------------------


def views(count: int, users: int) -> Iterator[tuple[str, str, int]]:
    """Page views of about 110 bytes, in order of time."""
    chance = random.Random(1)
    for number in range(count):
        at = START_MS + 1_000 + number
        page = f"/products/{chance.randrange(5_000)}"
        body = {"ms": at, "page": page, "session": f"s{number:012d}", "referrer": "search"}
        yield f"user{chance.randrange(users):07d}", json.dumps(body), at


def profiles(users: int) -> Iterator[tuple[str, str, int]]:
    """One profile a user, before all views."""
    chance = random.Random(2)
    for number in range(users):
        body = {"region": f"region-{chance.randrange(40)}", "plan": chance.choice(("free", "pro")), "since": START_MS}
        yield f"user{number:07d}", json.dumps(body), START_MS


# --- correlation: orders and their payments, which come within five minutes, a little later, or never -----------------


def orders(count: int, spread_ms: int = SPREAD_MS, partitions: int = PARTITIONS) -> Iterator[tuple[Any, ...]]:
    """Orders evenly over the time; then one in each partition, an hour after all others, which closes all windows.

    Value: amount (a whole number, in cents) and ms, the record's own timestamp.
    """
    chance = random.Random(3)
    for number in range(count):
        at = _ordered_ms(number, count, spread_ms)
        yield _order(number), json.dumps({"amount": chance.randrange(100, 50_000), "ms": at}), at
    for partition in range(partitions):
        at = _closing_ms(spread_ms)
        yield f"closing{partition}", json.dumps({"amount": 0, "ms": at}), at, partition


def payments(count: int, spread_ms: int = SPREAD_MS, partitions: int = PARTITIONS) -> Iterator[tuple[Any, ...]]:
    """The payments of as many orders, in order of their own time; then one in each partition for the closing orders.

    Value: method and ms, the record's own timestamp.
    """
    chance = random.Random(4)
    waiting: list[tuple[int, int]] = []
    for number, delay in enumerate(delays(count)):
        ordered = _ordered_ms(number, count, spread_ms)
        while waiting and waiting[0][0] <= ordered:
            yield _payment(*heapq.heappop(waiting), chance)
        if delay is not None:
            heapq.heappush(waiting, (ordered + delay, number))
    while waiting:
        yield _payment(*heapq.heappop(waiting), chance)
    for partition in range(partitions):
        at = _closing_ms(spread_ms)
        yield f"closing{partition}", json.dumps({"method": "none", "ms": at}), at, partition


def delays(count: int) -> Iterator[int | None]:
    """How long after each order its payment comes, in ms: 90 % in the window, 5 % just outside of it, the others never."""
    chance = random.Random(5)
    for _ in range(count):
        share = chance.random()
        if share < 0.90:
            yield chance.randint(0, WINDOW_MS)
        elif share < 0.95:
            yield WINDOW_MS + chance.randint(1, 5_000)
        else:
            yield None


def _order(number: int) -> str:
    return f"order{number:09d}"


def _ordered_ms(number: int, count: int, spread_ms: int) -> int:
    return START_MS + 1_000 + number * spread_ms // count


def _closing_ms(spread_ms: int) -> int:
    return START_MS + spread_ms + 60 * MINUTE


def _payment(at: int, number: int, chance: random.Random) -> tuple[str, str, int]:
    return _order(number), json.dumps({"method": chance.choice(("card", "cash", "bank", "points")), "ms": at}), at


# --- foreign key: orders that name their customer; some customers change ----------------------------------------------


def customers(count: int = CUSTOMERS, spread_ms: int = SPREAD_MS) -> Iterator[tuple[str, str, int]]:
    """All customers before the first order; one in twenty again, changed, when half of the orders' time is over."""
    for number in range(count):
        yield _customer(number), json.dumps({"name": f"Customer {number}", "tier": "basic"}), START_MS
    for number in range(0, count, MOVED_EVERY):
        at = START_MS + 1_000 + spread_ms // 2
        yield _customer(number), json.dumps({"name": f"Customer {number}", "tier": "gold"}), at


def fk_orders(count: int, known: int = CUSTOMERS, spread_ms: int = SPREAD_MS) -> Iterator[tuple[str, str, int]]:
    """One version of each order, evenly over the time, of any of the known customers."""
    chance = random.Random(6)
    for number in range(count):
        body = {"customer": _customer(chance.randrange(known)), "amount": chance.randrange(100, 50_000)}
        yield _order(number), json.dumps(body), _ordered_ms(number, count, spread_ms)


def _customer(number: int) -> str:
    return f"customer{number:06d}"
