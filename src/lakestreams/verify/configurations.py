"""Which configuration finished cycles ran under, and the topology that evaluates them again.

Cycles belong together that results follow for from the same (`fingerprint.of_state`), whatever else was configured. Those
of the given configuration are evaluated with its topology, others with that of the text that the ledger recorded of them;
of code that such a text names, nothing is imported but what the given file names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.config import recorded
from lakestreams.config.recorded import ImportedNames
from lakestreams.engine.ledger import fingerprint
from lakestreams.engine.ledger.plans import Plan
from lakestreams.evaluate.outputs import LINEAGE
from lakestreams.spark import holds_any

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from lakestreams.engine.ledger.fingerprint import Configuration
    from lakestreams.engine.ledger.ledger import Ledger
    from lakestreams.engine.ledger.plans import History
    from lakestreams.topology.topology import Topology


@dataclass(frozen=True)
class Group:
    """Cycles of one configuration.

    Attributes:
        topology: what evaluates them.
        semantics: the fingerprint of what their results follow from; None: an older version has not written it.
        plans: the cycles, ascending.
        is_current: whether it is the configuration that was given.
    """

    topology: Topology
    semantics: str | None
    plans: tuple[Plan, ...]
    is_current: bool

    @property
    def cycles(self) -> frozenset[int]:
        """The numbers of the cycles."""
        return frozenset(plan.cycle for plan in self.plans)


@dataclass
class Configurations:
    """What cycles ran under.

    Attributes:
        groups: the given configuration's first, if any cycle is of it; then the newest first.
        why_not: of the cycles that cannot be evaluated, why.
    """

    groups: list[Group] = field(default_factory=list)
    why_not: dict[int, str] = field(default_factory=dict)


def of(
    spark: SparkSession,
    ledger: Ledger,
    topology: Topology,
    history: History,
    plans: Sequence[Plan],
    configuration: Configuration | None,
) -> Configurations:
    """The configurations of some cycles.

    Args:
        topology: that is given.
        plans: the cycles, ascending.
        configuration: that is given; by default the newest one with the topology.
    """

    def is_current(own: Sequence[Plan]) -> bool:
        """Whether the same results follow from the given one; if only a topology is given, whether it is of that."""
        name = own[-1].fingerprint
        semantics = history.semantics_of.get(name)
        if configuration is not None:
            return semantics == configuration.semantics or any(plan.fingerprint == configuration.whole for plan in own)
        if semantics is not None:
            return fingerprint.is_of(semantics, topology)
        # older versions did not write its meaning
        return fingerprint.describes(ledger.configuration(spark, name), topology)

    same: dict[str, list[Plan]] = {}  # by what results follow from; where that is not known, by everything
    for plan in plans:
        same.setdefault(history.semantics_of.get(plan.fingerprint) or plan.fingerprint, []).append(plan)
    newest_first = sorted(same.values(), key=lambda own: own[-1].cycle, reverse=True)
    current = next((own for own in newest_first if is_current(own)), None)
    configurations = Configurations()
    named = ImportedNames() if configuration is None else ImportedNames.by(fingerprint.parts(configuration.text)[1])
    for own in newest_first:
        semantics = history.semantics_of.get(own[-1].fingerprint)
        if own is current:
            configurations.groups.insert(0, Group(topology, semantics, tuple(own), is_current=True))
            continue
        description, text = fingerprint.parts(ledger.configuration(spark, own[-1].fingerprint))
        try:
            compiled = recorded.topology(text, description, named)
        except recorded.NotCompiled as error:
            configurations.why_not |= {plan.cycle: str(error) for plan in own}
        else:
            configurations.groups.append(Group(compiled, semantics, tuple(own), is_current=False))
    return configurations


def within(cycles: Iterable[int]) -> Column:
    """Whether a row's cycle is one of these."""
    cycle = F.col(LINEAGE)["cycle"]
    runs = _runs(dict.fromkeys(sorted(cycles), ""))
    return holds_any(cycle.between(first, last) for first, last, _ in runs)


def in_words(plans: Iterable[Plan]) -> str:
    """Cycles in words, with the fingerprint of what they ran under."""
    runs = _runs({plan.cycle: plan.fingerprint for plan in sorted(plans, key=lambda one: one.cycle)})
    return ", ".join(f"cycles {first} to {last} ({name})" for first, last, name in runs)


def _runs(names: Mapping[int, str]) -> list[tuple[int, int, str]]:
    """Cycles, ascending, that follow each other and have the same name: first, last, name."""
    runs: list[tuple[int, int, str]] = []
    for cycle, name in names.items():
        if runs and runs[-1][1:] == (cycle - 1, name):
            runs[-1] = (runs[-1][0], cycle, name)
        else:
            runs.append((cycle, cycle, name))
    return runs
