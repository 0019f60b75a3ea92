"""The topology of a case, in the words that users write, and how its records are told apart in columns.

Cases of one *kind* share a topology; only the windows of stream-stream joins may differ within a kind. Keys and values
are text that sorts as Kafka sorts the serialised key: `s` and the text, or `i` and a number in hexadecimal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.conformance.cases import Case, Rules
from tests.conformance.functions import joiner
from tests.conformance.params import DERIVED, Params

from lakestreams import KTable, StreamsBuilder, Text, Topology, agg
from lakestreams.topology.joins import WindowedJoin

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams import Fields

JOIN, OUTPUT = "joined", "out"
LONGEST = 10**9  # ms; each case has its own retention
_WORDS = 2**64


@dataclass(frozen=True)
class Kind:
    """What a topology is made of."""

    join: str
    how: str
    params: Params
    send_old_values: bool
    rules: Rules


def kind_of(case: Case, rules: Rules) -> Kind:
    """A case's kind: its parameters without those that may differ within one job, or that change nothing."""
    params = replace(
        case.params,
        cache_max_bytes=int(case.params.cached and case.join in ("table-table", "fk-table-table")),
        topology_optimization="none",
        send_old_values=False,
    )
    if case.join == "stream-stream":
        params = replace(params, before_ms=0, after_ms=0, grace_ms=0)
    if params.history_retention_ms is not None:
        versioned = params.versioned or params.left_versioned or params.right_versioned
        params = replace(params, history_retention_ms=LONGEST if versioned else None)
    return Kind(case.join, case.how, params, case.compares_old, rules)


def windows_of(case: Case) -> dict[str, tuple[int, int, int]]:
    """The windows of a case's join, by the join's name."""
    if case.join != "stream-stream":
        return {}
    return {JOIN: (case.params.before_ms, case.params.after_ms, case.params.grace_ms or 0)}


def build(kind: Kind) -> Topology:
    """The topology: sources `left` and `right`, one output.

    Raises:
        ValueError: for a join of another name.
    """
    builder = StreamsBuilder("conformance")
    make = {
        "stream-stream": _stream_stream,
        "stream-table": _stream_table,
        "stream-global": _stream_global,
        "table-table": _table_table,
        "fk-table-table": _foreign_key,
        "stream-table-fk": _foreign_key_stream,
        "aggregate": _aggregate,
        "to-table": _to_table,
        "suppress": _suppress,
    }.get(kind.join)
    if make is None:
        raise ValueError(f"unknown join {kind.join!r}")
    made = make(builder, kind)
    made.to_delta(OUTPUT, **({"mode": "changes"} if kind.join in DERIVED else {}))
    topology = builder.build()
    if kind.params.window_store == "in-memory":
        *others, join, sink = topology.nodes
        assert isinstance(join, WindowedJoin)
        join = replace(join, store="in_memory")
        topology = replace(topology, nodes=(*others, join, replace(sink, parent=join)))
    return topology


# --- one function a shape --------------------------------------------------------------------------------------------


def _stream_stream(builder: StreamsBuilder, kind: Kind) -> Any:
    params = kind.params
    left = _stream(builder, "left", kind)
    right = left if params.self_join else _stream(builder, "right", kind)
    options: dict[str, Any] = {"within": "0 s", "rules": kind.rules, "name": JOIN}
    if params.eager_legacy and kind.how != "inner":
        options["emit_unmatched"] = "eager"
    return _verb(left, kind.how)(right, _both, **options)


def _stream_table(builder: StreamsBuilder, kind: Kind) -> Any:
    params = kind.params
    table = _table(builder, "right", params, versioned=params.versioned)
    grace = {} if params.grace_ms is None else {"grace": f"{params.grace_ms} ms"}
    return _verb(_stream(builder, "left", kind), kind.how)(table, _both, name=JOIN, **grace)


def _stream_global(builder: StreamsBuilder, kind: Kind) -> Any:
    mapper = KEY_COLUMNS[kind.params.key_mapper]
    table = builder.global_table("right", key=Text("k"), value=Text("v"))

    def both(left: Fields, right: Fields) -> dict[str, Column]:
        return {**_both(left, right), "mapped": mapper(left)}

    left = _stream(builder, "left", kind)
    return _verb(left, kind.how)(table, both, left_on=lambda one: {"k": mapper(one)}, name=JOIN)


def _table_table(builder: StreamsBuilder, kind: Kind) -> Any:
    params = kind.params
    joined: Any = _table(builder, "left", params, versioned=params.left_versioned)
    right = _table(builder, "right", params, versioned=params.right_versioned)
    until = f"{params.suppress_until_time_limit_ms} ms"
    if params.suppress_side == "left":
        joined = joined.suppress(until)
    elif params.suppress_side == "right":
        right = right.suppress(until)
    for number, how in enumerate(params.chain or (kind.how,)):
        joined = _verb(joined, how)(right, _further if number else _both, name=f"{JOIN}{number}")
    return joined


def _foreign_key(builder: StreamsBuilder, kind: Kind) -> Any:
    params, extract = kind.params, KEY_COLUMNS[kind.params.fk_extractor]
    left = _table(builder, "left", params, versioned=params.left_versioned)
    right = _table(builder, "right", params, versioned=params.right_versioned)
    joined = _verb(left, kind.how)(right, _both, left_on=lambda one: {"k": extract(one)}, name=JOIN)
    if params.cached and params.result_caching and params.queryable:
        joined = joined.drop_absent_deletes()
    return joined


def _foreign_key_stream(builder: StreamsBuilder, kind: Kind) -> Any:
    extract = KEY_COLUMNS[kind.params.fk_extractor]
    table = _table(builder, "right", kind.params, versioned=False)
    left = _stream(builder, "left", kind)
    return _verb(left, kind.how)(table, _both, right_on=lambda one: {"k": extract(one)}, name=JOIN)


def _aggregate(builder: StreamsBuilder, kind: Kind) -> Any:
    """The probes' counts, and their adders and subtractors, which write down what they were given."""
    source, verb = kind.params.kind.split("-")
    if source == "kstream":
        grouped: Any = _stream(builder, "left", kind).map_values(lambda one: {"item": _raw(one.v)}).group_by_key()
    else:
        table = _table(builder, "left", kind.params, versioned=kind.params.versioned)
        grouped = table.group_by(lambda one: ({"k": _prefix(one.v, 1)}, {"item": _prefix(_raw(one.v), -1)}))
    if verb == "count":
        return grouped.count(name=JOIN).map_values(lambda one: {"left": _encoded(one["count"].cast("string"))})
    if verb == "reduce":
        put = [lambda one, value, sign=sign: {"item": _written(one.item, sign, value.item)} for sign in "+-"]
        made = grouped.reduce(*put[: 1 if source == "kstream" else 2], name=JOIN)
    else:
        signs: dict[str, Any] = {
            name: lambda text, item, sign=sign: _written(text, sign, item)
            for name, sign in (("add", "+"), ("subtract", "-"))
        }
        made = grouped.aggregate(lambda one: {"item": agg.fold(one.item, initial=F.lit("0"), **signs)}, name=JOIN)
    return made.map_values(lambda one: {"left": _encoded(one.item)})


def _to_table(builder: StreamsBuilder, kind: Kind) -> Any:
    return _stream(builder, "left", kind).to_table(name=JOIN).map_values(lambda one: {"left": one.v})


def _suppress(builder: StreamsBuilder, kind: Kind) -> Any:
    params = kind.params
    table = builder.table("left", key=Text("k"), value=Text("v"))
    held = table.suppress(f"{params.until_ms} ms", max_records=params.max_records, when_full=params.full, name=JOIN)  # type: ignore[arg-type]
    return held.map_values(lambda one: {"left": one.v})


def _written(text: Column, sign: str, item: Column) -> Column:
    return F.concat(text, F.lit(sign), item)


def _raw(encoded: Column) -> Column:
    return F.substr(encoded, F.lit(2))


def _encoded(text: Column) -> Column:
    return F.concat(F.lit("s"), text)


def _prefix(text: Column, count: int) -> Column:
    return F.substring_index(text, ":", count)


def _stream(builder: StreamsBuilder, name: str, kind: Kind) -> Any:
    stream = builder.stream(name, key=Text("k"), value=Text("v"))
    if not kind.params.repartitioned:
        return stream
    if kind.how == "inner":  # a repartition topic takes no null key, unless a join that can use it is behind it
        stream = stream.filter(lambda one: one.k.isNotNull(), name=f"{name}_with_key")
    return stream.select_key(lambda one: {"k": one.k}, name=f"{name}_rekeyed")


def _table(builder: StreamsBuilder, name: str, params: Params, *, versioned: bool) -> KTable:
    if versioned:
        return builder.table(
            name, key=Text("k"), value=Text("v"), as_of=True, history=f"{params.history_retention_ms} ms"
        )
    table = builder.table(name, key=Text("k"), value=Text("v"))
    return table.drop_absent_deletes() if params.cached else table


def _verb(side: Any, how: str) -> Callable[..., Any]:
    verb: Callable[..., Any] = getattr(side, "join" if how == "inner" else f"{how}_join")
    return verb


def _both(left: Fields, right: Fields) -> dict[str, Column]:
    return {"left": left.v, "right": right.v}


def _further(left: Fields, right: Fields) -> dict[str, Column]:
    return {"left": left.left, "right": left.right, "further": right.v}


# --- the functions that cases name, as columns -----------------------------------------------------------------------


def _text(encoded: Column) -> Column:
    """The text of what is encoded, a number's too, behind its `s`."""
    number = F.conv(F.substring(encoded, 2, 16), 16, -10)
    rest = F.substr(encoded, F.lit(2))
    return F.when(encoded.startswith("i"), F.concat(F.lit("s"), number)).otherwise(F.concat(F.lit("s"), rest))


def _single_pipe(one: Fields) -> Column:
    text = one.v
    pipes = F.length(text) - F.length(F.replace(text, F.lit("|"), F.lit("")))
    return F.when(pipes == 1, F.concat(F.lit("s"), F.substring_index(text, "|", -1)))


def _after_comma(one: Fields) -> Column:
    return F.when(F.instr(one.v, ",") > 0, F.concat(F.lit("s"), F.regexp_extract(one.v, "(?s),(.*)", 1)))


KEY_COLUMNS: dict[str, Callable[[Fields], Column]] = {
    "pipe1": _single_pipe,
    "pipe1-returnNull": lambda one: F.nullif(_single_pipe(one), F.lit("sreturnNull")),
    "pipe0": lambda one: F.substring_index(_text(one.v), "|", 1),
    "const-null": lambda _: F.lit(None).cast("string"),
    "key-colon0": lambda one: F.substring_index(_text(one.k), ":", 1),
    "comma1": _after_comma,
    "value": lambda one: one.v,
    "key": lambda one: one.k,
}


# --- texts of keys and values ----------------------------------------------------------------------------------------


def encode(value: Any) -> str | None:
    """A key or value as text; the texts of texts and of numbers sort as the serialised keys do."""
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return f"i{value % _WORDS:016x}"
    return f"s{value}" if isinstance(value, str) else f"j{json.dumps(value, ensure_ascii=False)}"


def decode(text: str | None) -> Any:
    """The key or value of a text."""
    if text is None or text[0] == "s":
        return text and text[1:]
    if text[0] == "j":
        return json.loads(text[1:])
    number = int(text[1:], 16)
    return number - _WORDS if number >= _WORDS // 2 else number


def joined_value(case: Case, key: Any, columns: Sequence[str | None]) -> Any:
    """What the case's joiner makes of the columns `left, right, further, mapped`."""
    left, right, further, mapped = map(decode, columns)
    if case.join in DERIVED:
        return left
    join = joiner(case.joiner)
    if len(case.params.chain) < 2:
        return join(key, left, right, mapped)
    first = None if left is None and right is None else join(key, left, right)
    return join(key, first, further)
