"""What a release must not change unawares: of each ready pipeline and each join its description, hashes, plan and tables.

A user's tables and ledger hold these texts and names: where one changes, the next run refuses to go on, makes its state
anew, or looks for a table that is not there. So a change of golden.json needs a decision note. To write it anew:

    python -m pytest tests/topology/test_golden.py --store-golden
"""

from __future__ import annotations

import difflib
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.topology.pipelines import Declared, declared

from lakestreams import KTable, Topology
from lakestreams.cli.check import in_words
from lakestreams.config.compile import load_pipeline
from lakestreams.costs import commits
from lakestreams.engine.ledger import fingerprint
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.protocol import decisions
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.state import store as state
from lakestreams.topology import results
from lakestreams.topology.node import Node

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("golden.json")
READY = [path for path in sorted((ROOT / "conf").glob("*.yml")) if "\npipeline:" in path.read_text(encoding="utf-8")]


UNSEEN = {"Map", "FlatMap", "FlatMapValues", "KafkaSink"}
# Of each shape every kind, and every option that chooses another kernel or other rules. Nothing here is a function of
# Python: its digest is that of one version of Python.
SMALL: dict[str, Callable[[Declared], Any]] = {
    "stream-stream inner": lambda p: p.views.join(p.clicks, within="5 minutes"),
    "stream-stream left": lambda p: p.views.left_join(p.clicks, before="1 minute", after="2 minutes", grace="30 s"),
    "stream-stream outer": lambda p: p.views.outer_join(p.clicks, within="5 minutes", grace="1 minute"),
    "stream-stream outer kafka": lambda p: p.views.outer_join(p.clicks, within="5 minutes", rules="kafka"),
    "stream-stream left eager": lambda p: p.views.left_join(p.clicks, within="5 minutes", emit_unmatched="eager"),
    "stream-stream self": lambda p: p.views.join(p.views, within="5 minutes"),
    "stream-table inner": lambda p: p.views.join(p.users),
    "stream-table left": lambda p: p.views.left_join(p.users),
    "stream-table inner wait": lambda p: p.views.join(p.users, wait="1 minute"),
    "stream-table left wait": lambda p: p.views.left_join(p.users, wait="1 minute"),
    "stream-table left amend": lambda p: p.views.left_join(p.users, amend="1 hour"),
    "stream-table as of inner": lambda p: p.views.join(p.versioned),
    "stream-table as of left grace": lambda p: p.views.left_join(p.versioned, grace="1 minute"),
    "stream-global inner": lambda p: p.views.join(p.regions, left_on="region"),
    "stream-global left": lambda p: p.views.left_join(p.regions, left_on="region"),
    "table-table inner": lambda p: p.users.join(p.versioned),
    "table-table left": lambda p: p.users.left_join(p.versioned),
    "table-table outer": lambda p: p.users.outer_join(p.versioned),
    "foreign-key inner": lambda p: p.users.join(p.plans, left_on="plan"),
    "foreign-key left": lambda p: p.users.left_join(p.plans, left_on="plan"),
    "foreign-key stream inner": lambda p: p.views.join(p.users, right_on="region"),
    "foreign-key stream left": lambda p: p.views.left_join(p.users, right_on="region"),
    "aggregate of stream": lambda p: p.views.group_by_key().count(),
    "aggregate re-keyed": lambda p: p.views.group_by("region").count(emit="latest"),
    "aggregate windowed": lambda p: p.views.group_by_key().windowed_by("1 hour", advance="10 minutes").count(),
    "aggregate of table": lambda p: p.users.group_by("region").count(empty="delete"),
    "suppress until time": lambda p: p.users.suppress("1 minute", max_records=10),
    "suppress until window": lambda p: p.views.group_by_key().windowed_by("1 hour").count().suppress("window_closes"),
    "table of stream": lambda p: p.views.to_table().join(p.users),
    "stream of table": lambda p: p.users.to_stream().join(p.plans),
    "merge": lambda p: p.views.merge(p.views.select_key("region")),
    "repartition": lambda p: p.views.repartition(4).left_join(p.clicks.repartition(4), within="1 minute"),
    "drop absent deletes": lambda p: p.users.join(p.plans, left_on="plan").drop_absent_deletes(),
}  # fmt: skip


def small(name: str) -> Topology:
    """One shape alone, with an output."""
    of = declared()
    made = SMALL[name](of)
    made.to_delta("silver.out", **({"mode": "changes"} if isinstance(made, KTable) else {}))
    return of.builder.build()


def told(topology: Topology, configured: str = "") -> dict[str, Any]:
    """What is compared of a topology."""
    found = fingerprint.of(topology, configured)
    return {
        "describe": topology.describe().splitlines(),
        "meaning": found.semantics,
        "results": [
            f"{node}, {option}: {text}" for node, own in results.of(topology).items() for option, text in own.items()
        ],
        "plan": in_words(topology.nodes),
        "tables": tables(topology),
    }


def tables(topology: Topology) -> list[str]:
    """Names of all tables that are of this topology alone."""
    ledger = Ledger(Lake("lake").naming(topology), topology.name)
    lake = ledger.lake
    bronze = [lake.bronze(topology.name, one.topic).name for one in topology.sources]
    cached = [lake.snapshot(topology.name, one.topic).name for one in topology.sources if one.kind != "stream"]
    slots = f"{{{','.join(itertools.chain(*decisions.SLOTS.values()))}}}"
    kept = [state.table(ledger, node, frame, "").name + slots for node, frame in commits.frames(topology)]
    return [*bronze, *(lake.output(one.name).name for one in topology.sinks), *cached, *kept]


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    """What is made today."""
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("KAFKA_BOOTSTRAP", raising=False)
        ready = {}
        for path in READY:
            pipeline = load_pipeline(path)
            ready[f"conf/{path.name}"] = told(pipeline.topology, pipeline.semantics)
    return ready | {name: told(small(name)) for name in SMALL}


@pytest.fixture(scope="module")
def golden(request: pytest.FixtureRequest, now: dict[str, Any]) -> dict[str, Any]:
    """What was recorded; with --store-golden it is recorded now."""
    if request.config.getoption("--store-golden"):
        FILE.write_text(json.dumps(now, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def _lines(one: Any) -> list[str]:
    return json.dumps(one, indent=1, ensure_ascii=False).splitlines()


@pytest.mark.parametrize("name", [*(f"conf/{path.name}" for path in READY), *SMALL])
def test_nothing_recorded_has_changed(name: str, golden: dict[str, Any], now: dict[str, Any]) -> None:
    diff = difflib.unified_diff(_lines(golden.get(name)), _lines(now[name]), "golden.json", "now", lineterm="", n=4)
    different = "\n".join(diff)
    if different:
        pytest.fail(f"{name} has changed; if a decision says so, --store-golden records it\n{different}", pytrace=False)


def test_nothing_recorded_is_left_over(golden: dict[str, Any], now: dict[str, Any]) -> None:
    assert list(golden) == list(now)


def test_every_kind_of_node_is_among_them() -> None:
    """All but steps that need a function of Python, and that no ready pipeline has in YAML."""
    topologies = [*(load_pipeline(path).topology for path in READY), *map(small, SMALL)]
    seen = {type(node) for topology in topologies for node in topology.nodes}
    assert {one.__name__ for one in _kinds(Node) - seen} == UNSEEN


def _kinds(kind: type[Node]) -> set[type[Node]]:
    """The classes of nodes that are made: those that no other is derived of."""
    derived = [one for one in kind.__subclasses__() if one.__module__.startswith("lakestreams.")]  # not those of tests
    return {kind} if not derived else set().union(*map(_kinds, derived))


def test_nothing_of_it_is_of_one_version_of_python(golden: dict[str, Any]) -> None:
    assert not re.search(r"Python \d", json.dumps(golden))
