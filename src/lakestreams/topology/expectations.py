"""What a pipeline expects of its data: rules, which are SQL over one row, and invariants, which look at many.

Both belong to a dataset, which is a node: a source, a step, or an output. They say nothing about what flows; a topology
without them gives the same results, but for the rows that a rule with the action `drop` keeps out.
Facts about the originals (Lakeflow's expectations): a condition that is null counts as violated.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from types import CellType, CodeType, NoneType
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from lakestreams.errors import InvalidName, InvalidOption
from lakestreams.errors.phrases import OptionValue, Phrase
from lakestreams.errors.places import NodePlace
from lakestreams.topology.durations import Duration, to_ms
from lakestreams.topology.invariant_options import require_fit

if TYPE_CHECKING:
    from lakestreams.topology.kinds import Partitioner, Predicate
    from lakestreams.topology.node import Node

RuleAction = Literal["warn", "drop", "fail"]
InvariantAction = Literal["warn", "fail"]

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_ .-]{0,127}\Z")


@dataclass(frozen=True)
class Rule:
    """One condition that each row of a dataset is to fulfil.

    A row without a value (a deletion, a null value) is not judged.

    Attributes:
        dataset: the node whose rows are judged.
        name: unique in the dataset; it names the rule in counts, quarantine and errors.
        condition: SQL over the row's columns, or a function from its fields to a boolean Column; null is violated.
        action: `warn` counts, `drop` sends the row to quarantine, `fail` ends the run before anything is published.
    """

    dataset: str
    name: str
    condition: str | Predicate
    action: RuleAction = "warn"

    def __post_init__(self) -> None:
        """Refuses names that nobody could refer to.

        Raises:
            InvalidName: for an unfit name.
            InvalidOption: for an unknown action, or an empty condition.
        """
        where = NodePlace("expectation", self.name)
        name: object = self.name  # users without a type checker pass anything
        condition: object = self.condition
        if not isinstance(name, str) or not _NAME.match(name):
            message = f"{self.name!r} is no name of an expectation"
            raise InvalidName(
                message, hint="letters, digits, space, dot, _ and -, beginning with a letter", where=where
            )
        if self.action not in ("warn", "drop", "fail"):
            raise InvalidOption.none_of("action", self.action, ("warn", "drop", "fail"), where)
        if not callable(condition) and not (isinstance(condition, str) and condition.strip()):
            message = f"the condition {condition!r} is neither SQL nor a function"
            raise InvalidOption(message, hint="""such as "amount > 0" """.strip(), where=where)

    @property
    def text(self) -> str:
        """The condition in words: its SQL, or the name of its function."""
        if isinstance(self.condition, str):
            return self.condition
        return f"{getattr(self.condition, '__qualname__', type(self.condition).__name__)}()"

    @property
    def id(self) -> str:
        """Name and a digest of the condition, by which counts are recorded: another condition is another rule."""
        code = getattr(self.condition, "__code__", None)
        # of SQL with references to the environment, also what they stand for
        of = (
            f"{self.text}{getattr(self.condition, 'digest', '')}"
            if code is None
            else f"{self.text} {text_of_code(code)} {_bound(self.condition)}"
        )
        return f"{self.name}#{hashlib.sha256(of.encode()).hexdigest()[:8]}"

    def describe(self) -> str:
        """The rule in a line."""
        return f"expect {self.name}: {self.text} ({self.action})"


def text_of_code(code: CodeType) -> str:
    """What a function does, as a text that is the same in every process."""
    constants = [text_of_code(one) if isinstance(one, CodeType) else _plain(one) for one in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"


def _bound(function: object) -> list[str]:
    """Values that a function brings along: defaults, and what it has from around it; of other objects their type."""
    cells = (_content(cell) for cell in getattr(function, "__closure__", None) or ())
    return [_plain(one) for one in (*(getattr(function, "__defaults__", None) or ()), *cells)]


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return None


def _plain(value: object) -> str:
    if isinstance(value, frozenset):
        return repr(sorted(map(repr, value)))
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))})"
    known = isinstance(value, str | bytes | int | float | NoneType)
    return repr(value) if known else type(value).__qualname__


@dataclass(frozen=True)
class Invariant(ABC):
    """What is to hold of many rows; its kinds are the classes below.

    Attributes:
        action: `warn` counts and tells, `fail` ends the run before anything of the cycle is published.
    """

    name: ClassVar[str]

    action: InvariantAction = "warn"

    def __post_init__(self) -> None:
        """Refuses an unknown action, and options of another kind than declared.

        Raises:
            InvalidOption, InvalidDuration: then.
        """
        where = NodePlace("invariant", self.name)
        if self.action not in ("warn", "fail"):
            message = Phrase(OptionValue("action", self.action), " is none of warn, fail")
            raise InvalidOption(message, hint="an invariant judges many rows: none of them can be dropped for it",
                                where=where)  # fmt: skip
        for option in fields(self):
            require_fit(str(option.type), option.name, getattr(self, option.name), where)

    def describe(self) -> str:
        """The invariant in a line."""
        options = [f"{one.name} {getattr(self, one.name)}" for one in fields(self) if one.name != "action"]
        return f"invariant {self.name}: {', '.join((*options, self.action))}"

    @abstractmethod
    def unfit(self, node: Node) -> str | None:
        """Why the invariant says nothing of a node's rows; None if it fits."""


class _OfSources(Invariant):
    def unfit(self, node: Node) -> str | None:
        return None if node.role == "source" else "it is one of sources"


class _OfPartitions(_OfSources):
    def unfit(self, node: Node) -> str | None:
        return super().unfit(node) or (None if node.has_partitions else "a Delta table has one partition")


class _OfJoins(Invariant):
    def unfit(self, node: Node) -> str | None:
        return None if node.role == "join" else "it is one of joins"


class _OfStreamJoins(_OfJoins):
    def unfit(self, node: Node) -> str | None:
        return super().unfit(node) or ("a table has one row a key" if node.is_table else None)


@dataclass(frozen=True)
class FanOut(_OfStreamJoins):
    """Of a join: a bound for the matched results of one left record, over all cycles."""

    name: ClassVar[str] = "fan_out"
    at_most: int = 1


@dataclass(frozen=True)
class OneOutcomePerLeft(_OfStreamJoins):
    """Of a join: no record of the left side comes out both matched and unmatched, or unmatched twice."""

    name: ClassVar[str] = "one_outcome_per_left"


@dataclass(frozen=True)
class MatchRate(_OfJoins):
    """Of a left or outer join: the share of matched results over a span of stream time.

    Attributes:
        at_least: the share, 0 to 1.
        over: the span; the cycles whose clocks lie in it count.
        records: with fewer results in the span nothing is judged.
    """

    name: ClassVar[str] = "match_rate"
    at_least: float = 0.9
    over: Duration = "1 hour"
    records: int = 100

    @property
    def over_ms(self) -> int:
        """The span in ms."""
        return to_ms(self.over, "over")

    def unfit(self, node: Node) -> str | None:
        """It fits joins that tell what met nothing."""
        return super().unfit(node) or (
            None if node.keeps_unmatched else "an inner join does not tell what met nothing; a left_join does"
        )


@dataclass(frozen=True)
class ForeignKeyExists(_OfJoins):
    """Of a foreign-key left join: each row of the left table names an existing row.

    Those that do not are listed as orphans in the table `_lakestreams.orphans`, until the row comes.
    """

    name: ClassVar[str] = "foreign_key_exists"

    def unfit(self, node: Node) -> str | None:
        """It fits joins that know which rows name one that is not there."""
        return super().unfit(node) or (None if node.knows_orphans else "it is one of foreign-key left joins of tables")


@dataclass(frozen=True)
class UniqueKey(Invariant):
    """Of an output that is appended to: no two rows with the same values in these columns.

    Attributes:
        columns: of the output.
        within: how far apart in event time two such rows are looked for.
    """

    name: ClassVar[str] = "unique_key"
    columns: tuple[str, ...] = ()
    within: Duration = "1 day"

    def __post_init__(self) -> None:
        """Takes one column as such: its letters are no names. Else as for every invariant."""
        given: object = self.columns
        if isinstance(given, str):
            object.__setattr__(self, "columns", (given,))
        super().__post_init__()

    @property
    def within_ms(self) -> int:
        """The span in ms."""
        return to_ms(self.within, "within")

    def unfit(self, node: Node) -> str | None:
        """It fits Delta tables that are appended to."""
        if not node.appends:
            return "it is one of outputs that are appended to"
        return None if self.columns else "it names no columns"


@dataclass(frozen=True)
class NoDuplicateResult(Invariant):
    """Of a step or output: no two rows with the same lineage: trigger and place, or contributors and kind."""

    name: ClassVar[str] = "no_duplicate_result"

    def unfit(self, node: Node) -> str | None:
        """It fits everything that has results."""
        return "it is one of steps and outputs" if node.role == "source" else None


@dataclass(frozen=True)
class Lateness(_OfSources):
    """Of a source: no record is further behind its partition's stream time than this."""

    name: ClassVar[str] = "lateness"
    at_most: Duration = "1 hour"

    @property
    def at_most_ms(self) -> int:
        """The bound in ms."""
        return to_ms(self.at_most, "at_most")


@dataclass(frozen=True)
class TimeSkew(_OfJoins):
    """Of a join of two streams: the stream times of its sides lie no further apart than this after a cycle."""

    name: ClassVar[str] = "time_skew"
    at_most: Duration = "1 hour"

    @property
    def at_most_ms(self) -> int:
        """The bound in ms."""
        return to_ms(self.at_most, "at_most")

    def unfit(self, node: Node) -> str | None:
        """It fits joins whose sides have a clock each."""
        return super().unfit(node) or (None if node.joins_streams else "it is one of joins of two streams")


@dataclass(frozen=True)
class KeyOnHomePartition(_OfPartitions):
    """Of a source: each record lies on the partition that this partitioner gives its key's bytes."""

    name: ClassVar[str] = "key_on_home_partition"
    partitioner: Partitioner = "murmur2"


@dataclass(frozen=True)
class OneKeyOnePartition(_OfPartitions):
    """Of a source: no key lies in two partitions; between them its records have no defined order.

    Attributes:
        look_back: how many records of each partition before the cycle's own are looked at, too.
    """

    name: ClassVar[str] = "one_key_one_partition"
    look_back: int = 200_000


@dataclass(frozen=True)
class Skew(_OfPartitions):
    """Of a source: no partition has more than this share of a cycle's records.

    Attributes:
        at_most: the share, 0 to 1.
        records: with fewer records nothing is judged.
    """

    name: ClassVar[str] = "skew"
    at_most: float = 0.5
    records: int = 1_000


@dataclass(frozen=True)
class Layout(Invariant):
    """Of an output: its table is clustered or partitioned as declared; checked when a run begins."""

    name: ClassVar[str] = "layout"

    def unfit(self, node: Node) -> str | None:
        """It fits Delta tables."""
        return None if node.has_layout else "it is one of outputs that are Delta tables"


INVARIANTS: Final[dict[str, type[Invariant]]] = {
    kind.name: kind
    for kind in (
        FanOut, OneOutcomePerLeft, MatchRate, ForeignKeyExists, UniqueKey, NoDuplicateResult, Lateness, TimeSkew,
        KeyOnHomePartition, OneKeyOnePartition, Skew, Layout,
    )
}  # fmt: skip
# Judged record by record while they are read, as rules are.
OF_RECORDS: Final = (Lateness, KeyOnHomePartition)


@dataclass(frozen=True)
class Expectations:
    """All rules and invariants of a topology, in the order of declaration.

    Attributes:
        rules: each with its dataset.
        invariants: dataset and invariant.
    """

    rules: tuple[Rule, ...] = ()
    invariants: tuple[tuple[str, Invariant], ...] = ()

    def rules_of(self, dataset: str) -> tuple[Rule, ...]:
        """The rules of a dataset."""
        return tuple(rule for rule in self.rules if rule.dataset == dataset)

    def invariants_of(self, dataset: str) -> tuple[Invariant, ...]:
        """The invariants of a dataset."""
        return tuple(one for name, one in self.invariants if name == dataset)

    def describe(self, dataset: str) -> list[str]:
        """Those of a dataset, a line each."""
        rules = [one.describe() for one in self.rules_of(dataset)]
        return rules + [one.describe() for one in self.invariants_of(dataset)]

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.rules or self.invariants)
