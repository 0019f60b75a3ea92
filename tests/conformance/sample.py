"""Which cases stand for all where all would take too long: one of each shape of join, with as many settings as it has."""

from __future__ import annotations

from collections.abc import Sequence

from tests.conformance.cases import Case, Rules
from tests.conformance.stream import cut, takes, topology_of
from tests.conformance.topologies import kind_of

Pair = tuple[str, str]  # a shape and a setting


def shape_of(case: Case) -> str:
    """The join and its kind; of an aggregation, of what and how."""
    return f"{case.join} {case.params.kind or case.how}"


def pairs(case: Case, rules: Rules) -> frozenset[Pair]:
    """What a case stands for: its shape, with each setting that is not Kafka's default, or with `plain`."""
    params, windows = kind_of(case, rules).params, case.params
    settings = {
        "as of": params.versioned and windows.grace_ms is None,
        "left as of": params.left_versioned,
        "right as of": params.right_versioned,
        "grace": bool(windows.grace_ms),
        "only before": windows.before_ms > windows.after_ms,
        "only after": windows.after_ms > windows.before_ms,
        "eager": params.eager_legacy,
        "in-memory store": params.window_store != "rocksdb",
        "self-join": params.self_join,
        "repartitioned": params.repartitioned,
        "cache": params.cache_max_bytes > 0,
        "chain": len(params.chain) > 1,
        f"suppressed {params.suppress_side}": bool(params.suppress_side),
        "bound": params.max_records is not None,
    }
    return frozenset(
        (shape_of(case), name) for name in [name for name, is_so in settings.items() if is_so] or ["plain"]
    )


def runs(case: Case, rules: Rules) -> int:
    """How many runs of the engine a case takes: one for each piece that it is cut into."""
    return len(cut(topology_of(kind_of(case, rules)), case))


def sample(recorded: Sequence[Case], random: Sequence[Case], rules: Rules, most: int) -> list[Case]:
    """A case of each shape, of those that the engine takes in at most so many runs.

    Random ones show the shapes that no recorded one has. Of each shape the first that has most settings, then fewest runs.
    """
    chosen: dict[str, Case] = {}
    for cases in (recorded, random):
        found = [(case, len(pairs(case, rules)), runs(case, rules)) for case in cases if takes(case)]
        for case, _, count in sorted(found, key=lambda one: (-one[1], one[2])):
            if count <= most:
                chosen.setdefault(shape_of(case), case)
    return list(chosen.values())
