"""Which cases stand for all where all would take too long: one of each shape of join in each of its settings."""

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
    """As few cases as show every pair that cases of at most so many runs have; the engine takes them all.

    Random ones show what no recorded one does. Of each the first that has most settings, then fewest runs; none whose
    pairs the chosen ones show already.
    """
    chosen: list[Case] = []
    shown: set[Pair] = set()
    for cases in (recorded, random):
        found = [(case, pairs(case, rules), runs(case, rules)) for case in cases if takes(case)]
        for case, own, count in sorted(found, key=lambda one: (-len(one[1]), one[2])):
            if count <= most and not own <= shown:
                chosen.append(case)
                shown |= own
    return chosen
