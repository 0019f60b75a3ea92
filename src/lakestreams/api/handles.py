"""What the handles have in common: a node, the builder that collects it, and what is expected of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Self

from lakestreams.api.joining import require_one_argument
from lakestreams.api.kafka_names import unknown_method
from lakestreams.errors import InvalidOption, MixedBuilders, WrongKind
from lakestreams.errors.phrases import OptionValue, Phrase
from lakestreams.errors.places import NodePlace
from lakestreams.topology.expectations import Invariant, Rule, RuleAction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakestreams.api.builder import StreamsBuilder
    from lakestreams.topology.kinds import Predicate
    from lakestreams.topology.node import Node


class Handle:
    """A node together with the builder that collects it."""

    __slots__ = ("_builder", "_node")

    _has_rows: ClassVar[bool] = False  # of an output, or of groups, nothing can be made by a join

    def __init__(self, builder: StreamsBuilder, node: Node) -> None:
        self._builder = builder
        self._node = node

    @property
    def name(self) -> str:
        """The node's name."""
        return self._node.name

    @property
    def node(self) -> Node:
        """The node itself."""
        return self._node

    def __repr__(self) -> str:
        """Kind and name."""
        return f"{type(self).__name__}({self._node.name!r})"

    if not TYPE_CHECKING:  # type checkers know the methods

        def __getattr__(self, name: str) -> object:
            """Refuses a method that there is not, and says what to write instead."""
            if name.startswith("_"):
                raise AttributeError(name)
            raise unknown_method(self, f"the {type(self).__name__} {self.name}", name)

    # --- expectations ------------------------------------------------------------------------------------------------

    def expect(self, name: str, condition: str | Predicate) -> Self:
        """Expects each row to fulfil a condition; rows that violate it are counted and kept.

        Args:
            name: of the expectation, unique in the dataset.
            condition: SQL over the row's columns (those of the key, too), or a function from its fields to a boolean
                Column. A condition that is null is violated; SQL that would raise, such as a cast, is null.

        Returns:
            The same handle: an expectation is no step.
        """
        return self._expect({name: condition}, "warn")

    def expect_or_drop(self, name: str, condition: str | Predicate) -> Self:
        """As `expect`; a row that violates the condition goes to quarantine and no further.

        Of a source, an output, or a step that makes a stream. (A table that steps made has no row to leave out: its
        last one would stay without a word.)
        """
        return self._expect({name: condition}, "drop")

    def expect_or_fail(self, name: str, condition: str | Predicate) -> Self:
        """As `expect`; a row that violates the condition ends the run before anything of its cycle is published."""
        return self._expect({name: condition}, "fail")

    def expect_all(self, conditions: Mapping[str, str | Predicate]) -> Self:
        """As `expect`, with several conditions by name."""
        return self._expect(conditions, "warn")

    def expect_all_or_drop(self, conditions: Mapping[str, str | Predicate]) -> Self:
        """As `expect_or_drop`, with several conditions by name."""
        return self._expect(conditions, "drop")

    def expect_all_or_fail(self, conditions: Mapping[str, str | Predicate]) -> Self:
        """As `expect_or_fail`, with several conditions by name."""
        return self._expect(conditions, "fail")

    def holds(self, *invariants: Invariant) -> Self:
        """Expects an invariant of many rows, such as `FanOut(at_most=3)` of a join.

        Args:
            *invariants: of the kinds in `lakestreams.invariants`; each says which datasets it fits.

        Raises:
            InvalidOption: if something is no invariant.
        """
        for one in invariants:
            given: object = one  # users without a type checker pass anything
            if not isinstance(given, Invariant):
                msg = f"{self.name}.holds() takes invariants, not {given!r}"
                hint = "such as invariants.FanOut(at_most=3); a condition of each row is expect(name, condition)"
                raise InvalidOption(msg, hint=hint, where=self._node.where)
            self._builder.expect(self._node, one)
        return self

    def _expect(self, conditions: object, action: RuleAction) -> Self:
        if not isinstance(conditions, Mapping):  # users without a type checker pass anything
            hint = 'such as {"positive": "amount > 0"}; a single one is expect(name, condition)'
            message = f"{conditions!r} is no mapping of names to conditions"
            raise InvalidOption(message, hint=hint, where=self._node.where)
        for name, condition in conditions.items():
            self._builder.expect(self._node, Rule(self.name, name, condition, action))
        return self

    def _other(self, other: object, verb: str, takes: str) -> Node:
        """The node of the other handle that a step is given.

        Raises:
            WrongKind: if it is no stream and no table.
            MixedBuilders: if another builder collects it.
        """
        if not isinstance(other, Handle) or not other._has_rows:  # noqa: SLF001 - the same class family
            msg = f"{self.name}.{verb}() takes {takes}, not {_called(other)}"
            raise WrongKind(msg, hint=_instead_of(other), where=NodePlace(verb, self.name))
        if other._builder is not self._builder:  # noqa: SLF001 - as above
            msg = f"{self.name} and {other.name} belong to different builders"
            raise MixedBuilders(msg)
        return other.node

    def _named(self, name: str | None, verb: str) -> str:
        return f"{self.name}_{verb}" if name is None else name


class Output(Handle):
    """An output, of whose rows something can be expected; nothing can follow it."""

    __slots__ = ()


def require_function(function: object, where: str) -> None:
    """Refuses what is no function of a record's fields, such as SQL text; users without a type checker pass anything.

    Raises:
        InvalidOption: of the step at `where`.
    """
    if not callable(function):
        message = f"{function!r} is not a function"
        hint = 'give a function of the record\'s fields, such as lambda row: row.page != "/b"; in YAML files steps take SQL'
        raise InvalidOption(message, hint=hint, where=where)
    require_one_argument(function, where)


def columns_of(option: str, names: str | Iterable[str], table: str) -> tuple[str, ...]:
    """Names of columns of an output: several, or one alone, whose letters are no names.

    Raises:
        InvalidOption: if what is given has none.
    """
    try:
        return (names,) if isinstance(names, str) else tuple(names)
    except TypeError:  # users without a type checker pass anything
        message = Phrase(OptionValue(option, names), " names no columns")
        where = NodePlace("to_delta", table)
        raise InvalidOption(message, hint='such as ["user"], or leave it out', where=where) from None


def _called(other: object) -> str:
    """What was given in the place of a stream or table, as a message names it."""
    if isinstance(other, Handle):
        return f"the {type(other).__name__} of {other.name}"
    return type(other).__name__


def _instead_of(other: object) -> str:
    if isinstance(other, Output):
        return "nothing follows an output: join the stream or table that it writes"
    if isinstance(other, Handle):
        return "make a table of the groups first: count(), reduce(...) or aggregate(...)"
    return "give what stream(...), table(...) or a step has returned"
