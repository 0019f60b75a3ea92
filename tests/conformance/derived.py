"""The pages of extra cases that are no joins: aggregations, `toTable`, suppressions, and joins of suppressed tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.conformance.cases import Case
from tests.conformance.compare import FULL
from tests.reference.aggregates import COUNT, Aggregator, StreamAggregate, TableAggregate, ToTable
from tests.reference.records import Join, Record, Result
from tests.reference.suppress import BufferFull, Suppress, results
from tests.reference.tables import make_table


class Derived:
    """A case's page; every record of it is one of `left`."""

    def __init__(self, case: Case) -> None:
        params = case.params
        self._page: Any = ToTable()
        if case.join == "aggregate":
            self._page = _aggregate(case)
        elif case.join == "suppress":
            self._page = Suppress(params.until_ms, most=params.max_records, full=params.full)  # type: ignore[arg-type]

    def left(self, record: Record) -> list[Result]:
        try:
            found = results(self._page, record) if isinstance(self._page, Suppress) else self._page.put(record)
        except BufferFull as error:
            raise RuntimeError(FULL) from error
        return [replace(one, value=str(one.value)) if isinstance(one.value, int) else one for one in found]

    right = left


class Suppressed:
    """A join one of whose tables is suppressed: it sees of that one what has come out."""

    def __init__(self, join: Join, side: str, until_ms: int) -> None:
        self._join, self._side, self._buffer = join, side, Suppress(until_ms)

    def left(self, record: Record) -> list[Result]:
        return self._put("left", record)

    def right(self, record: Record) -> list[Result]:
        return self._put("right", record)

    def _put(self, arm: str, record: Record) -> list[Result]:
        updates = self._buffer.put(record) if arm == self._side else [record]
        return [replace(row, cause=record) for one in updates for row in getattr(self._join, arm)(one)]


def texts(initial: str | None) -> Aggregator:
    """The probes' adder and subtractor, which write down what they were given."""
    return Aggregator(lambda one, value: f"{one}+{value}", lambda one, value: f"{one}-{value}", initial)


def by_prefix(_: Any, value: str) -> tuple[str, str]:
    """The probes' group and value, of a text such as `g1:a`."""
    group, item = value.split(":")
    return group, item


def _aggregate(case: Case) -> StreamAggregate | TableAggregate:
    params = case.params
    source, kind = params.kind.split("-")
    aggregator = {"count": COUNT, "reduce": texts(None), "aggregate": texts("0")}[kind]
    if source == "kstream":
        return StreamAggregate(aggregator)
    table = make_table(versioned=params.versioned, retention_ms=params.history_retention_ms, cached=params.cached)
    return TableAggregate(table, by_prefix, aggregator)
