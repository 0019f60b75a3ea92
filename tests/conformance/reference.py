"""The executor on `tests/reference`: builds the case's join from its page and gives it the records one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, cast

from tests.conformance.cases import Case, Input, Row, Rules
from tests.conformance.derived import Derived, Suppressed
from tests.conformance.executors import Executor, Outcome
from tests.conformance.functions import FOREIGN_KEYS, KEY_MAPPERS, joiner
from tests.reference.fk_stream_table import ForeignKeyStreamJoin
from tests.reference.fk_table_table import ForeignKeyJoin
from tests.reference.records import STREAM, TABLE, Join, Record, Result
from tests.reference.stream_global import StreamGlobalJoin
from tests.reference.stream_stream import StrictJoin
from tests.reference.stream_stream_kafka import KafkaJoin
from tests.reference.stream_table import StreamTableJoin
from tests.reference.table_table import TableTableJoin
from tests.reference.tables import LatestTable, VersionedTable, make_table
from tests.reference.windows import Emit, How, StreamStreamJoin, Windows

_BOTH = ("left", "right")
_TABLES = {"table-table": _BOTH, "fk-table-table": _BOTH, "stream-stream": (), "suppress": _BOTH, "aggregate": _BOTH}


class Reference:
    """Case after case, record after record."""

    def run(self, cases: Sequence[Case], rules: Rules) -> Mapping[str, Outcome]:
        return {case.id: self._run_one(case, rules) for case in cases}

    @staticmethod
    def _run_one(case: Case, rules: Rules) -> Outcome:
        try:
            join = make_join(case, rules)
            rows = [row for record, arm in arrivals(case) for row in getattr(join, arm)(record)]
        except Exception as error:  # noqa: BLE001 - whatever it is, this case has failed and the others go on
            return Outcome(error=f"{type(error).__name__}: {error}")
        late = join.late if isinstance(join, StreamStreamJoin) else []
        return Outcome(tuple(map(_row, rows)), tuple(dict.fromkeys(record.offset for record in late)))


def executor(seed: int) -> Executor:
    """Nothing here is left to chance."""
    del seed
    return Reference()


def make_join(case: Case, rules: Rules) -> Join:
    """The page of the case's join, set up as its parameters say."""
    params, join = case.params, joiner(case.joiner)
    match case.join:
        case "stream-stream":
            windows = Windows(params.before_ms, params.after_ms, params.grace_ms or 0)
            emit: Emit = "eager" if params.eager_legacy else "on_window_close"
            how = cast(How, case.how)
            if rules == "strict":
                return StrictJoin(how, windows, join, emit)
            return KafkaJoin(how, windows, join, emit, in_memory=params.window_store == "in-memory")
        case "stream-table":
            table = make_table(versioned=params.versioned, retention_ms=params.history_retention_ms)
            return StreamTableJoin(case.how, table, join, grace_ms=params.grace_ms)
        case "stream-global":
            return StreamGlobalJoin(case.how, KEY_MAPPERS[params.key_mapper], join)
        case "table-table":
            page = TableTableJoin(params.chain or (case.how,), _table(case, "left"), _table(case, "right"), join)
            if not params.suppress_side:
                return page
            return Suppressed(page, params.suppress_side, params.suppress_until_time_limit_ms)
        case "fk-table-table":
            return ForeignKeyJoin(
                case.how,
                _table(case, "left"),
                _table(case, "right"),
                FOREIGN_KEYS[params.fk_extractor],
                join,
                result_cached=params.cached and params.result_caching and params.queryable,
            )
        case "stream-table-fk":
            return ForeignKeyStreamJoin(case.how, FOREIGN_KEYS[params.fk_extractor], join)
        case "aggregate" | "to-table" | "suppress":
            return Derived(case)
        case _:
            raise ValueError(f"unknown join {case.join!r}")


def _table(case: Case, side: Literal["left", "right"]) -> LatestTable | VersionedTable:
    params = case.params
    versioned = params.left_versioned if side == "left" else params.right_versioned
    return make_table(versioned=versioned, retention_ms=params.history_retention_ms, cached=params.cached)


def arrivals(case: Case) -> Iterator[tuple[Record, Literal["left", "right"]]]:
    """The records in order and the side each goes to; in a self join first to the left, then to the right."""
    for one in case.inputs:
        if _is_lost_on_the_way(case, one):
            continue
        tables = _TABLES.get(case.join, ("right",))
        side = TABLE if one.topic in tables else STREAM
        record = Record(one.topic, one.partition, one.offset_order, one.ts, one.key, one.value, side)
        yield record, one.topic
        if case.params.self_join:
            yield record, "right"


def _is_lost_on_the_way(case: Case, one: Input) -> bool:
    """A repartition topic takes no null key, unless a join that can use it is behind it (semantics section 9)."""
    return case.params.repartitioned and one.key is None and case.how == "inner"


def _row(result: Result) -> Row:
    return Row(result.key, result.value, result.ts, result.cause.offset, result.old)
