"""The functions that the expressions of a pipeline's file become: mappers, joiners, predicates, aggregators.

Equal expressions make equal functions, so that a file that is loaded twice gives equal topologies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakestreams.errors import LakestreamsError, TopologyInvalid, unfold
from lakestreams.expressions.parse import Expression
from lakestreams.spark import F
from lakestreams.sql import quoted
from lakestreams.topology import aggregators as agg
from lakestreams.topology.mappers import ByName

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.topology.fields import Fields


@dataclass(frozen=True)
class Projection:
    """The mapper or joiner that a `select` of a file becomes.

    Attributes:
        columns: name and expression of each column that comes out.
        sides: the names of the inputs, in the order in which their fields are given.
    """

    columns: tuple[tuple[str, Expression], ...]
    sides: tuple[str, ...]

    def __call__(self, *fields: Fields) -> Mapping[str, Column]:
        """The columns over the given inputs.

        Raises:
            TopologyInvalid: with the faults of all columns (one alone is raised as itself).
        """
        return _columns(self.columns, dict(zip(self.sides, fields, strict=True)))


@dataclass(frozen=True)
class Computed:
    """One column of one input: the predicate that a `where` becomes, or the array that an `each` does."""

    expression: Expression
    side: str

    def __call__(self, fields: Fields) -> Column:
        """The column over the input."""
        return self.expression.column({self.side: fields})


@dataclass(frozen=True)
class Elements:
    """The array that an `each` becomes, with columns of the record in each of its elements.

    Attributes:
        each: the array.
        keep: makes these columns; one that has the name of a member takes its place.
    """

    each: Computed
    keep: ByName | Projection

    def __call__(self, fields: Fields) -> Column:
        """The array over the input."""
        kept, array = self.keep(fields), self.each(fields)

        def with_kept(element: Column) -> Column:
            for name, column in kept.items():
                element = element.withField(quoted(name), column)
            return element

        return F.transform(array, with_kept)


@dataclass(frozen=True)
class Pair:
    """A key and a value, each made by a mapper of its own."""

    key: ByName | Projection
    value: Projection

    def __call__(self, fields: Fields) -> tuple[Mapping[str, Column], Mapping[str, Column]]:
        """Both over the input."""
        return self.key(fields), self.value(fields)


@dataclass(frozen=True)
class Aggregation:
    """The aggregators that the `columns` of an aggregate become.

    Attributes:
        columns: of each column that comes out its name, the word of its aggregator, and the expression that it is of;
            a count of all has none.
        side: the name of the input.
    """

    columns: tuple[tuple[str, str, Expression | None], ...]
    side: str

    def __call__(self, fields: Fields) -> Mapping[str, agg.Aggregator]:
        """The aggregators over the columns of the input.

        Raises:
            TopologyInvalid: as a `Projection` does.
        """
        values = _columns([(name, of) for name, _, of in self.columns if of is not None], {self.side: fields})
        aggregators: dict[str, Any] = {}
        for name, kind, of in self.columns:
            make = getattr(agg, kind)
            aggregators[name] = make() if of is None else make(values[name])
        return aggregators


def expressions_of(function: object) -> Iterator[Expression]:
    """The expressions that such a function is made of; none of any other function."""
    if isinstance(function, Projection):
        yield from (one for _, one in function.columns)
    elif isinstance(function, Computed):
        yield function.expression
    elif isinstance(function, Elements):
        yield from (*expressions_of(function.each), *expressions_of(function.keep))
    elif isinstance(function, Pair):
        yield from (*expressions_of(function.key), *expressions_of(function.value))
    elif isinstance(function, Aggregation):
        yield from (one for _, _, one in function.columns if one is not None)


def _columns(
    columns: list[tuple[str, Expression]] | tuple[tuple[str, Expression], ...], sides: Mapping[str, Fields]
) -> dict[str, Column]:
    faults: list[LakestreamsError] = []
    compiled: dict[str, Column] = {}
    for name, expression in columns:
        try:
            compiled[name] = expression.column(sides)
        except LakestreamsError as fault:
            faults.extend(unfold(fault))
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise TopologyInvalid(faults)
    return compiled
