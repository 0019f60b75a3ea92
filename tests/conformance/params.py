"""The parameters of a case, by join. A name or a value that is not known here makes the case fail: it may matter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

HOWS: Mapping[str, tuple[str, ...]] = {
    "stream-stream": ("inner", "left", "outer"),
    "stream-table": ("inner", "left"),
    "stream-global": ("inner", "left"),
    "table-table": ("inner", "left", "outer"),
    "fk-table-table": ("inner", "left"),
    "stream-table-fk": ("inner", "left"),
    # of extra cases: no joins, hence no kinds of one
    "aggregate": ("None",),
    "to-table": ("None",),
    "suppress": ("None",),
}
DERIVED = ("aggregate", "to-table", "suppress")


class CaseFault(Exception):
    """A case that cannot be run as it is written; the message says why."""


@dataclass(frozen=True)
class Params:
    """All parameters of all joins; what a case does not say has Kafka's default."""

    before_ms: int = 0
    after_ms: int = 0
    grace_ms: int | None = None  # a stream-table join without one does not buffer at all
    eager_legacy: bool = False  # unmatched rows at once, as the deprecated `JoinWindows.of` does
    emit_interval_ms: int = 0  # of unmatched rows, in wall-clock time; only 0 can be run
    window_store: str = "rocksdb"  # or in-memory; matters under the kafka rules only
    self_join: bool = False  # the left topic on both sides
    topology_optimization: str = "none"  # one store instead of two; the results are the same
    repartitioned: bool = (
        False  # both inputs pass a step that sets the same key again; inner joins lose null keys there
    )
    versioned: bool = False  # the table of a stream-table join
    left_versioned: bool = False
    right_versioned: bool = False
    history_retention_ms: int | None = None  # of every versioned table
    fk_extractor: str = ""
    key_mapper: str = ""
    chain: tuple[str, ...] = ()  # kinds of successive joins with the same right table
    send_old_values: bool = False  # the expected rows say the prior result too
    cache_max_bytes: int = 0  # more than 0: caches before unversioned tables, flushed after every record
    result_caching: bool = False  # of a foreign-key join's result
    queryable: bool = False  # the result is a store that can be queried: only then is it cached
    suppress_side: str = ""  # which table of a table-table join is suppressed
    suppress_until_time_limit_ms: int = 0
    suppress_buffer: str = "unbounded"
    kind: str = ""  # of an aggregation: what it is made of, and how
    until_ms: int = 0  # of a suppression
    max_records: int | None = None
    full: str = "emit"  # or shutdown

    @property
    def cached(self) -> bool:
        return self.cache_max_bytes > 0


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _length(value: Any) -> bool:
    return _whole(value) and value >= 0


def _optional_length(value: Any) -> bool:
    return value is None or _length(value)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _one_of(*values: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in values


def _chain(value: Any) -> bool:
    steps = value if isinstance(value, list) else [None]
    return bool(steps) and all(
        isinstance(step, dict) and set(step) == {"how"} and step["how"] in HOWS["table-table"] for step in steps
    )


_CACHE = {"cache_max_bytes": _length}
_HISTORY = {"history_retention_ms": _optional_length}
_SIDES = {"left_versioned": _flag, "right_versioned": _flag, **_HISTORY}
_SUPPRESS = {
    "suppress_side": _one_of("left", "right"),
    "suppress_until_time_limit_ms": _length,
    "suppress_buffer": _one_of("unbounded"),
}
_AGGREGATIONS = [f"{of}-{how}" for of in ("kstream", "ktable") for how in ("count", "reduce", "aggregate")]
_FOREIGN_KEY = {"fk_extractor": _one_of("pipe1", "pipe0", "const-null", "pipe1-returnNull", "key-colon0")}

KNOWN: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    "stream-stream": {
        "before_ms": _whole,
        "after_ms": _whole,
        "grace_ms": _length,
        "eager_legacy": _flag,
        "emit_interval_ms": lambda value: _whole(value) and value == 0,
        "window_store": _one_of("rocksdb", "in-memory"),
        "self_join": _flag,
        "topology_optimization": _one_of("none", "all", "single.store.self.join"),
        "repartitioned": _flag,
        **_CACHE,
    },
    "stream-table": {"versioned": _flag, "grace_ms": _optional_length, **_HISTORY, **_CACHE},
    "stream-global": {"key_mapper": _one_of("comma1", "value", "key"), **_CACHE},
    "table-table": {**_SIDES, **_SUPPRESS, "chain": _chain, "send_old_values": _flag, **_CACHE},
    "fk-table-table": {**_FOREIGN_KEY, **_SIDES, "result_caching": _flag, "queryable": _flag, **_CACHE},
    "stream-table-fk": {**_FOREIGN_KEY, **_CACHE},
    "aggregate": {"kind": _one_of(*_AGGREGATIONS), "versioned": _flag, **_HISTORY, **_CACHE},
    "to-table": _CACHE,
    "suppress": {"until_ms": _length, "max_records": _length, "full": _one_of("emit", "shutdown"), **_CACHE},
}
NEEDED: Mapping[str, tuple[str, ...]] = {
    "stream-stream": ("before_ms", "after_ms", "grace_ms"),
    "stream-global": ("key_mapper",),
    "fk-table-table": ("fk_extractor",),
    "stream-table-fk": ("fk_extractor",),
    "aggregate": ("kind",),
    "suppress": ("until_ms",),
}


def read_params(join: str, how: str, raw: Mapping[str, Any]) -> Params:
    """The parameters of a case.

    Raises:
        CaseFault: the join, a parameter or its value is not known, or they contradict each other.
    """
    if join not in HOWS:
        raise CaseFault(f"unknown join {join!r}")
    if how not in HOWS[join]:
        raise CaseFault(f"a {join} join has no how {how!r}")
    known = KNOWN[join]
    for name, value in raw.items():
        if name not in known:
            raise CaseFault(f"unknown parameter {name!r} of a {join} join")
        if not known[name](value):
            raise CaseFault(f"parameter {name!r} of a {join} join cannot be {value!r}")
    for name in NEEDED.get(join, ()):
        if name not in raw:
            raise CaseFault(f"a {join} join needs the parameter {name!r}")
    values = dict(raw)
    values["chain"] = tuple(step["how"] for step in raw.get("chain", ()))
    params = Params(**values)
    _check(how, params)
    return params


def _check(how: str, params: Params) -> None:
    """What Kafka Streams refuses when the topology is built."""
    versioned = params.versioned or params.left_versioned or params.right_versioned
    if versioned and params.history_retention_ms is None:
        raise CaseFault("a versioned table needs 'history_retention_ms'")
    if params.before_ms + params.after_ms < 0:
        raise CaseFault("'before_ms' + 'after_ms' must not be negative")
    if params.versioned and (params.grace_ms or 0) > (params.history_retention_ms or 0):
        raise CaseFault("'grace_ms' must not exceed 'history_retention_ms'")
    if params.chain and params.chain[-1] != how:
        raise CaseFault(f"the last join of the chain is {params.chain[-1]!r}, the case's how is {how!r}")
