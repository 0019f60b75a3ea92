"""Makes two tables of docs/from-kafka-streams.md: Kafka Streams' joins and verbs next to ours.

A test builds each of them. The rest of the page is written by hand, around the marks. `--check` writes nothing
and fails if the page is not up to date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "from-kafka-streams.md"


@dataclass(frozen=True)
class Join:
    """A join of Kafka Streams' documentation and ours.

    Attributes:
        sides: which two.
        how: inner, left or outer.
        java: a call of the Java DSL.
        python: ours, over the names of the page's first example.
        shape: the node that it makes.
        equal_partitions: whether both topics must have as many.
    """

    sides: str
    how: str
    java: str
    python: str
    shape: str
    equal_partitions: bool = True


_WINDOW: Final = "JoinWindows.ofTimeDifferenceAndGrace(ofMinutes(5), ofMinutes(1))"
_WITHIN: Final = 'within="5 minutes", grace="1 minute"'
JOINS: Final[Sequence[Join]] = (
    *(
        Join("KStream, KStream", how, f"orders.{java}(payments, joiner, {_WINDOW})", f"orders.{python}(payments, {_WITHIN})", "WindowedJoin")
        for how, java, python in (("inner", "join", "join"), ("left", "leftJoin", "left_join"), ("outer", "outerJoin", "outer_join"))
    ),
    *(
        Join("KTable, KTable", how, f"accounts.{java}(limits, joiner)", f"accounts.{python}(limits)", "TableTableJoin")
        for how, java, python in (("inner", "join", "join"), ("left", "leftJoin", "left_join"), ("outer", "outerJoin", "outer_join"))
    ),
    *(
        Join("KTable, KTable, by foreign key", how, f"accounts.{java}(branches, Account::branch, joiner)",
             f'accounts.{python}(branches, left_on="branch")', "ForeignKeyJoin", equal_partitions=False)
        for how, java, python in (("inner", "join", "join"), ("left", "leftJoin", "left_join"))
    ),
    *(
        Join("KStream, KTable", how, f"orders.{java}(accounts, joiner)", f"orders.{python}(accounts)", "StreamTableJoin")
        for how, java, python in (("inner", "join", "join"), ("left", "leftJoin", "left_join"))
    ),
    *(
        Join("KStream, GlobalKTable", how, f"orders.{java}(currencies, (key, order) -> order.currency, joiner)",
             f'orders.{python}(currencies, left_on="currency")', "StreamGlobalJoin", equal_partitions=False)
        for how, java, python in (("inner", "join", "join"), ("left", "leftJoin", "left_join"))
    ),
)  # fmt: skip

# Class of ours, their verb, ours.
VERBS: Final[Sequence[tuple[str, str, str]]] = (
    ("StreamsBuilder", "stream", "stream"),
    ("StreamsBuilder", "table", "table"),
    ("StreamsBuilder", "globalTable", "global_table"),
    ("KStream", "mapValues", "map_values"),
    ("KStream", "map", "map"),
    ("KStream", "flatMap", "flat_map"),
    ("KStream", "flatMapValues", "flat_map_values"),
    ("KStream", "filter", "filter"),
    ("KStream", "selectKey", "select_key"),
    ("KStream", "merge", "merge"),
    ("KStream", "repartition", "repartition"),
    ("KStream", "toTable", "to_table"),
    ("KStream", "groupByKey", "group_by_key"),
    ("KStream", "groupBy", "group_by"),
    ("KStream", "to", "to_delta"),
    ("KTable", "filter", "filter"),
    ("KTable", "mapValues", "map_values"),
    ("KTable", "toStream", "to_stream"),
    ("KTable", "groupBy", "group_by"),
    ("KTable", "suppress", "suppress"),
    ("KGroupedStream", "windowedBy", "windowed_by"),
    ("KGroupedStream", "aggregate", "aggregate"),
    ("KGroupedStream", "count", "count"),
    ("KGroupedStream", "reduce", "reduce"),
    ("KGroupedTable", "aggregate", "aggregate"),
    ("KGroupedTable", "count", "count"),
    ("KGroupedTable", "reduce", "reduce"),
    ("TimeWindowedKStream", "aggregate", "aggregate"),
    ("TimeWindowedKStream", "count", "count"),
    ("TimeWindowedKStream", "reduce", "reduce"),
)


def joins() -> str:
    """The joins side by side."""
    lines = ["| | Kafka Streams | here | equal partition counts |", "|---|---|---|---|"]
    for one in JOINS:
        equal = "required" if one.equal_partitions else "not needed"
        lines.append(f"| {one.sides}: {one.how} | `{one.java}` | `{one.python}` | {equal} |")
    return "\n".join(lines)


def verbs() -> str:
    """The verbs side by side."""
    lines = ["| of | Kafka Streams | here |", "|---|---|---|"]
    lines += [f"| `{of}` | `{theirs}` | `{ours}` |" for of, theirs, ours in VERBS]
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with its tables made anew.

    Raises:
        KeyError: for a mark of a table that is none of these.
    """
    made = {"joins": joins, "verbs": verbs}

    def table(found: re.Match[str]) -> str:
        return f"{found[1]}\n{made[found[2]]()}\n{found[3]}"

    return re.sub(r"(?s)(<!-- made by scripts/from_kafka_streams\.py: (\w+) -->)\n.*?(<!-- end -->)", table, text)


def main(arguments: Sequence[str]) -> int:
    """Writes the page, or with `--check` only says whether it is up to date."""
    text = PAGE.read_text(encoding="utf-8")
    if "--check" in arguments:
        return int(page(text) != text)
    PAGE.write_text(page(text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
