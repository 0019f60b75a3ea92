"""What is tried in every order: who is there, what may go wrong, and which guards it shows to be needed.

Each scenario has few actors and few records, so that all orders can be tried; together they have every actor.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.protocol.state import Scenario

from lakestreams.engine.protocol.machines import Pipeline

PLAIN: Final = Pipeline(("a", "b"), ("silver",))
EMPTY: Final = Pipeline(("a", "b"), ("silver",), fingerprint="e")
PIECES: Final = Pipeline(("a", "b"), ("silver",), most=1)
KEEPS: Final = Pipeline(("a", "b"), ("silver",), remembers=True)
STORES: Final = replace(KEEPS, stores_in_parallel=True)
QUERY: Final = Pipeline(("a", "b"), ("silver",), most=1, reads_ahead=True)

TWO_DRIVERS: Final = Scenario(
    "two drivers, of which one crashes; an answer is lost; records come",
    (PLAIN, PLAIN),
    topics={"a": "rr", "b": "r"},
    ends=(1, 0),
    left={"starts": 3, "crashes": 1, "lost": 1},
)
ROUNDS: Final = Scenario(
    "two drivers of two rounds each, the second one with another topic",
    (PLAIN, PLAIN),
    rounds=2,
    topics={"a": "r", "b": "r"},
    ends=(1, 0),
    left={"starts": 2, "crashes": 1},
)
BATCHES: Final = Scenario(
    "two drivers whose rounds have several batches, one of which crashes",
    (PIECES, PIECES),
    topics={"a": "rr", "b": "r"},
    ends=(2, 1),
    left={"starts": 3, "crashes": 1},
)
BESIDE: Final = Scenario(
    "the query of a driver reads on while its cycles run; one of two drivers crashes",
    (QUERY, QUERY),
    topics={"a": "rr", "b": ""},
    ends=(2, 0),
    left={"starts": 2, "crashes": 1, "lost": 1, "failures": 1},
)
BESIDE_AND_TRIM: Final = replace(
    BESIDE,
    name="the same of drivers that remember, and maintenance",
    drivers=(replace(QUERY, remembers=True),) * 2,
    left={"starts": 2, "crashes": 1, "trims": 1},
)
BESIDE_AND_STORES: Final = replace(
    BESIDE_AND_TRIM,
    name="the same of drivers that store while they publish",
    drivers=(replace(QUERY, remembers=True, stores_in_parallel=True),) * 2,
)
MARKERS: Final = Scenario(
    "a batch of transaction markers alone, then records behind it",
    (PLAIN, PLAIN),
    topics={"a": "mr", "b": ""},
    ends=(1, 0),
    left={"starts": 3, "crashes": 1, "failures": 1},
)
CONFIGURATIONS: Final = Scenario(
    "two configurations: one gives no rows of what the other gives rows of",
    (EMPTY, PLAIN),
    topics={"a": "r", "b": ""},
    ends=(1, 0),
    left={"starts": 3, "crashes": 2, "failures": 1},
    empty=frozenset({"e"}),
)
MAINTENANCE: Final = Scenario(
    "a driver that remembers, and maintenance that trims what it has read",
    (KEEPS, KEEPS),
    topics={"a": "rr", "b": ""},
    ends=(1, 0),
    left={"starts": 2, "crashes": 1, "trims": 2},
)
STORES_BESIDE: Final = replace(
    MAINTENANCE, name="a driver that stores while it publishes, and maintenance", drivers=(STORES, STORES)
)
REPLAYS: Final = Scenario(
    "a record is asked for once more, while drivers begin and crash",
    (PLAIN, PLAIN),
    topics={"a": "r", "b": ""},
    ends=(1, 0),
    left={"starts": 2, "crashes": 2, "asks": 2, "lost": 1},
)
DAMAGES: Final = Scenario(
    "between runs somebody deletes a table or puts its files of an earlier time back",
    (PLAIN, PLAIN),
    topics={"a": "rr", "b": ""},
    ends=(1, 0),
    left={"starts": 3, "damages": 1},
    damages=(("delete", "ledger"), ("delete", "a"), ("delete", "silver"), ("put back", "a"), ("put back", "silver")),
)
# Small ones, in which one thing goes wrong.
DUEL: Final = Scenario(
    "two drivers, one record",
    (PLAIN, PLAIN),
    topics={"a": "r", "b": ""},
    ends=(1, 0),
    left={"starts": 2},
)
QUIET: Final = replace(
    DUEL, name="a driver crashes, and others begin where one has ended", left={"starts": 4, "crashes": 1}
)
GROWS: Final = replace(DUEL, name="two drivers, a record comes meanwhile", topics={"a": "rr", "b": ""})
LOST: Final = Scenario(
    "an answer is lost", (PLAIN, PLAIN), topics=DUEL.topics, ends=(1, 0), left={"starts": 1, "lost": 1}
)
CRASH: Final = Scenario(
    "a driver crashes, another one begins",
    (PLAIN, PLAIN),
    topics={"a": "rr", "b": ""},
    ends=(1, 0),
    left={"starts": 2, "crashes": 1},
)
FORGOTTEN: Final = Scenario(
    "somebody deletes what a driver has stored, while maintenance trims",
    (KEEPS, KEEPS),
    topics={"a": "rr", "b": ""},
    ends=(1, 0),
    left={"starts": 2, "trims": 1, "damages": 1},
    damages=(("delete", "caches"),),
    alone=True,
)
STORED: Final = replace(
    ROUNDS,
    name="a driver of two rounds that stores while it publishes crashes, another one goes on",
    drivers=(STORES, STORES),
    topics={"a": "rr", "b": ""},
)
FORGOTTEN_LATE: Final = replace(
    FORGOTTEN,
    name="the same, and a second maintenance crashes",
    topics={"a": "r", "b": "r"},
    left={**FORGOTTEN.left, "trims": 2, "crashes": 1},
)
TRIMS: Final = Scenario(
    "maintenance crashes, and another one begins",
    (KEEPS, KEEPS),
    topics={"a": "r", "b": ""},
    ends=(1, 0),
    left={"starts": 1, "trims": 2, "crashes": 1},
)
ASKED: Final = Scenario(
    "a record is asked for once more between two runs",
    (PLAIN, PLAIN),
    topics={"a": "r", "b": ""},
    ends=(1, 0),
    left={"starts": 2, "asks": 1},
)
OTHERS: Final = replace(
    CONFIGURATIONS, name="a driver of another configuration goes on", left={"starts": 2, "crashes": 1}
)
MARKED: Final = replace(MARKERS, name="markers alone, and a crash", left={"starts": 2, "crashes": 1})
FAILS: Final = replace(DUEL, name="a rule fails", left={"starts": 1, "failures": 1})
ASKED_AGAIN: Final = replace(
    ASKED, name="a driver crashes while it ingests what was asked for", left={**ASKED.left, "crashes": 1}, alone=True
)
ALL: Final = (
    TWO_DRIVERS, ROUNDS, BATCHES, BESIDE, BESIDE_AND_TRIM, BESIDE_AND_STORES, MARKERS, CONFIGURATIONS, MAINTENANCE, STORES_BESIDE, STORED,
    REPLAYS, DAMAGES, FORGOTTEN, QUIET,
)  # fmt: skip
# Those of which there are so few states that all are tried.
WHOLE: Final = (ROUNDS, BESIDE, MARKERS, STORED, FORGOTTEN)
# As above, with more of everything: for `make soak`.
LONG: Final = tuple(replace(one, left={**one.left, "starts": 3, "crashes": 2, "lost": 1, "failures": 1}) for one in ALL)
